// The levels of a composition one behind the other: where their vectors and Jacobians lie, the draw of each level, values, and the
// gradient by the chain rule. The draws of level i at a step are a stream of their own, so levels are independent, and the same draw
// answers at as many points as are asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "leeward/core/stream.hpp"
#include "leeward/oracle/level.hpp"

namespace leeward {

// Work, in evaluations of one sample of one level.
struct LevelCounts {
  std::int64_t values = 0, jacobians = 0, products = 0;
  std::int64_t samples = 0;  // drawn; levels of one sample draw nothing
  std::int64_t guards = 0;   // numbers that were kept from leaving a level's domain
};

class LevelChain {
 public:
  static constexpr std::size_t kMaxDepth = 128;

  // Throws std::invalid_argument where levels do not fit together, or the last one has more than one output.
  LevelChain(std::vector<std::shared_ptr<const Level>> levels, std::uint64_t seed);

  std::size_t depth() const { return levels_.size(); }
  const LevelShape& shape(std::size_t i) const { return levels_[i]->shape(); }
  std::int64_t dim() const { return shape(0).inputs; }
  std::int64_t numbers() const { return at_.back(); }                 // of u_0, ..., u_K together
  std::int64_t entries() const { return rows_.back(); }               // of all Jacobians together
  std::int64_t at(std::size_t i) const { return at_[i]; }             // where u_i begins, i = 0 .. depth()
  std::int64_t rows(std::size_t i) const { return rows_[i]; }         // where the Jacobian of level i (from 0) begins
  std::int64_t widest() const { return widest_; }                     // longest of the u_i
  bool jacobians() const;                                             // whether every level answers Jacobians

  // The batch of level i from now on: the draw of (step, turn), turn 0 or 1; all samples when `batch` is not below their number.
  void draw(std::size_t i, std::uint64_t step, int turn, std::int64_t batch);
  void take_all(std::size_t i) { batches_[i] = {nullptr, shape(i).size}; }
  void reserve(std::int64_t batch);  // draws of up to so many samples allocate nothing

  // Level i at the points, on its batch. Values get all outputs, the kept inputs behind the computed ones.
  void evaluate(std::size_t i, const LevelPoint* at, int count, Resources& use);
  // All levels from u_0 = numbers[0..dim) on, plainly: fills the numbers and, unless null, the Jacobians; guards by the floors.
  void forward(double* numbers, double* entries, Resources& use);
  // out[dim] = J_1^T ... J_K^T 1. points[i] is where the Jacobian of level i is taken by levels that answer products only.
  void pull_back(const double* const* points, const double* entries, double* out, Resources& use);
  // out[outputs] = J direction for level i at a point.
  void push(std::size_t i, const double* point, const double* jacobian, const double* direction, double* out, Resources& use);
  // Keeps what level i needs positive among its inputs u: at least its floor, and `share` of what it was before (null: not asked).
  void guard(std::size_t i, double* u, const double* before, double share);

  LevelCounts& counts() { return counts_; }

 private:
  std::vector<std::shared_ptr<const Level>> levels_;
  std::uint64_t seed_;
  std::vector<std::int64_t> at_, rows_;
  std::int64_t widest_ = 0;
  std::vector<Batch> batches_;
  std::vector<std::vector<std::int64_t>> index_;
  std::vector<double> above_, below_;  // vectors of the chain rule
  LevelCounts counts_;
};

}  // namespace leeward
