// Projected stochastic gradient descent with momentum:
//   v <- momentum v + g,   w <- prox(w - step v)                       (heavy ball; plain when momentum = 0)
//   v <- momentum v + g,   w <- prox(w - step (g + momentum v))        (Nesterov's momentum)
// The step of the prox is step/(1 - momentum): v tends to g/(1 - momentum), and a prox term must weigh as much.
#pragma once

#include "leeward/descent/update.hpp"

namespace leeward {

class SgdUpdate final : public Update {
 public:
  SgdUpdate(const std::vector<double>& start, double momentum, bool nesterov)
      : Update(start, momentum > 0.0 ? 2 : 1), momentum_(momentum), nesterov_(nesterov) {}

  const double* query(std::int64_t) override { return vector(0); }
  const double* iterate() const override { return vector(0); }

  void move(const Move& m) override {
    double* w = vector(0);
    const double* g = m.direction;
    if (momentum_ > 0.0) {
      double* v = vector(1);
      for (std::int64_t j = 0; j < dim(); ++j) {
        v[j] = momentum_ * v[j] + g[j];
        w[j] -= m.scale(j) * (nesterov_ ? g[j] + momentum_ * v[j] : v[j]);
      }
    } else {
      for (std::int64_t j = 0; j < dim(); ++j) w[j] -= m.scale(j) * g[j];
    }
    m.domain->prox(w, m.step / (1.0 - momentum_), m.metric);
  }

 private:
  double momentum_;
  bool nesterov_;
};

}  // namespace leeward
