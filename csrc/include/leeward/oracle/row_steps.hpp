// Steps of a stochastic method on a linear model, made row by row inside the matrix. With rows i of one step, factors f_i,
// s_i = l'(z_i; y_i) the slope at w and s~_i that at the snapshot w~,
//
//   w <- prox(w - step (sum_i f_i (s_i - s~_i) (x_i, 1) + g + l2 w)),
//
// l2 and prox on the coefficients alone. Without a snapshot s~ = 0. A dense row is read twice a step, the second time with
// the update; on CSR rows the dense part (g, l2, prox) of a coordinate waits until a row needs it (core/lazy_steps.hpp).
#pragma once

#include <cstdint>
#include <memory>

#include "leeward/core/lazy_steps.hpp"
#include "leeward/core/views.hpp"
#include "leeward/hd/scalar_loss.hpp"

namespace leeward {

// What the model is, as far as steps need it.
struct StepModel {
  hd::LossSpec loss;
  std::int64_t outputs = 1;
  bool intercept = true;
};

// Vectors are laid out like w: coefficients (outputs x cols), then intercepts.
struct StepRule {
  double step = 0, l2 = 0;
  const double* metric = nullptr;  // (dim): the step of coordinate j is step * metric[j]; null: 1
  CoordinateProx prox;
  const double* base = nullptr;      // g (dim); null: 0
  const double* snapshot = nullptr;  // w~ (dim); read where rows come without slopes at it; null: no snapshot
};

// Rows of some steps, one after another: those of step k are index[k * batch ..).
struct StepRows {
  const std::int64_t* index = nullptr;
  std::int64_t steps = 0, batch = 1;
  std::int64_t more = 0;            // further entries of index: rows of later steps, to be fetched early
  const double* labels = nullptr;   // one a row
  const double* factors = nullptr;  // one a row; null: 1 / batch
  const double* slopes = nullptr;   // s~, `outputs` a row; null: from the snapshot

  double factor(std::int64_t k) const { return factors ? factors[k] : 1.0 / static_cast<double>(batch); }
  std::int64_t rows() const { return steps * batch; }
  // The row `ahead` places after the k-th, or the last one known.
  std::int64_t coming(std::int64_t k, std::int64_t ahead) const {
    const std::int64_t last = rows() + more - 1;
    return index[k + ahead < last ? k + ahead : last];
  }
};

// The steps of one matrix and model. Between begin and finish w itself is out of date.
class RowSteps {
 public:
  virtual ~RowSteps() = default;
  virtual void begin(const StepRule& rule, const double* w) = 0;
  virtual void run(const StepRows& rows) = 0;
  virtual void finish(double* w) = 0;
};

template <class T>
std::unique_ptr<RowSteps> make_dense_steps(DenseView<T> x, StepModel model);
template <class T, class I>
std::unique_ptr<RowSteps> make_csr_steps(CsrView<T, I> x, StepModel model);

// Slopes of one sample; outputs numbers. The frequent losses are inlined.
class StepSlope {
 public:
  explicit StepSlope(const StepModel& model);
  LEEWARD_HD double scalar(double z, double y) const {
    switch (kind_) {
      case hd::LossKind::logistic:
        return hd::LogisticLoss{}.slope(z, y);
      case hd::LossKind::hinge:
      case hd::LossKind::squared_hinge:
        return hd::MarginLoss{clipped_}.slope(z, y);
      case hd::LossKind::squared:
      case hd::LossKind::huber:
      case hd::LossKind::absolute:
      case hd::LossKind::quantile:
        return hd::ResidualLoss{clipped_}.slope(z, y);
      default:
        return other(z, y);
    }
  }
  void many(const double* z, double y, double* out) const;

 private:
  double other(double z, double y) const;
  hd::LossSpec loss_;
  hd::LossKind kind_;
  hd::Clipped clipped_;
  std::int64_t outputs_;
};

}  // namespace leeward
