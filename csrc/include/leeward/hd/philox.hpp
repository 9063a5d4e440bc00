// Philox 4x32-10: the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011). A 64-bit key and a 128-bit counter give 128 random bits; there is no state to carry.
#pragma once

#include <cstdint>

#include "leeward/hd/inline.hpp"

namespace leeward::hd {

struct PhiloxKey {
  std::uint32_t k0 = 0, k1 = 0;
};

struct PhiloxBlock {
  std::uint32_t x0 = 0, x1 = 0, x2 = 0, x3 = 0;
};

// Ten rounds; in each, two 32 x 32 -> 64 bit products are split into halves and exchanged, and the key is bumped.
LEEWARD_HD PhiloxBlock philox(PhiloxBlock c, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c.x0;
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * c.x2;
    c = {static_cast<std::uint32_t>(b >> 32) ^ c.x1 ^ key.k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c.x3 ^ key.k1, static_cast<std::uint32_t>(a)};
    key.k0 += 0x9E3779B9u;
    key.k1 += 0xBB67AE85u;
  }
  return c;
}

// The block as two 64-bit words, first words low.
LEEWARD_HD std::uint64_t low_word(PhiloxBlock b) { return b.x0 | (std::uint64_t{b.x1} << 32); }
LEEWARD_HD std::uint64_t high_word(PhiloxBlock b) { return b.x2 | (std::uint64_t{b.x3} << 32); }

}  // namespace leeward::hd
