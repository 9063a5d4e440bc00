// A keyed permutation of {0, ..., n - 1} in O(1) memory: permutation[k] for k = 0, 1, ... samples without replacement.
//
// A Feistel network on the smallest power of two not below n, its two halves of bits exchanged in turn (an "alternating"
// network where they differ by one bit); a value outside [0, n) is sent through again ("cycle walking": Black and Rogaway,
// "Ciphers with arbitrary finite domains", CT-RSA 2002), on average less than once. Rounds mix 32 bits with a round key.
// So few bits mix badly that up to 16 elements are shuffled (Fisher and Yates) into a table instead: all their orders are
// equally likely to 2^-35.
#pragma once

#include <bit>
#include <cstdint>

#include "leeward/hd/draws.hpp"
#include "leeward/hd/philox.hpp"

namespace leeward::hd {

inline constexpr int kPermutationRounds = 12;
inline constexpr int kPermutationTable = 16;

struct Permutation {
  std::uint64_t size = 1;
  std::uint32_t low_bits = 0, high_bits = 0;
  std::uint32_t round_key[kPermutationRounds] = {};
  std::uint8_t table[kPermutationTable] = {};  // the whole order, where size <= 16

  // `blocks` are three random blocks that key the permutation.
  LEEWARD_HD Permutation(std::uint64_t n, const PhiloxBlock (&blocks)[3]) : size(n) {
    const auto bits = static_cast<std::uint32_t>(n > 1 ? std::bit_width(n - 1) : 0);
    low_bits = bits / 2;
    high_bits = bits - low_bits;
    for (int b = 0; b < 3; ++b) {
      round_key[4 * b] = static_cast<std::uint32_t>(blocks[b].x0);
      round_key[4 * b + 1] = static_cast<std::uint32_t>(blocks[b].x1);
      round_key[4 * b + 2] = static_cast<std::uint32_t>(blocks[b].x2);
      round_key[4 * b + 3] = static_cast<std::uint32_t>(blocks[b].x3);
    }
    if (in_table()) shuffle(low_word(blocks[0]), high_word(blocks[0]));
  }

  LEEWARD_HD bool in_table() const { return size <= kPermutationTable; }

  // Position i takes one of the elements i, ..., n - 1. A word holds up to eight choices: its product with their number is
  // the choice above the point and what is left of the word below it.
  LEEWARD_HD void shuffle(std::uint64_t word, std::uint64_t next_word) {
    for (int i = 0; i < kPermutationTable; ++i) table[i] = static_cast<std::uint8_t>(i);
    for (std::uint64_t i = 0; i + 1 < size; ++i) {
      if (i == kPermutationTable / 2) word = next_word;
      const WidePair choice = multiply_wide(word, size - i);
      word = choice.low;
      const std::uint8_t taken = table[i + choice.high];
      table[i + choice.high] = table[i];
      table[i] = taken;
    }
  }

  // A bijection of 32 bits in which each bit of the input changes half of the output (Wellons' "lowbias32").
  static LEEWARD_HD std::uint32_t mix(std::uint32_t x, std::uint32_t key) {
    x ^= key;
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return x ^ (x >> 16);
  }

  // One pass of the network over [0, 2^(low_bits + high_bits)), for more than 16 elements.
  LEEWARD_HD std::uint64_t pass(std::uint64_t x) const {
    const auto low_mask = static_cast<std::uint32_t>((std::uint64_t{1} << low_bits) - 1);
    const auto high_mask = static_cast<std::uint32_t>((std::uint64_t{1} << high_bits) - 1);
    std::uint32_t low = static_cast<std::uint32_t>(x) & low_mask;
    std::uint32_t high = static_cast<std::uint32_t>(x >> low_bits);
#if defined(__GNUC__)
#pragma GCC unroll 6
#endif
    for (int r = 0; r < kPermutationRounds; r += 2) {
      high ^= mix(low, round_key[r]) & high_mask;
      low ^= mix(high, round_key[r + 1]) & low_mask;
    }
    return (static_cast<std::uint64_t>(high) << low_bits) | low;
  }

  // The image of k, 0 <= k < size. The walk ends, since it follows the cycle through k.
  LEEWARD_HD std::uint64_t operator[](std::uint64_t k) const {
    if (in_table()) return table[k];
    do k = pass(k);
    while (k >= size);
    return k;
  }
};

}  // namespace leeward::hd
