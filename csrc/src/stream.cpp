// The array forms of a stream's draws: chunks of 16 Philox blocks, the lane loops inside, compiled for each SIMD level.
#include "leeward/core/stream.hpp"

#include <algorithm>

#include "leeward/core/lanes.hpp"

namespace leeward {
namespace {

constexpr int kChunk = 2 * kLanes;  // words of 16 blocks

// The words of blocks first_block + l, l < 16: low halves and high halves apart.
LEEWARD_INLINE void chunk_words(const Stream& stream, std::uint64_t first_block, std::uint64_t* LEEWARD_RESTRICT low,
                                std::uint64_t* LEEWARD_RESTRICT high) {
  for (int l = 0; l < kLanes; ++l) {
    const hd::PhiloxBlock b = hd::philox(stream.counter(first_block + static_cast<std::uint64_t>(l)), stream.key());
    low[l] = hd::low_word(b);
    high[l] = hd::high_word(b);
  }
}

struct WordDraw {
  using Value = std::uint64_t;
  static LEEWARD_INLINE void pair(std::uint64_t low, std::uint64_t high, Value& a, Value& b) {
    a = low;
    b = high;
  }
};
struct UniformDraw {
  using Value = double;
  static LEEWARD_INLINE void pair(std::uint64_t low, std::uint64_t high, Value& a, Value& b) {
    a = hd::uniform(low);
    b = hd::uniform(high);
  }
};
struct OpenUniformDraw {
  using Value = double;
  static LEEWARD_INLINE void pair(std::uint64_t low, std::uint64_t high, Value& a, Value& b) {
    a = hd::open_uniform(low);
    b = hd::open_uniform(high);
  }
};
struct NormalDraw {
  using Value = double;
  static LEEWARD_INLINE void pair(std::uint64_t low, std::uint64_t high, Value& a, Value& b) {
    const hd::NormalPair z = hd::normal_pair(low, high);
    a = z.first;
    b = z.second;
  }
};

// Chunks begin at multiples of 32 draws whatever `first` is; only the asked part of the first and last is copied.
template <class Draw>
LEEWARD_INLINE void fill(const Stream& stream, std::uint64_t first, std::int64_t count, typename Draw::Value* out) {
  if (count <= 0) return;
  std::uint64_t low[kLanes], high[kLanes];
  typename Draw::Value even[kLanes], odd[kLanes];
  const std::uint64_t last = first + static_cast<std::uint64_t>(count);
  for (std::uint64_t chunk = first / kChunk * kChunk; chunk < last; chunk += kChunk) {
    chunk_words(stream, chunk / 2, low, high);
    for (int l = 0; l < kLanes; ++l) Draw::pair(low[l], high[l], even[l], odd[l]);
    if (chunk >= first && chunk + kChunk <= last) {
      typename Draw::Value* LEEWARD_RESTRICT to = out + (chunk - first);
      for (int l = 0; l < kLanes; ++l) {
        to[2 * l] = even[l];
        to[2 * l + 1] = odd[l];
      }
    } else {
      for (std::uint64_t i = std::max(first, chunk); i < std::min(last, chunk + kChunk); ++i) {
        const std::uint64_t l = (i - chunk) / 2;
        out[i - first] = i % 2 == 0 ? even[l] : odd[l];
      }
    }
  }
}

}  // namespace

LEEWARD_CLONES void fill_words(const Stream& stream, std::uint64_t first, std::int64_t count, std::uint64_t* out) {
  fill<WordDraw>(stream, first, count, out);
}

LEEWARD_CLONES void fill_uniform(const Stream& stream, std::uint64_t first, std::int64_t count, double* out) {
  fill<UniformDraw>(stream, first, count, out);
}

LEEWARD_CLONES void fill_open_uniform(const Stream& stream, std::uint64_t first, std::int64_t count, double* out) {
  fill<OpenUniformDraw>(stream, first, count, out);
}

LEEWARD_CLONES void fill_normal(const Stream& stream, std::uint64_t first, std::int64_t count, double* out) {
  fill<NormalDraw>(stream, first, count, out);
}

}  // namespace leeward
