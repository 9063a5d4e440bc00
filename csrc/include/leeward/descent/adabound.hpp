// AdaBound with fixed bounds (after Luo, Xiong, Liu and Sun 2019): Adam whose rates are kept in [lower, upper].
#pragma once

#include <algorithm>

#include "leeward/descent/adam.hpp"

namespace leeward {

struct AdaBound {
  static constexpr int kVectors = 2;
  using Turn = Adam::Turn;
  Adam adam;
  double lower = 0.1, upper = 10.0;

  Turn begin(std::int64_t t) const { return adam.begin(t); }
  Moment moment(Turn turn, double g, double* const* kept, std::int64_t j) const {
    const Moment now = adam.moment(turn, g, kept, j);
    return {now.direction, std::clamp(now.rate, lower, upper)};
  }
};

}  // namespace leeward
