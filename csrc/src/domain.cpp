#include "leeward/descent/domain.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

namespace leeward {
namespace {

double shrunk(double v, double by) {
  const double size = std::fabs(v) - by;
  return std::copysign(size > 0.0 ? size : 0.0, v);
}

}  // namespace

Domain::Domain(DomainKind kind, std::int64_t size, std::vector<double> first, std::vector<double> second)
    : kind_(kind), size_(size), first_(std::move(first)), second_(std::move(second)) {
  const auto wanted = static_cast<std::size_t>(kind == DomainKind::box ? size : 1);
  if (first_.size() != wanted || second_.size() != wanted)
    throw std::invalid_argument("domain: the settings have the wrong length");
  if (kind == DomainKind::simplex || kind == DomainKind::l1_ball) {
    sorted_.resize(static_cast<std::size_t>(size));
    sizes_.resize(static_cast<std::size_t>(size));
    order_.resize(static_cast<std::size_t>(size));
  }
}

bool Domain::separable() const {
  return kind_ == DomainKind::free || kind_ == DomainKind::box || kind_ == DomainKind::l1 ||
         kind_ == DomainKind::elastic_net;
}

void Domain::prox(double* v, double step, const double* metric) {
  switch (kind_) {
    case DomainKind::free:
      return;
    case DomainKind::box:
      for (std::int64_t j = 0; j < size_; ++j) {
        const auto k = static_cast<std::size_t>(j);
        v[j] = std::min(std::max(v[j], first_[k]), second_[k]);
      }
      return;
    case DomainKind::simplex:
      return metric ? simplex(v, first_[0], metric) : simplex(v, first_[0]);
    case DomainKind::l1_ball:
      return metric ? l1_ball(v, metric) : l1_ball(v);
    case DomainKind::l2_ball:
      return metric ? l2_ball(v, metric) : l2_ball(v);
    case DomainKind::l1:
    case DomainKind::elastic_net: {
      const double l2 = kind_ == DomainKind::l1 ? 0.0 : second_[0];
      for (std::int64_t j = 0; j < size_; ++j) {
        const double s = metric ? step * metric[j] : step;
        v[j] = shrunk(v[j], s * first_[0]) / (1.0 + s * l2);
      }
      return;
    }
  }
}

// max(v - tau, 0) with sum = total; tau from the sorted entries, all measured from the largest to keep the sum's digits.
void Domain::simplex(double* v, double total) {
  if (size_ == 0) return;
  const double top = *std::max_element(v, v + size_);
  for (std::int64_t j = 0; j < size_; ++j) v[j] -= top;
  std::copy(v, v + size_, sorted_.begin());
  std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
  double sum = 0.0, tau = 0.0;
  for (std::size_t k = 0; k < sorted_.size(); ++k) {
    sum += sorted_[k];
    const double count = static_cast<double>(k + 1);
    if (sorted_[k] * count > sum - total) tau = (sum - total) / count;
  }
  for (std::int64_t j = 0; j < size_; ++j) v[j] = std::max(v[j] - tau, 0.0);
}

void Domain::l1_ball(double* v) {
  double sum = 0.0;
  for (std::int64_t j = 0; j < size_; ++j) sum += std::fabs(v[j]);
  if (sum <= first_[0]) return;
  for (std::int64_t j = 0; j < size_; ++j) sizes_[static_cast<std::size_t>(j)] = std::fabs(v[j]);
  simplex(sizes_.data(), first_[0]);
  for (std::int64_t j = 0; j < size_; ++j) v[j] = std::copysign(sizes_[static_cast<std::size_t>(j)], v[j]);
}

void Domain::l2_ball(double* v) const {
  double top = 0.0;
  for (std::int64_t j = 0; j < size_; ++j) top = std::max(top, std::fabs(v[j]));
  if (!(top > 0.0)) return;
  double sum = 0.0;
  for (std::int64_t j = 0; j < size_; ++j) sum += (v[j] / top) * (v[j] / top);
  const double norm = top * std::sqrt(sum);
  if (norm <= first_[0]) return;
  for (std::int64_t j = 0; j < size_; ++j) v[j] *= first_[0] / norm;
}

}  // namespace leeward
