// AdaGrad (Duchi, Hazan and Singer 2011): h <- h + G^2, rate 1/(sqrt(h) + delta). With `mean` the rate uses h/(t + 1) instead,
// the form of Jiang, Li, Gao, Wang, Yang and Zhang (2022), whose steps are to fall by their schedule.
#pragma once

#include "leeward/descent/adaptive.hpp"

namespace leeward {

struct AdaGrad {
  static constexpr int kVectors = 1;
  struct Turn {
    double share;
  };
  double delta = 1e-8;
  bool mean = false;

  Turn begin(std::int64_t t) const { return {mean ? 1.0 / (static_cast<double>(t) + 1.0) : 1.0}; }
  Moment moment(Turn turn, double g, double* const* memory, std::int64_t j) const {
    double& h = memory[0][j];
    h += g * g;
    return {g, 1.0 / (std::sqrt(h * turn.share) + delta)};
  }
};

}  // namespace leeward
