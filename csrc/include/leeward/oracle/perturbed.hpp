// Samples drawn around samples: sample i of n is zeta_i, and around it lie points xi from a reference kernel nu_zeta, each at a
// transport cost c(zeta_i, xi).
//
// A point is a value of its number. With m draws a set, number v = s m + j is draw j of set s, and s = i + n t is the t-th set of
// sample i: sets 0..n-1 are the common draws of the n samples, later ones fresh draws without end. Points are made when they are
// needed and never stored for the whole data set.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "leeward/oracle/linear.hpp"
#include "leeward/oracle/oracle.hpp"

namespace leeward {

// Losses, gradients and costs of points by number; size() is n m, the common draws.
class PerturbedOracle : public Oracle {
 public:
  virtual std::int64_t draws() const = 0;  // m
  // out[k] = c(zeta, xi) of point batch[k]
  virtual void costs(Batch batch, double* out, Resources& use) const = 0;
  // Both at once, where the points need to be made but once.
  virtual void losses_and_costs(const double* w, Batch batch, double* losses_out, double* costs_out, Resources& use) const {
    losses(w, batch, losses_out, use);
    costs(batch, costs_out, use);
  }
};

// The law of xi - zeta; `scale` has one number or one a coordinate:
//   gaussian    scale_j z_j, or L z with a lower triangular factor L (d x d, row by row)
//   laplace     scale_j times a standard Laplace number
//   ball        scale_j times a point of the unit ball
//   empirical   a row of `rows`
enum class ReferenceKind : int { gaussian = 0, factor = 1, laplace = 2, ball = 3, empirical = 4 };

// Of the displacement: its squared 2-norm, or its 2-, 1- or largest-coordinate norm.
enum class CostKind : int { squared = 0, euclidean = 1, manhattan = 2, chebyshev = 3 };

struct Reference {
  ReferenceKind kind = ReferenceKind::gaussian;
  std::vector<double> scale;
  DenseView<double> rows;             // outlives the oracle
  std::vector<double> lower, upper;   // points are clipped to these where they are given (d each)
  double label_noise = 0;             // standard deviation of xi's label about zeta's
};

struct TransportCost {
  CostKind kind = CostKind::squared;
  double scale = 1;        // c = scale * cost of the features + label_scale (label difference)^2
  double label_scale = 0;
};

class PointMaker;

// A linear model's losses at points around its rows. The model's rows and labels outlive this.
class PerturbedLinear final : public PerturbedOracle {
 public:
  PerturbedLinear(std::shared_ptr<const LinearOracle> model, Reference reference, TransportCost cost, std::int64_t draws,
                  std::uint64_t seed);

  std::int64_t size() const override { return model_->size() * draws_; }
  std::int64_t dim() const override { return model_->dim(); }
  std::int64_t draws() const override { return draws_; }
  std::int64_t memory_per_sample() const override { return model_->outputs(); }  // slopes, or the scores of several outputs
  const LinearOracle& model() const { return *model_; }

  void losses(const double* w, Batch batch, double* out, Resources& use) const override {
    losses_and_costs(w, batch, out, nullptr, use);
  }
  void gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const override;
  void costs(Batch batch, double* out, Resources& use) const override;
  void losses_and_costs(const double* w, Batch batch, double* losses_out, double* costs_out, Resources& use) const override;
  // The points themselves (m, d) row by row, and their labels (m); either may be null.
  void points(Batch batch, double* x, double* labels, Resources& use) const;

 private:
  friend class PointMaker;
  std::shared_ptr<const LinearOracle> model_;
  Reference reference_;
  TransportCost cost_;
  std::int64_t draws_;
  std::uint64_t seed_;
};

}  // namespace leeward
