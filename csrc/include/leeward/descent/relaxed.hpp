// A share of the way to the proximal point:  w <- w + share (prox(w - step g) - w). Iterates stay in a convex set whatever the step.
#pragma once

#include <vector>

#include "leeward/descent/update.hpp"

namespace leeward {

class RelaxedUpdate final : public Update {
 public:
  RelaxedUpdate(const std::vector<double>& start, double share) : Update(start, 1), share_(share), target_(start.size()) {}

  const double* query(std::int64_t) override { return vector(0); }
  const double* iterate() const override { return vector(0); }

  void move(const Move& m) override {
    double* const w = vector(0);
    for (std::int64_t j = 0; j < dim(); ++j) target_[static_cast<std::size_t>(j)] = w[j] - m.scale(j) * m.direction[j];
    m.domain->prox(target_.data(), m.step, m.metric);
    for (std::int64_t j = 0; j < dim(); ++j) w[j] += share_ * (target_[static_cast<std::size_t>(j)] - w[j]);
  }

 private:
  double share_;
  std::vector<double> target_;
};

}  // namespace leeward
