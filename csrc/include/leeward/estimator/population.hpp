// From whom a batch is drawn: the samples of positive weight, group by group, with their chances within the group.
#pragma once

#include <cstdint>
#include <vector>

#include "leeward/core/stream.hpp"

namespace leeward {

class Population {
 public:
  // base: weights >= 0 (n) or null for equal ones; group: number 0..G-1 of each sample, negative for none, or null for one
  // group of all samples. Throws std::invalid_argument when no sample has a positive weight.
  Population(std::int64_t size, const double* base, const std::int64_t* group);

  std::int64_t count() const { return starts_.back(); }  // samples of positive weight
  std::int64_t groups() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  std::int64_t first(std::int64_t g) const { return starts_[static_cast<std::size_t>(g)]; }
  std::int64_t last(std::int64_t g) const { return starts_[static_cast<std::size_t>(g) + 1]; }
  bool weighted() const { return !cumulative_.empty(); }
  bool everyone() const { return everyone_; }  // position k is sample k, for all samples

  // The sample at a position 0..count()-1, and its weight (1 when equal).
  std::int64_t sample(std::int64_t k) const { return order_.empty() ? k : order_[static_cast<std::size_t>(k)]; }
  double weight(std::int64_t k) const { return weight_.empty() ? 1.0 : weight_[static_cast<std::size_t>(k)]; }
  // Position number i of independent draws from the weights (equal ones without weights), of all groups as one: for populations
  // of one group.
  std::int64_t draw(const Stream& stream, std::uint64_t i) const {
    return weighted() ? position(0, stream.uniform(i)) : static_cast<std::int64_t>(stream.below(i, static_cast<std::uint64_t>(count())));
  }
  // The position in group g at which the running weight exceeds u times the group's weight, 0 <= u < 1. Weighted only.
  std::int64_t position(std::int64_t g, double u) const;

 private:
  std::vector<std::int64_t> order_;   // position -> sample; empty: the identity
  std::vector<std::int64_t> starts_;  // group -> first position; one more entry than groups
  std::vector<double> weight_;        // by position
  std::vector<double> cumulative_;    // running weight within the group, by position
  bool everyone_ = false;
};

}  // namespace leeward
