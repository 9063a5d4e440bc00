// Averages of the iterates w_1, w_2, ...:  avg <- (1 - c_t) avg + c_t w_t  with
//   uniform      c_t = 1 / t
//   polynomial   c_t = (3 + 1) / (t + 3)      (polynomial-decay averaging, Shamir and Zhang 2013)
#pragma once

#include <cstdint>
#include <vector>

namespace leeward {

enum class Averaging : int { last = 0, uniform = 1, polynomial = 2 };

class Average {
 public:
  Average(Averaging kind, const double* start, std::int64_t dim)
      : kind_(kind), mean_(kind == Averaging::last ? nullptr : start, kind == Averaging::last ? nullptr : start + dim) {}

  bool active() const { return kind_ != Averaging::last; }
  std::vector<double>& mean() { return mean_; }
  const std::vector<double>& mean() const { return mean_; }

  // Takes in w_t, t = 1, 2, ...
  void add(const double* w, std::int64_t t) {
    if (!active()) return;
    const double c = kind_ == Averaging::uniform ? 1.0 / static_cast<double>(t) : 4.0 / static_cast<double>(t + 3);
    for (std::size_t j = 0; j < mean_.size(); ++j) mean_[j] += c * (w[j] - mean_[j]);
  }

 private:
  Averaging kind_;
  std::vector<double> mean_;
};

}  // namespace leeward
