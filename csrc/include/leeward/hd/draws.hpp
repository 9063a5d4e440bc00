// Random draws as plain functions of random 64-bit words: uniforms, bounded integers, normals, geometric run lengths and
// truncated levels. Nothing here carries a state; core/stream.hpp says which words a draw gets.
#pragma once

#include <cmath>
#include <cstdint>

#include "leeward/hd/real_math.hpp"

namespace leeward::hd {

// Multiples of 2^-52 in [0, 1). (52 bits, since filling a mantissa needs no conversion and vectorises everywhere.)
LEEWARD_HD double uniform(std::uint64_t word) { return from_bits((word >> 12) | 0x3ff0000000000000ULL) - 1.0; }

// The midpoints (k + 1/2) 2^-52, in (0, 1): safe under a logarithm, and symmetric about 1/2.
LEEWARD_HD double open_uniform(std::uint64_t word) { return uniform(word) + 0x1p-53; }

struct WidePair {
  std::uint64_t high, low;
};

// The 128-bit product of two words.
LEEWARD_HD WidePair multiply_wide(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kLow = 0xffffffffULL;
  const std::uint64_t low = (a & kLow) * (b & kLow);
  const std::uint64_t middle = (a >> 32) * (b & kLow) + (low >> 32);
  const std::uint64_t other = (a & kLow) * (b >> 32) + (middle & kLow);
  return {(a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32), (other << 32) | (low & kLow)};
}

struct Bounded {
  std::uint64_t value;  // in [0, n)
  bool accepted;        // if not, take another word
};

// floor(word n / 2^64), accepted so that every value has the same number of words (Lemire, "Fast random integer generation
// in an interval", 2019). The chance of a rejection is below n / 2^64.
LEEWARD_HD Bounded below(std::uint64_t word, std::uint64_t n) {
  const WidePair product = multiply_wide(word, n);
  return {product.high, product.low >= n || product.low >= (0 - n) % n};
}

struct NormalPair {
  double first, second;
};

// Two independent standard normals (Box and Muller): sqrt(-2 log u) times cos and sin of 2 pi v. Chosen over the inverse
// distribution function for its cost: one logarithm, one root and two short polynomials give two draws, without selects
// between regions. Draws reach |z| = 8.57.
LEEWARD_HD NormalPair normal_pair(std::uint64_t for_radius, std::uint64_t for_angle) {
  const double radius = std::sqrt(-2.0 * log(open_uniform(for_radius)));
  const double turn = 4.0 * uniform(for_angle);  // quarter turns
  const double shifted = turn + real::kShift;
  const double r = turn - (shifted - real::kShift);  // exact, |r| <= 1/2
  const double z = r * r;
  const double z2 = z * z;
  const double z4 = z2 * z2;
  const double s = r * (((0x1.921fb54442d18p+0 + z * -0x1.4abbce625be41p-1) + z2 * (0x1.466bc677587f9p-4 + z * -0x1.32d2cce2e5b8bp-8)) +
                        z4 * ((0x1.50782fda10777p-13 + z * -0x1.e30071a579021p-19) + z2 * 0x1.e3f37d71d2b78p-25));
  const double c = 1.0 + z * (((-0x1.3bd3cc9be45dep+0 + z * 0x1.03c1f081b5ab4p-2) + z2 * (-0x1.55d3c7e3c98cap-6 + z * 0x1.e1f50683ce67ep-11)) +
                              z4 * ((-0x1.a6d1ecae78eacp-16 + z * 0x1.f9cc52c5f4d2bp-22) + z2 * -0x1.b264a9d8c4c01p-28));
  // Quarter turns 0, 1, 2, 3: cos is c, -s, -c, s and sin is s, c, -s, -c.
  const std::uint64_t quarter = bits_of(shifted);
  const std::uint64_t swap = 0 - (quarter & 1);
  const std::uint64_t cosine = (bits_of(c) & ~swap) | (bits_of(s) & swap);
  const std::uint64_t sine = (bits_of(s) & ~swap) | (bits_of(c) & swap);
  return {radius * from_bits(cosine ^ ((quarter + 1) << 62 & 0x8000000000000000ULL)),
          radius * from_bits(sine ^ (quarter << 62 & 0x8000000000000000ULL))};
}

// log of gamma = mean / (1 + mean), the parameter of a geometric length with this mean (-infinity for mean 0).
LEEWARD_HD double log_gamma_of_mean(double mean) { return -log1p(1.0 / mean); }

// N with P(N = k) = gamma^k (1 - gamma), k = 0, 1, ...: floor(log u / log gamma), so that P(N >= k) = P(u <= gamma^k).
LEEWARD_HD std::int64_t geometric(std::uint64_t word, double log_gamma) {
  return static_cast<std::int64_t>(log(open_uniform(word)) / log_gamma);
}

// J in 1..j_max with P(J = j) = 2^-j for j < j_max and P(J = j_max) = 2^-(j_max - 1); 1 <= j_max <= 65.
LEEWARD_HD int truncated_level(std::uint64_t word, int j_max) {
  int level = 1;
  while (level < j_max && (word >> 63) == 0) {
    word <<= 1;
    ++level;
  }
  return level;
}

}  // namespace leeward::hd
