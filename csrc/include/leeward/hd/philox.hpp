// Philox 4x32-10: the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011). A 64-bit key and a 128-bit counter give 128 random bits; there is no state to carry.
#pragma once

#include <cstdint>

#include "leeward/hd/inline.hpp"

namespace leeward::hd {

struct PhiloxKey {
  std::uint32_t k0 = 0, k1 = 0;
};

// Four 32-bit words, each in a 64-bit variable.
struct PhiloxBlock {
  std::uint64_t x0 = 0, x1 = 0, x2 = 0, x3 = 0;
};

// Ten rounds; in each, two 32 x 32 -> 64 bit products are split into halves and exchanged, and the key is bumped. The
// 32-bit words are held in 64-bit variables and the rounds unrolled, so that a loop over counters vectorises.
LEEWARD_HD PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  constexpr std::uint64_t kMask = 0xffffffffULL;
  std::uint64_t x0 = counter.x0, x1 = counter.x1, x2 = counter.x2, x3 = counter.x3, k0 = key.k0, k1 = key.k1;
#if defined(__GNUC__)
#pragma GCC unroll 10
#endif
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ULL * x0;
    const std::uint64_t b = 0xCD9E8D57ULL * x2;
    x0 = (b >> 32) ^ x1 ^ k0;
    x1 = b & kMask;
    x2 = (a >> 32) ^ x3 ^ k1;
    x3 = a & kMask;
    k0 = (k0 + 0x9E3779B9ULL) & kMask;
    k1 = (k1 + 0xBB67AE85ULL) & kMask;
  }
  return {x0, x1, x2, x3};
}

// The block as two 64-bit words, first words low.
LEEWARD_HD std::uint64_t low_word(PhiloxBlock b) { return b.x0 | (b.x1 << 32); }
LEEWARD_HD std::uint64_t high_word(PhiloxBlock b) { return b.x2 | (b.x3 << 32); }

}  // namespace leeward::hd
