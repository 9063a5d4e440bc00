// A dual variable that an estimator moves by its own steps: where it starts, where it must stay, and its step at t = 0 (0: it stays).
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace leeward {

struct DualVariable {
  double start = 0, low = 0, high = 0, step = 0;

  void check(const std::string& name) const {
    if (!(low <= start && start <= high && step >= 0.0 && std::isfinite(step)))
      throw std::invalid_argument(name + " must start in its interval and have a finite step of at least 0");
  }
  // The next value after `at`, down the slope.
  double next(double at, double slope, double fall) const { return std::min(std::max(at - step * fall * slope, low), high); }
};

}  // namespace leeward
