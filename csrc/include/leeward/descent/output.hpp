// The answer as a choice among the ends of stages (or among the iterates, where there are no stages), each with a share:
//   random    a point with probability share / sum of shares, kept by a reservoir: offer k = 0, 1, ... replaces the choice
//             when u_k (sum so far) < its share, u_k a draw of (seed, output, k)
//   average   the mean of that choice, sum share w / sum share
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "leeward/core/stream.hpp"

namespace leeward {

enum class OutputRule : int { last = 0, random = 1, average = 2 };

class Output {
 public:
  Output(OutputRule rule, std::int64_t dim, std::uint64_t seed) : rule_(rule), seed_(seed) {
    if (rule != OutputRule::last) state_.assign(kHeader + static_cast<std::size_t>(dim), 0.0);
  }

  bool active() const { return rule_ != OutputRule::last; }
  // The answer, null before the first offer.
  const double* point() const { return active() && state_[kTotal] > 0.0 ? state_.data() + kHeader : nullptr; }
  // Number of offers, sum of shares, the point: all that a checkpoint needs.
  std::vector<double>& state() { return state_; }

  void offer(const double* w, double share) {
    if (!active() || !(share > 0.0)) return;
    double& total = state_[kTotal];
    total += share;
    const auto number = static_cast<std::uint64_t>(state_[kOffers]);
    state_[kOffers] += 1.0;
    double* const kept = state_.data() + kHeader;
    const std::size_t dim = state_.size() - kHeader;
    if (rule_ == OutputRule::random) {
      if (Stream(seed_, Purpose::output, number).uniform(0) * total < share) std::copy(w, w + dim, kept);
      return;
    }
    for (std::size_t j = 0; j < dim; ++j) kept[j] += share / total * (w[j] - kept[j]);
  }

 private:
  static constexpr std::size_t kOffers = 0, kTotal = 1, kHeader = 2;
  OutputRule rule_;
  std::uint64_t seed_;
  std::vector<double> state_;
};

}  // namespace leeward
