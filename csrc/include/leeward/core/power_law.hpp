// A sequence that falls as a power of the step: first (1 + t/period)^(-exponent), t = 0, 1, ...
#pragma once

#include <cstdint>

#include "leeward/hd/real_math.hpp"

namespace leeward {

struct PowerLaw {
  double first = 1;
  double exponent = 0;  // 0: constant
  double period = 1;

  double at(std::int64_t t) const {
    if (exponent == 0.0 || t <= 0) return first;
    return first * hd::exp(-exponent * hd::log(1.0 + static_cast<double>(t) / period));
  }
};

}  // namespace leeward
