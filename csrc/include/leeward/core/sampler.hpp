// Batches of sample numbers: with replacement, without replacement, and with given weights. All are functions of a stream,
// so element k of a batch can be found again without drawing the others.
#pragma once

#include <cstdint>
#include <vector>

#include "leeward/core/stream.hpp"

namespace leeward {

// out[k] uniform on {0, ..., n - 1}, independent; 1 <= n.
void sample_with_replacement(const Stream& stream, std::int64_t n, std::int64_t first, std::int64_t count, std::int64_t* out);

// out[k] = element first + k of a random order of {0, ..., n - 1}; first + count <= n.
void sample_without_replacement(const Stream& stream, std::int64_t n, std::int64_t first, std::int64_t count, std::int64_t* out);

// Draws i with probability weights[i] / sum weights in constant time (Walker's alias method, tables after Vose 1991).
class AliasTable {
 public:
  // Weights finite, not negative, with a positive sum; throws std::invalid_argument otherwise.
  AliasTable(const double* weights, std::int64_t n);

  std::int64_t size() const { return static_cast<std::int64_t>(keep_.size()); }

  // One word serves both choices: the high part of word * n picks a column, the low part decides whether to keep it.
  std::int64_t draw(std::uint64_t word) const {
    const hd::WidePair product = hd::multiply_wide(word, static_cast<std::uint64_t>(keep_.size()));
    return hd::uniform(product.low) < keep_[product.high] ? static_cast<std::int64_t>(product.high) : other_[product.high];
  }

  void sample(const Stream& stream, std::int64_t first, std::int64_t count, std::int64_t* out) const;

 private:
  std::vector<double> keep_;
  std::vector<std::int64_t> other_;
};

}  // namespace leeward
