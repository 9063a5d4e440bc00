// An estimator answers a random direction: an estimate of the (sub)gradient of the risk at a point.
// A draw is a value of (seed, purpose, step): asking again with the same step gives the same direction.
#pragma once

#include <cstdint>

#include "leeward/core/resources.hpp"

namespace leeward {

struct Estimate {
  double value = 0;            // risk of the drawn samples
  std::int64_t losses = 0;     // component losses evaluated
  std::int64_t gradients = 0;  // component gradients evaluated
  bool finite = true;          // false: a loss was NaN or infinite and there is no direction
};

class Estimator {
 public:
  virtual ~Estimator() = default;
  virtual std::int64_t dim() const = 0;
  // out[0..dim) = the direction at w of draw `step`; the l2 term is not part of it.
  virtual Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) = 0;
};

}  // namespace leeward
