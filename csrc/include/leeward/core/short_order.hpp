// The ascending order of a few numbers in [-1, 0]. Sorting a thousand of them costs a comparison sort more in branches that were
// guessed wrong than in comparisons; here nothing depends on an answer but data.
#pragma once

#include <cstdint>

namespace leeward {

inline constexpr std::int64_t kOrderMost = 1024;

struct ShortOrder {
  static constexpr int kMargin = 16;
  alignas(64) double room[kMargin + kOrderMost + kMargin];
  std::uint16_t index[kOrderMost];  // of the numbers in ascending order; equal ones by their index
  bool ties = false;                // whether some are equal

  // The numbers in that order; the first one stands before them too, and the last one after them, up to full lanes.
  double* place() { return room + kMargin; }
  const double* place() const { return room + kMargin; }
};

// x[0..n), 1 <= n <= kOrderMost. Slower where very many lie closer than 2^-42 without being equal.
void ascending_order(const double* x, std::int64_t n, ShortOrder* out);

}  // namespace leeward
