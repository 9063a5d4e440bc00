// exp, expm1, log, log1p and the logistic pair (sigmoid, softplus) for double, without branches or tables.
//
// Every operation is one IEEE addition, multiplication, division or select, and contraction is off, so a loop around them
// vectorises at any SIMD level (GCC needs -fno-trapping-math) and returns the same bits at all of them. Errors stay below
// 1 ulp for exp, log and log1p, 2 for expm1 and softplus, 2.5 for sigmoid (tests/test_real_math.py). Infinite, NaN,
// subnormal and out-of-range arguments take the same path as others, so they cost no more.
// Argument reduction and the form of log follow Sun's fdlibm; the polynomials are minimax fits made for this file.
#pragma once

#include <limits>

#include "leeward/hd/inline.hpp"

namespace leeward::hd {

namespace real {
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kShift = 0x1.8p52;  // adding it rounds to an integer, which then stands in the low bits
inline constexpr double kLog2e = 0x1.71547652b82fep0;
inline constexpr double kLn2Hi = 0x1.62e42feep-1;  // 32 bits: k * kLn2Hi is exact for |k| < 2^21
inline constexpr double kLn2Lo = 0x1.a39ef35793c76p-33;

// 2^k for the integer k held in the low bits of `shifted` (a sum with kShift), -1022 <= k <= 1023.
LEEWARD_HD double power_of_two(std::uint64_t shifted) { return from_bits((shifted + 1023) << 52); }

// e^r - 1 for |r| <= log(2) / 2: r + r^2 P(r).
LEEWARD_HD double expm1_reduced(double r) {
  const double r2 = r * r;
  const double r4 = r2 * r2;
  const double a = 0x1.0000000000009p-1 + r * 0x1.5555555555558p-3;
  const double b = 0x1.55555555503a0p-5 + r * 0x1.111111110f7efp-7;
  const double c = 0x1.6c16c18611db9p-10 + r * 0x1.a01a01b015fc1p-13;
  const double d = 0x1.a019938664e2dp-16 + r * 0x1.71ddf69834cdap-19;
  const double e = 0x1.28b43b4f11077p-22 + r * 0x1.af635f16ead2dp-26;
  return r + r2 * ((a + r2 * b) + r4 * ((c + r2 * d) + r4 * e));
}

// u = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), for u positive and normal.
struct LogParts {
  double k, f;
  std::uint64_t exponent;  // k + 2048
};

LEEWARD_HD LogParts log_split(double u) {
  constexpr std::uint64_t kRootHalf = 0x3fe6a09e667f3bcdULL;  // bits of sqrt(1/2)
  const std::uint64_t t = bits_of(u) - kRootHalf + (std::uint64_t{2048} << 52);  // the sum wraps: exponent = k mod 4096
  const std::uint64_t exponent = t >> 52;
  const double k = from_bits(exponent | 0x4330000000000000ULL) - (0x1p52 + 2048.0);
  const double m = from_bits((t & 0x000fffffffffffffULL) + kRootHalf);
  return {k, m - 1.0, exponent};
}

// k log 2 + log(1 + f) + correction, a correction small beside 1. With s = f / (2 + f):
// log(1 + f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + s^2 Q(s^2)).
LEEWARD_HD double log_join(double k, double f, double correction) {
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double z2 = z * z;
  const double a = 0x1.555555555557cp-1 + z * 0x1.99999999845d8p-2;
  const double b = 0x1.2492493fd0d67p-2 + z * 0x1.c71c529ddc956p-3;
  const double c = 0x1.74664f280af6ap-3 + z * 0x1.399c6125590acp-3;
  const double q = z * ((a + z2 * b) + z2 * z2 * (c + z2 * 0x1.2f5934cd05cc2p-3));
  const double half = 0.5 * f * f;
  return k * kLn2Hi - ((half - (s * (half + q) + (k * kLn2Lo + correction))) - f);
}
}  // namespace real

// e^x: 0 below -745.14, infinity above 709.79.
LEEWARD_HD double exp(double x) {
  const bool vanishes = x < -745.14;
  const double y = vanishes ? 0.0 : (x > 710.0 ? 710.0 : x);
  const double t = y * real::kLog2e + real::kShift;
  const double k = t - real::kShift;
  const double r = (y - k * real::kLn2Hi) - k * real::kLn2Lo;
  const double value = 1.0 + real::expm1_reduced(r);
  // 2^k as 2^(k + 64) 2^-64 below 0 and 2^(k - 64) 2^64 above, since k reaches from -1075 to 1024; a subnormal result is
  // rounded once, by the last product.
  const std::uint64_t sign = (bits_of(y) & 0x8000000000000000ULL) >> 4;  // 128 in the place of the exponent, or 0
  const double first = from_bits((bits_of(t) << 52) + (std::uint64_t{1023 - 64} << 52) + sign);
  const double last = from_bits((std::uint64_t{1023 + 64} << 52) - sign);
  const double result = value * first * last;
  return vanishes ? 0.0 : result;
}

// e^x - 1, accurate near 0.
LEEWARD_HD double expm1(double x) {
  double y = x < -40.0 ? -40.0 : x;
  y = y > 710.0 ? 710.0 : y;
  const double t = y * real::kLog2e + real::kShift;
  const double k = t - real::kShift;
  const double r = (y - k * real::kLn2Hi) - k * real::kLn2Lo;
  const double half_scale = real::power_of_two(bits_of(t) - 1);  // 2^(k - 1), finite for k = 1024
  const double result = 2.0 * (half_scale * real::expm1_reduced(r) + (half_scale - 0.5));
  return (x < 0x1p-54 && x > -0x1p-54) ? x : result;
}

// log x: -infinity at 0, NaN below.
LEEWARD_HD double log(double x) {
  const bool subnormal = x < 0x1p-1022;
  const double u = subnormal ? x * 0x1p54 : x;
  const real::LogParts p = real::log_split(u);
  const double k = subnormal ? p.k - 54.0 : p.k;
  double result = real::log_join(k, p.f, 0.0);
  result = x > 0.0 ? result : (x == 0.0 ? -real::kInf : real::kNaN);
  return x < real::kInf ? result : (x == real::kInf ? x : result);
}

// log(1 + x), accurate near 0: -infinity at -1, NaN below.
LEEWARD_HD double log1p(double x) {
  const double u = 1.0 + x;
  const double v = u - 1.0;
  const double lost = (1.0 - (u - v)) + (x - v);  // 1 + x = u + lost exactly
  const real::LogParts p = real::log_split(u);
  // log(u + lost) = log u + lost / u, and 1 / u = 2^-k / (1 + f) is needed to relative accuracy f^2 only.
  const double scale = from_bits((std::uint64_t{2048 + 1023} - p.exponent) << 52);
  double result = real::log_join(p.k, p.f, lost * scale * (1.0 - p.f));
  result = x > -1.0 ? result : (x == -1.0 ? -real::kInf : real::kNaN);
  result = x < real::kInf ? result : (x == real::kInf ? x : result);
  return (x < 0x1p-54 && x > -0x1p-54) ? x : result;
}

namespace real {
// log(1 + e) for -1/2 <= e <= 1: the form of log_join with f = e, which needs a longer Q but no splitting.
LEEWARD_HD double log1p_unit(double e) {
  const double s = e / (2.0 + e);
  const double z = s * s;
  const double z2 = z * z;
  const double z4 = z2 * z2;
  const double a = 0x1.5555555555546p-1 + z * 0x1.999999999e274p-2;
  const double b = 0x1.2492492166354p-2 + z * 0x1.c71c73d056ff4p-3;
  const double c = 0x1.745cbb0e8dd7fp-3 + z * 0x1.3b1d823f67be1p-3;
  const double d = 0x1.1069b448b2a67p-3 + z * 0x1.efdd01a1f7f95p-4;
  const double g = 0x1.55197ea926f7ep-4 + z * 0x1.5d6cd0edfa0eap-3;
  const double q = z * ((a + z2 * b) + z4 * ((c + z2 * d) + z4 * g));
  const double half = 0.5 * e * e;
  return e - (half - s * (half + q));
}

LEEWARD_HD double minus_abs(double x) { return from_bits(bits_of(x) | 0x8000000000000000ULL); }
}  // namespace real

// 1 / (1 + e^-x).
LEEWARD_HD double sigmoid(double x) {
  const double e = exp(real::minus_abs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// log(1 + e^x) = max(x, 0) + log1p(e^-|x|); its derivative is sigmoid(x).
LEEWARD_HD double softplus(double x) {
  return (x > 0.0 ? x : 0.0) + real::log1p_unit(exp(real::minus_abs(x)));
}

}  // namespace leeward::hd
