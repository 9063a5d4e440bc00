#include "leeward/descent/domain.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "leeward/core/eight.hpp"

namespace leeward {
namespace {

double shrunk(double v, double by) {
  const double size = std::fabs(v) - by;
  return std::copysign(size > 0.0 ? size : 0.0, v);
}

// The entries above a number: how many and their sum.
struct Above {
  double count, sum;
};

// n is a multiple of eight.
template <int W>
LEEWARD_INLINE Above above(const double* v, std::int64_t n, double tau) {
  Eight<W> count, sum;
  for (std::int64_t j = 0; j < n; j += 8) {
    Eight<W> x;
    load8(v + j, x);
    add_above8(x, tau, count, sum);
  }
  return {fold8(count), fold8(sum)};
}

Above above_at_baseline(const double* v, std::int64_t n, double tau) { return above<2>(v, n, tau); }
LEEWARD_AT_AVX2 Above above_at_avx2(const double* v, std::int64_t n, double tau) { return above<4>(v, n, tau); }
LEEWARD_AT_AVX512 Above above_at_avx512(const double* v, std::int64_t n, double tau) { return above<8>(v, n, tau); }

// v <- max(v - tau, 0)
LEEWARD_CLONES void subtract(double* v, std::int64_t n, double tau) {
  LEEWARD_LANES
  for (std::int64_t j = 0; j < n; ++j) v[j] = v[j] - tau > 0.0 ? v[j] - tau : 0.0;
}

}  // namespace

Domain::Domain(DomainKind kind, std::int64_t size, std::vector<double> first, std::vector<double> second)
    : kind_(kind), size_(size), first_(std::move(first)), second_(std::move(second)) {
  const auto wanted = static_cast<std::size_t>(kind == DomainKind::box ? size : 1);
  if (first_.size() != wanted || second_.size() != wanted)
    throw std::invalid_argument("domain: the settings have the wrong length");
  width_ = register_width();
  if (kind == DomainKind::simplex || kind == DomainKind::l1_ball) {
    sorted_.resize(static_cast<std::size_t>((size + 7) / 8 * 8));
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

// max(v - tau, 0) with sum = total, all measured from the largest entry to keep the sum's digits. tau is the mean excess of the
// entries above it: found by dropping those below, from all entries on (Michelot 1986), which takes a few passes; where it takes
// many, from the sorted entries.
void Domain::simplex(double* v, double total) {
  constexpr int kPasses = 24;
  if (size_ == 0) return;
  const double top = *std::max_element(v, v + size_);
  for (std::int64_t j = 0; j < size_; ++j) v[j] -= top;
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  std::copy(v, v + size_, sorted_.begin());
  std::fill(sorted_.begin() + size_, sorted_.end(), kNothing);
  const auto padded = static_cast<std::int64_t>(sorted_.size());
  const auto above = width_ == 8 ? above_at_avx512 : width_ == 4 ? above_at_avx2 : above_at_baseline;
  Above kept = above(sorted_.data(), padded, kNothing);
  for (int pass = 0; pass < kPasses; ++pass) {
    const double excess = (kept.sum - total) / kept.count;
    const Above next = above(sorted_.data(), padded, excess);
    if (next.count == kept.count) {
      subtract(v, size_, excess);
      return;
    }
    if (!(next.count > 0.0)) break;
    kept = next;
  }
  std::sort(sorted_.begin(), sorted_.begin() + size_, std::greater<>());
  double sum = 0.0, tau = 0.0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(size_); ++k) {
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
