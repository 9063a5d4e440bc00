// AMSGrad (Reddi, Kale and Kumar 2018): Adam with the largest h so far, so that no coordinate's rate ever grows.
#pragma once

#include <algorithm>

#include "leeward/descent/adam.hpp"

namespace leeward {

struct AmsGrad {
  static constexpr int kVectors = 3;
  using Turn = Adam::Turn;
  Adam adam;

  Turn begin(std::int64_t t) const { return adam.begin(t); }
  Moment moment(Turn turn, double g, double* const* kept, std::int64_t j) const {
    const Moment now = adam.average(turn, g, kept, j);
    double& top = kept[2][j];
    top = std::max(top, now.rate);
    return {now.direction, 1.0 / (std::sqrt(top) + adam.delta)};
  }
};

}  // namespace leeward
