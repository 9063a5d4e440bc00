// Adam (Kingma and Ba 2015): m <- b1 m + (1 - b1) G, h <- b2 h + (1 - b2) G^2, both divided by one minus the weight that their
// start has left, 1 - b^(t+1); rate 1/(sqrt(h) + delta). b1 = 0 keeps the direction as it is.
#pragma once

#include "leeward/descent/adaptive.hpp"

namespace leeward {

struct Adam {
  static constexpr int kVectors = 2;
  struct Turn {
    double first, second;  // corrections
  };
  double momentum = 0.9, memory = 0.999, delta = 1e-8;

  Turn begin(std::int64_t t) const {
    const double n = static_cast<double>(t) + 1.0;
    return {1.0 / (1.0 - std::pow(momentum, n)), 1.0 / (1.0 - std::pow(memory, n))};
  }
  Moment average(Turn turn, double g, double* const* kept, std::int64_t j) const {  // the corrected m and h
    double &m = kept[0][j], &h = kept[1][j];
    m = momentum * m + (1.0 - momentum) * g;
    h = memory * h + (1.0 - memory) * g * g;
    return {m * turn.first, h * turn.second};
  }
  Moment moment(Turn turn, double g, double* const* kept, std::int64_t j) const {
    const Moment now = average(turn, g, kept, j);
    return {now.direction, 1.0 / (std::sqrt(now.rate) + delta)};
  }
};

}  // namespace leeward
