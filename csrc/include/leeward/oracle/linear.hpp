// Linear models: l_i(w) = loss(x_i . w + b; y_i), with C scores a sample for softmax.
//
// w is [coef (outputs x cols, row by row), intercepts (outputs, if any)]. Rows are walked in tiles that fit the L2 cache;
// a task is a run of tiles and owns its partial gradient, partial gradients are added by a fixed tree. Tiles and tasks
// follow from the sizes of the batch and the matrix alone, so the bits do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <memory>

#include "leeward/hd/scalar_loss.hpp"
#include "leeward/oracle/linear_matrix.hpp"
#include "leeward/oracle/loss_passes.hpp"
#include "leeward/oracle/oracle.hpp"
#include "leeward/oracle/score_memo.hpp"

namespace leeward {

// What makes a linear model, besides its matrix. The labels (size n) and the memo outlive the oracle; the memo may be null.
struct LinearSettings {
  hd::LossSpec loss;
  const double* labels = nullptr;
  std::int64_t outputs = 1;  // number of classes for softmax
  bool intercept = true;
  ScoreMemo* memo = nullptr;
};

class LinearOracle final : public Oracle {
 public:
  LinearOracle(std::shared_ptr<const LinearMatrix> matrix, LinearSettings settings);

  std::int64_t size() const override { return matrix_->rows(); }
  std::int64_t dim() const override { return outputs() * (matrix_->cols() + (settings_.intercept ? 1 : 0)); }
  std::int64_t outputs() const { return settings_.outputs; }
  std::int64_t memory_per_sample() const override { return outputs(); }  // slopes, or the scores of several outputs
  const LinearMatrix& matrix() const { return *matrix_; }
  const LinearSettings& settings() const { return settings_; }

  void losses(const double* w, Batch batch, double* out, Resources& use) const override;
  void gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const override;

  // The rest of what certificates and preconditioners need; (m, outputs) arrays are row by row.
  void slopes(const double* w, Batch batch, double* out, Resources& use) const;      // dloss/dscore (m, outputs)
  void curvatures(const double* w, Batch batch, double* out, Resources& use) const;  // second derivatives (m, outputs)
  void adjoint(const double* v, double* out, Resources& use) const;                  // sum_i v_i (x_i, 1), v (n, outputs)
  void conjugate(const double* s, double* out, Resources& use) const;                // l_i^*(s_i), s (n, outputs)
  void smoothness(double* out, Resources& use) const;                                // Lipschitz constants of grad l_i

 private:
  // What is made of the scores and labels of some samples; the slopes are to be written too where they are asked for.
  using Pass = void (*)(const hd::LossSpec&, LossInputs in, double* out, double* slopes);
  void from_scores(const double* w, Batch batch, std::int64_t width, Pass pass, double* out, Resources& use) const;
  std::shared_ptr<const LinearMatrix> matrix_;
  LinearSettings settings_;
};

// out[k * outputs + c] = x_{batch[k]} . w_c + b_c, for any matrix (so also for rows the model was not made from).
void linear_scores(const LinearMatrix& matrix, const double* w, std::int64_t outputs, bool intercept, Batch batch,
                   double* out, Resources& use);

}  // namespace leeward
