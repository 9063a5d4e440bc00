// A stream of random words named by (seed, purpose, step). Draw i of a stream is a function of these four numbers alone, so
// it can be evaluated at two points, replayed after a resume and split over any number of threads.
//
// Philox key: the seed. Counter: 40 bits of block index, 8 bits of attempt (for the rare rejected integer), 16 bits of
// purpose, 64 bits of step. A block holds two words: word i is half i mod 2 of block i / 2, for i < 2^41.
#pragma once

#include <cstdint>

#include "leeward/core/simd.hpp"
#include "leeward/hd/draws.hpp"
#include "leeward/hd/permutation.hpp"
#include "leeward/hd/philox.hpp"

namespace leeward {

// What a stream is for; streams of one run never share words.
enum class Purpose : std::uint16_t {
  batch = 0,    // indices of a mini-batch
  order = 1,    // the key of a permutation
  level = 2,    // multilevel Monte Carlo levels
  length = 3,   // geometric inner lengths
  noise = 4,    // perturbations of samples
  output = 5,   // choice of the returned iterate
  start = 6,    // random starting points
  subset = 7,   // mini-batches without replacement inside a stage
  user = 1024,  // this and above are free
};

class Stream {
 public:
  static constexpr std::uint64_t kMaxWords = std::uint64_t{1} << 41;

  Stream(std::uint64_t seed, Purpose purpose, std::uint64_t step)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        purpose_(static_cast<std::uint64_t>(purpose) << 16),
        step_(step) {}

  hd::PhiloxBlock block(std::uint64_t b, std::uint64_t attempt = 0) const { return hd::philox(counter(b, attempt), key_); }
  LEEWARD_INLINE hd::PhiloxBlock counter(std::uint64_t b, std::uint64_t attempt = 0) const {
    return {b & 0xffffffffU, ((b >> 32) & 0xffU) | (attempt << 8) | purpose_, step_ & 0xffffffffU, step_ >> 32};
  }
  hd::PhiloxKey key() const { return key_; }

  std::uint64_t word(std::uint64_t i, std::uint64_t attempt = 0) const {
    const hd::PhiloxBlock b = block(i / 2, attempt);
    return i % 2 == 0 ? hd::low_word(b) : hd::high_word(b);
  }

  double uniform(std::uint64_t i) const { return hd::uniform(word(i)); }
  double open_uniform(std::uint64_t i) const { return hd::open_uniform(word(i)); }

  // Uniform on {0, ..., n - 1}, without bias; n >= 1.
  std::uint64_t below(std::uint64_t i, std::uint64_t n) const { return bounded(word(i), i, n); }
  // The same when word(i) is at hand. 255 rejections in a row have a chance below 2^-255.
  std::uint64_t bounded(std::uint64_t first_word, std::uint64_t i, std::uint64_t n) const {
    hd::Bounded draw = hd::below(first_word, n);
    for (std::uint64_t attempt = 1; !draw.accepted && attempt < 256; ++attempt) draw = hd::below(word(i, attempt), n);
    return draw.value;
  }

  double normal(std::uint64_t i) const {
    const hd::PhiloxBlock b = block(i / 2);
    const hd::NormalPair pair = hd::normal_pair(hd::low_word(b), hd::high_word(b));
    return i % 2 == 0 ? pair.first : pair.second;
  }

  // Geometric from 0 with this mean, 0 <= mean <= 2^40.
  std::int64_t geometric(std::uint64_t i, double mean) const { return hd::geometric(word(i), hd::log_gamma_of_mean(mean)); }
  int level(std::uint64_t i, int j_max) const { return hd::truncated_level(word(i), j_max); }

  // The permutation of {0, ..., n - 1} keyed by this stream.
  hd::Permutation permutation(std::uint64_t n) const { return hd::Permutation(n, {block(0), block(1), block(2)}); }

 private:
  hd::PhiloxKey key_;
  std::uint64_t purpose_, step_;
};

// Draws first, ..., first + count - 1 of a stream as arrays; the same values as one by one, vectorised.
void fill_words(const Stream& stream, std::uint64_t first, std::int64_t count, std::uint64_t* out);
void fill_uniform(const Stream& stream, std::uint64_t first, std::int64_t count, double* out);
void fill_open_uniform(const Stream& stream, std::uint64_t first, std::int64_t count, double* out);
void fill_normal(const Stream& stream, std::uint64_t first, std::int64_t count, double* out);

}  // namespace leeward
