// Normalised SGD with momentum (Cutkosky and Mehta 2020; Jin, Zhang, Wang and Wang 2021, algorithm 1):
//   v <- momentum v + (1 - momentum) g,   w <- prox(w - step M v/|v|),   |v|^2 = sum_j M_j v_j^2
// in the metric M of the moves (1 by default): each has length step, whatever the gradient's size. No move where v = 0. The prox
// has the step of the move, step/|v|.
#pragma once

#include <cmath>

#include "leeward/core/lanes.hpp"
#include "leeward/descent/update.hpp"

namespace leeward {

class NormalizedUpdate final : public Update {
 public:
  NormalizedUpdate(const std::vector<double>& start, double momentum) : Update(start, 2), momentum_(momentum) {}

  const double* query(std::int64_t) override { return vector(0); }
  const double* iterate() const override { return vector(0); }

  void move(const Move& m) override {
    double* const w = vector(0);
    double* const v = vector(1);
    double largest = 0.0;
    for (std::int64_t j = 0; j < dim(); ++j) {
      v[j] = momentum_ * v[j] + (1.0 - momentum_) * m.direction[j];
      largest = std::max(largest, std::abs(v[j]));
    }
    if (!(largest > 0.0)) return;
    const double length = largest * std::sqrt(square(v, m.metric, 1.0 / largest));
    if (!(length > 0.0)) return;
    const double step = m.step / length;
    for (std::int64_t j = 0; j < dim(); ++j) w[j] -= (m.metric ? step * m.metric[j] : step) * v[j];
    m.domain->prox(w, step, m.metric);
  }

 private:
  // sum_j M_j (v_j unit)^2; the unit keeps it in range.
  double square(const double* v, const double* metric, double unit) const {
    Lanes sums;
    for (std::int64_t j = 0; j < dim(); ++j) {
      const double scaled = v[j] * unit;
      sums.lane[j % kLanes] += (metric ? metric[j] : 1.0) * scaled * scaled;
    }
    return sums.fold();
  }

  double momentum_;
};

}  // namespace leeward
