// One task's way through the rows of a mapped matrix: in order, stretches of rows are fetched before they are read and given
// back after; of a large batch the span of each tile is given back. Small batches leave their pages to the system: a fault
// for each row would cost more than the row. Does nothing for a matrix in memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "leeward/oracle/linear_matrix.hpp"

namespace leeward {

class PageRun {
 public:
  // The task reads entries of the batch up to `end`.
  PageRun(const LinearMatrix& matrix, Batch batch, std::int64_t end)
      : matrix_(matrix), batch_(batch), stretch_(matrix.stretch()), end_(std::min(end, batch.size)) {
    if (batch.size == 0 || (batch.index != nullptr && batch.size < kLarge)) stretch_ = 0;
  }
  ~PageRun() { give_back(); }
  PageRun(const PageRun&) = delete;
  PageRun& operator=(const PageRun&) = delete;

  // To be called before the rows of entries [first, first + count) of the batch are read.
  void read(std::int64_t first, std::int64_t count) {
    if (stretch_ == 0 || count <= 0) return;
    if (batch_.index != nullptr) {
      give_back();
      const auto [least, most] = std::minmax_element(batch_.index + first, batch_.index + first + count);
      first_ = *least;
      last_ = *most + 1;
      return;
    }
    if (first >= fetched_) {
      give_back();
      first_ = first;
      fetched_ = std::min(end_, first + std::max(stretch_, count));
      matrix_.fetch(first_, fetched_ - first_);
    }
    last_ = std::max(fetched_, first + count);
  }

 private:
  static constexpr std::int64_t kLarge = 8192;

  void give_back() const {
    if (last_ > first_) matrix_.give_back(first_, last_ - first_);
  }

  const LinearMatrix& matrix_;
  Batch batch_;
  std::int64_t stretch_, end_;
  std::int64_t first_ = 0, last_ = 0, fetched_ = 0;
};

}  // namespace leeward
