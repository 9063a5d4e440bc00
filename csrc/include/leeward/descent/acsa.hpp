// Nesterov's accelerated stochastic gradient method, the AC-SA iteration (Lan 2012; iteration (13) of Levy, Carmon, Duchi and
// Sidford 2020), theta_t = 2/(t+2), t = 0, 1, ..., x = y = z = w0 at the start:
//   x = (1 - theta) y + theta z
//   z <- prox(z - (step/theta) g(x)),   step/theta the step of the prox
//   y <- (1 - theta) y + theta z
#pragma once

#include "leeward/descent/update.hpp"

namespace leeward {

class AcsaUpdate final : public Update {
 public:
  explicit AcsaUpdate(const std::vector<double>& start) : Update(start, 3) {
    for (std::int64_t i = 1; i < 3; ++i) std::copy(start.begin(), start.end(), vector(i));
  }

  const double* query(std::int64_t t) override {
    const double theta = theta_of(t);
    const double* y = vector(0);
    const double* z = vector(1);
    double* x = vector(2);
    for (std::int64_t j = 0; j < dim(); ++j) x[j] = (1.0 - theta) * y[j] + theta * z[j];
    return x;
  }

  void move(const Move& m) override {
    const double theta = theta_of(m.t);
    double* y = vector(0);
    double* z = vector(1);
    for (std::int64_t j = 0; j < dim(); ++j) z[j] -= m.scale(j) / theta * m.direction[j];
    m.domain->prox(z, m.step / theta, m.metric);
    for (std::int64_t j = 0; j < dim(); ++j) y[j] = (1.0 - theta) * y[j] + theta * z[j];
  }

  const double* iterate() const override { return vector(0); }

 private:
  static double theta_of(std::int64_t t) { return 2.0 / (static_cast<double>(t) + 2.0); }
};

}  // namespace leeward
