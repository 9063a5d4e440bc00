// Updates with a step size for each coordinate. With s = sqrt(metric) (1 without one), G = s g the gradient in the variables
// w/s, and a rule that turns the G so far into a direction m and a rate r > 0 of each coordinate:
//
//   w <- prox(w - step s r m)   in the metric s^2 r,
//
// so that a fixed point of it is a stationary point, whatever the domain. A rule is a file of its own: adagrad, adam, amsgrad,
// adabound.hpp. It says how many vectors it keeps, what it needs of t once a step (begin), and what a coordinate does (moment).
#pragma once

#include <cmath>
#include <vector>

#include "leeward/descent/update.hpp"

namespace leeward {

struct Moment {
  double direction, rate;
};

template <class Rule>
class AdaptiveUpdate final : public Update {
 public:
  AdaptiveUpdate(const std::vector<double>& start, Rule rule)
      : Update(start, 1 + Rule::kVectors), rule_(rule), metric_(start.size()) {}

  const double* query(std::int64_t) override { return vector(0); }
  const double* iterate() const override { return vector(0); }

  void move(const Move& m) override {
    double* const w = vector(0);
    double* memory[Rule::kVectors];
    for (int i = 0; i < Rule::kVectors; ++i) memory[i] = vector(1 + i);
    const typename Rule::Turn turn = rule_.begin(m.t);
    for (std::int64_t j = 0; j < dim(); ++j) {
      const double s = m.metric ? std::sqrt(m.metric[j]) : 1.0;
      const Moment now = rule_.moment(turn, s * m.direction[j], memory, j);
      w[j] -= m.step * s * now.rate * now.direction;
      metric_[static_cast<std::size_t>(j)] = s * s * now.rate;
    }
    m.domain->prox(w, m.step, metric_.data());
  }

 private:
  Rule rule_;
  std::vector<double> metric_;  // of the last move
};

}  // namespace leeward
