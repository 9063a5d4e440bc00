#include "leeward/core/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "leeward/core/lanes.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kWords = 256;

// Calls use(k, word(first + k)) for k < count, the words drawn 256 at a time.
template <class Use>
void for_each_word(const Stream& stream, std::int64_t first, std::int64_t count, const Use& use) {
  std::uint64_t words[kWords];
  for (std::int64_t k = 0; k < count; k += kWords) {
    const std::int64_t m = std::min(kWords, count - k);
    fill_words(stream, static_cast<std::uint64_t>(first + k), m, words);
    for (std::int64_t j = 0; j < m; ++j) use(k + j, words[j]);
  }
}

// Sixteen walks at once: every lane still outside [0, size) takes one more pass until none is.
LEEWARD_CLONES void permute(const hd::Permutation& p, std::uint64_t first, std::int64_t count, std::int64_t* out) {
  const hd::Permutation local = p;
  for (std::int64_t k = 0; k < count; k += kLanes) {
    std::uint64_t x[kLanes];
    const auto lanes = static_cast<int>(std::min<std::int64_t>(kLanes, count - k));
    for (int l = 0; l < kLanes; ++l) x[l] = first + static_cast<std::uint64_t>(k + (l < lanes ? l : 0));
    for (int l = 0; l < kLanes; ++l) x[l] = local.pass(x[l]);
    for (;;) {
      std::uint64_t outside = 0;
      for (int l = 0; l < kLanes; ++l) outside += x[l] >= local.size ? 1U : 0U;
      if (outside == 0) break;
      for (int l = 0; l < kLanes; ++l) {
        const std::uint64_t next = local.pass(x[l]);
        x[l] = x[l] >= local.size ? next : x[l];
      }
    }
    for (int l = 0; l < lanes; ++l) out[k + l] = static_cast<std::int64_t>(x[l]);
  }
}

}  // namespace

void sample_with_replacement(const Stream& stream, std::int64_t n, std::int64_t first, std::int64_t count, std::int64_t* out) {
  const auto bound = static_cast<std::uint64_t>(n);
  for_each_word(stream, first, count, [&](std::int64_t k, std::uint64_t word) {
    out[k] = static_cast<std::int64_t>(stream.bounded(word, static_cast<std::uint64_t>(first + k), bound));
  });
}

void sample_without_replacement(const Stream& stream, std::int64_t n, std::int64_t first, std::int64_t count,
                                std::int64_t* out) {
  const hd::Permutation p = stream.permutation(static_cast<std::uint64_t>(n));
  if (!p.in_table()) return permute(p, static_cast<std::uint64_t>(first), count, out);
  for (std::int64_t k = 0; k < count; ++k) out[k] = static_cast<std::int64_t>(p[static_cast<std::uint64_t>(first + k)]);
}

AliasTable::AliasTable(const double* weights, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (!(weights[i] >= 0.0) || std::isinf(weights[i]))
      throw std::invalid_argument("weights must be finite and not negative, got " + std::to_string(weights[i]) + " at position " +
                                  std::to_string(i));
    sum += weights[i];
  }
  if (!(sum > 0.0) || std::isinf(sum)) throw std::invalid_argument("weights must have a positive, finite sum");
  const auto size = static_cast<std::size_t>(n);
  keep_.resize(size);
  other_.resize(size);
  std::vector<std::int64_t> small, large;
  for (std::size_t i = 0; i < size; ++i) {
    keep_[i] = weights[i] / sum * static_cast<double>(n);
    other_[i] = static_cast<std::int64_t>(i);
    (keep_[i] < 1.0 ? small : large).push_back(static_cast<std::int64_t>(i));
  }
  while (!small.empty() && !large.empty()) {
    const auto s = static_cast<std::size_t>(small.back()), l = static_cast<std::size_t>(large.back());
    small.pop_back();
    other_[s] = large.back();
    keep_[l] = (keep_[l] + keep_[s]) - 1.0;
    if (keep_[l] < 1.0) {
      large.pop_back();
      small.push_back(static_cast<std::int64_t>(l));
    }
  }
  // What is left is 1 up to rounding. A column of weight 0 always has a partner, since others then exceed 1.
  for (const std::int64_t i : small)
    if (weights[i] > 0.0) keep_[static_cast<std::size_t>(i)] = 1.0;
  for (const std::int64_t i : large) keep_[static_cast<std::size_t>(i)] = 1.0;
}

void AliasTable::sample(const Stream& stream, std::int64_t first, std::int64_t count, std::int64_t* out) const {
  for_each_word(stream, first, count, [&](std::int64_t k, std::uint64_t word) { out[k] = draw(word); });
}

}  // namespace leeward
