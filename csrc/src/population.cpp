#include "leeward/estimator/population.hpp"

#include <algorithm>
#include <stdexcept>

namespace leeward {

Population::Population(std::int64_t size, const double* base, const std::int64_t* group) {
  if (base == nullptr && group == nullptr) {  // in constant time, since a population may stand for an expectation
    if (size <= 0) throw std::invalid_argument("a population must have at least one sample");
    starts_ = {0, size};
    everyone_ = true;
    return;
  }
  std::int64_t groups = 1;
  if (group != nullptr)
    for (std::int64_t i = 0; i < size; ++i) groups = std::max(groups, group[i] + 1);
  const auto inside = [&](std::int64_t i) { return (base == nullptr || base[i] > 0.0) && (group == nullptr || group[i] >= 0); };

  std::vector<std::int64_t> sizes(static_cast<std::size_t>(groups), 0);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < size; ++i)
    if (inside(i)) {
      ++sizes[static_cast<std::size_t>(group == nullptr ? 0 : group[i])];
      ++count;
    }
  if (count == 0) throw std::invalid_argument("sample_weight must have a positive entry");
  starts_.assign(1, 0);
  for (const std::int64_t s : sizes) starts_.push_back(starts_.back() + s);

  everyone_ = count == size && group == nullptr;
  if (!everyone_) {
    order_.resize(static_cast<std::size_t>(count));
    std::vector<std::int64_t> next(starts_.begin(), starts_.end() - 1);
    for (std::int64_t i = 0; i < size; ++i)
      if (inside(i)) order_[static_cast<std::size_t>(next[static_cast<std::size_t>(group == nullptr ? 0 : group[i])]++)] = i;
  }
  if (base == nullptr) return;
  weight_.resize(static_cast<std::size_t>(count));
  cumulative_.resize(static_cast<std::size_t>(count));
  for (std::int64_t g = 0; g < groups; ++g) {
    double sum = 0.0;
    for (std::int64_t k = first(g); k < last(g); ++k) {
      weight_[static_cast<std::size_t>(k)] = base[sample(k)];
      sum += base[sample(k)];
      cumulative_[static_cast<std::size_t>(k)] = sum;
    }
  }
}

std::int64_t Population::position(std::int64_t g, double u) const {
  const auto begin = cumulative_.begin() + first(g), end = cumulative_.begin() + last(g);
  const auto found = std::upper_bound(begin, end - 1, u * *(end - 1));
  return found - cumulative_.begin();
}

}  // namespace leeward
