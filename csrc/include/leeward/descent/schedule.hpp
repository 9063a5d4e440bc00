// Step sizes of step t = 0, 1, ...
#pragma once

#include <cmath>
#include <cstdint>

namespace leeward {

struct Schedule {
  double step = 0;    // step size at t = 0
  int halves = 0;     // exponent of the decay in halves: step (1 + t/period)^(-halves/2); 0, 1 or 3
  double period = 1;  // steps until the decay sets in

  double at(std::int64_t t) const {
    if (halves == 0) return step;
    const double x = 1.0 + static_cast<double>(t) / period;
    return halves == 1 ? step / std::sqrt(x) : step / (x * std::sqrt(x));
  }
};

}  // namespace leeward
