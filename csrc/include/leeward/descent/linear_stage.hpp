// The inner loop of a stage of SVRG or SCSG on a linear model, natively: the plain update
//
//   w <- prox(w - step (sum_i f_i (l_i'(w) - l_i'(w~)) (x_i, 1) + g + l2 w))
//
// over drawn rows, without a virtual call or a gradient vector a step. The estimator and update of the general loop make the
// same iterates up to rounding; this one gathers what rows need and leaves the arithmetic to the matrix
// (oracle/row_steps.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "leeward/descent/domain.hpp"
#include "leeward/oracle/linear.hpp"
#include "leeward/oracle/row_steps.hpp"

namespace leeward {

// What stays the same from stage to stage or within one.
struct StageRule {
  double step = 0, l2 = 0;
  const double* metric = nullptr;  // (dim)
  const Domain* domain = nullptr;  // a separable one; null: free
};

// The reference point: w~ and g there (dim, without l2), and the slopes there of all samples (size, outputs) if they are
// kept.
struct StagePoint {
  const double* w = nullptr;
  const double* gradient = nullptr;
  const double* slopes = nullptr;
};

class LinearStage {
 public:
  static constexpr std::int64_t kAhead = 8;  // rows beyond those of a call that are worth knowing

  // The oracle outlives the stage.
  explicit LinearStage(const LinearOracle& oracle);

  // Whether this domain can be taken along.
  static bool takes(const Domain& domain) { return domain.separable(); }

  // Everything pointed to stays in place until end(). A null snapshot pointer means plain stochastic gradients.
  void begin(const StageRule& rule, const StagePoint& snapshot, const double* w);
  // `count` steps of `batch` rows each, and `more` of the next rows; factors: f_i of each row, null for 1/batch.
  void steps(const std::int64_t* index, const double* factors, std::int64_t count, std::int64_t batch, std::int64_t more,
             const Resources& use);
  // Writes w; false when it is not finite. A stage may end and begin again between any two calls of steps.
  bool end(double* w);

 private:
  const LinearOracle& oracle_;
  std::unique_ptr<RowSteps> rows_;
  StagePoint snapshot_;
  std::vector<double> labels_, slopes_;
};

}  // namespace leeward
