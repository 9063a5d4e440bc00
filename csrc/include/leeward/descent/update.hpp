// An update moves the iterate along a direction. It owns vectors of length dim, one after the other in `state`, which is all
// that a checkpoint needs of it. Adding an algorithm: docs/extending/update.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "leeward/descent/domain.hpp"

namespace leeward {

// What a move may use: the direction (l2 term included), the step size, the metric (null: 1) and the domain.
struct Move {
  const double* direction = nullptr;
  double step = 0;
  std::int64_t t = 0;  // 0, 1, ...
  const double* metric = nullptr;
  Domain* domain = nullptr;

  double scale(std::int64_t j) const { return metric ? step * metric[j] : step; }
};

class Update {
 public:
  virtual ~Update() = default;
  // The point at which the direction of step t is to be taken.
  virtual const double* query(std::int64_t t) = 0;
  virtual void move(const Move& m) = 0;
  // The iterate after the moves so far.
  virtual const double* iterate() const = 0;

  std::int64_t dim() const { return dim_; }
  std::vector<double>& state() { return state_; }

 protected:
  Update(const std::vector<double>& start, std::int64_t vectors)
      : dim_(static_cast<std::int64_t>(start.size())), state_(start.size() * static_cast<std::size_t>(vectors), 0.0) {
    std::copy(start.begin(), start.end(), state_.begin());
  }
  double* vector(std::int64_t i) { return state_.data() + i * dim_; }
  const double* vector(std::int64_t i) const { return state_.data() + i * dim_; }

 private:
  std::int64_t dim_;
  std::vector<double> state_;
};

}  // namespace leeward
