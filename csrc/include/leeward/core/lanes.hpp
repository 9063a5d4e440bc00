// Sums whose bits depend on the data and its length alone.
//
// Inside a block, element i is added to lane i mod 16 (the form that vectorises without reassociation, under LEEWARD_LANES); the 16 lanes are
// folded by halves; blocks are combined by a fixed binary tree. Accumulation is in double whatever is read.
#pragma once

#include <cstdint>

#include "leeward/core/simd.hpp"

namespace leeward {

inline constexpr int kLanes = 16;
inline constexpr std::int64_t kBlock = 8192;  // elements of a vector handled by one block

inline constexpr std::int64_t block_count(std::int64_t n, std::int64_t block = kBlock) { return (n + block - 1) / block; }

// Asks for the 16 elements 4 KiB ahead in a pass over x: hardware prefetchers stop at page ends, this does not.
template <class T>
LEEWARD_INLINE void prefetch_pass(const T* x) {
#if defined(__GNUC__)
  const char* ahead = reinterpret_cast<const char*>(x) + 4096;
  __builtin_prefetch(ahead);
  if constexpr (kLanes * sizeof(T) > 64) __builtin_prefetch(ahead + 64);
#else
  (void)x;
#endif
}

// 16 partial sums of one quantity.
struct Lanes {
  double lane[kLanes] = {};
  LEEWARD_INLINE double fold() const {
    double a[kLanes];
    for (int l = 0; l < kLanes; ++l) a[l] = lane[l];
    for (int width = kLanes / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) a[l] = a[l] + a[l + width];
    return a[0];
  }
};

// Sum over a fixed binary tree: halves of the range, split at the largest power of two below its length.
template <class Get>
double tree_sum(std::int64_t first, std::int64_t last, const Get& get) {
  const std::int64_t n = last - first;
  if (n <= 0) return 0.0;
  if (n == 1) return get(first);
  std::int64_t half = 1;
  while (half * 2 < n) half *= 2;
  return tree_sum(first, first + half, get) + tree_sum(first + half, last, get);
}

}  // namespace leeward
