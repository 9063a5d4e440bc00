// Projections onto the sets that mix coordinates, in the metric diag(1/m).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "leeward/descent/domain.hpp"

namespace leeward {

// max(v - tau m, 0) with sum = total; the coordinates that stay positive are those with the largest v/m.
void Domain::simplex(double* v, double total, const double* metric) {
  if (size_ == 0) return;
  for (std::int64_t j = 0; j < size_; ++j) sorted_[static_cast<std::size_t>(j)] = v[j] / metric[j];
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  std::sort(order_.begin(), order_.end(), [&](std::int64_t a, std::int64_t b) {
    const double x = sorted_[static_cast<std::size_t>(a)], y = sorted_[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  // Measured from the largest ratio, to keep the digits of the sum.
  const double top = sorted_[static_cast<std::size_t>(order_[0])];
  double sum = 0.0, weight = 0.0, tau = 0.0;
  for (const std::int64_t j : order_) {
    const double ratio = sorted_[static_cast<std::size_t>(j)] - top;
    sum += ratio * metric[j];
    weight += metric[j];
    if (ratio * weight > sum - total) tau = (sum - total) / weight;
  }
  for (std::int64_t j = 0; j < size_; ++j)
    v[j] = std::max((sorted_[static_cast<std::size_t>(j)] - top - tau) * metric[j], 0.0);
}

void Domain::l1_ball(double* v, const double* metric) {
  double sum = 0.0;
  for (std::int64_t j = 0; j < size_; ++j) sum += std::fabs(v[j]);
  if (sum <= first_[0]) return;
  for (std::int64_t j = 0; j < size_; ++j) sizes_[static_cast<std::size_t>(j)] = std::fabs(v[j]);
  simplex(sizes_.data(), first_[0], metric);
  for (std::int64_t j = 0; j < size_; ++j) v[j] = std::copysign(sizes_[static_cast<std::size_t>(j)], v[j]);
}

// u = v/(1 + tau m) with |u| = radius: Newton's method on 1/|u| - 1/radius, which rises in tau, from the left.
void Domain::l2_ball(double* v, const double* metric) const {
  constexpr int kSteps = 100;
  constexpr double kEnough = 1e-15;
  double top = 0.0, largest = 0.0;
  for (std::int64_t j = 0; j < size_; ++j) {
    top = std::max(top, std::fabs(v[j]));
    largest = std::max(largest, metric[j]);
  }
  if (!(top > 0.0)) return;
  const double radius = first_[0] / top;  // in units of the largest entry
  double tau = 0.0;
  for (int k = 0; k < kSteps; ++k) {
    double square = 0.0, slope = 0.0;  // |u|^2 and -d(|u|^2)/dtau / 2
    for (std::int64_t j = 0; j < size_; ++j) {
      const double m = metric[j] / largest, a = v[j] / top / (1.0 + tau * m);
      square += a * a;
      slope += a * a * m / (1.0 + tau * m);
    }
    const double norm = std::sqrt(square);
    if (norm <= radius * (1.0 + kEnough)) break;
    tau += (norm - radius) / radius * square / slope;
  }
  if (tau == 0.0) return;
  double square = 0.0;
  for (std::int64_t j = 0; j < size_; ++j) {
    v[j] = v[j] / top / (1.0 + tau * metric[j] / largest);
    square += v[j] * v[j];
  }
  const double by = first_[0] / std::sqrt(square);  // the last digits of the norm
  for (std::int64_t j = 0; j < size_; ++j) v[j] *= by;
}

}  // namespace leeward
