// The divergences of the penalised risks, one element at a time: with s = (l - eta) / lam, each gives the density ratio
// r = (f*)'(s), r - 1, its slope (f*)''(s), the conjugate f*(s), which gives the integrand f(r) = r s - f*(s), and its bend.
//
// Everything vanishes at s = 0 without cancellation, so a penalty of 1e12 times the range keeps all digits.
#pragma once

#include "leeward/hd/real_math.hpp"

namespace leeward::hd {

struct Element {
  double ratio, excess, slope, conjugate;  // r, r - 1, dr/ds, f*(s)
  double bend = 0;                         // d^2 r/ds^2; for a ratio with a kink, the jump of dr/ds within kNear of s
};

inline constexpr double kNear = 0x1p-20;

// exp(s) and exp(s) - 1 for the price of one; s beyond 700 counts as 700.
struct ExpPair {
  double exp, expm1;
};

LEEWARD_HD ExpPair exp_pair(double s) {
  double y = s < -708.0 ? -708.0 : s;
  y = y > 700.0 ? 700.0 : y;
  const double t = y * real::kLog2e + real::kShift;
  const double k = t - real::kShift;
  const double r = (y - k * real::kLn2Hi) - k * real::kLn2Lo;
  const double scale = real::power_of_two(bits_of(t));
  const double tail = scale * real::expm1_reduced(r);
  return {s < -708.0 ? 0.0 : scale + tail, tail + (scale - 1.0)};
}

// The same for s at most 700.
LEEWARD_HD ExpPair exp_pair_below(double s) {
  const double y = s < -708.0 ? -708.0 : s;
  const double t = y * real::kLog2e + real::kShift;
  const double k = t - real::kShift;
  const double r = (y - k * real::kLn2Hi) - k * real::kLn2Lo;
  const double scale = real::power_of_two(bits_of(t));
  const double tail = scale * real::expm1_reduced(r);
  return {s < -708.0 ? 0.0 : scale + tail, tail + (scale - 1.0)};
}

// f(t) = t log t - t + 1, f*(s) = e^s - 1.
struct KLDivergence {
  static constexpr bool kEdge = false;
  LEEWARD_HD Element operator()(double s) const {
    const ExpPair e = exp_pair(s);
    return {e.exp, e.expm1, e.exp, e.expm1};
  }
};

// f(t) = (t - 1)^2 / 2, f*(s) = ((1 + s)_+^2 - 1) / 2.
struct ChiSquareDivergence {
  static constexpr bool kEdge = false;
  LEEWARD_HD Element operator()(double s) const {
    const bool active = s > -1.0;
    const double t = active ? s : -1.0;
    return {active ? 1.0 + s : 0.0, t, active ? 1.0 : 0.0, active ? s + 0.5 * (s * s) : -0.5};
  }
};

// f(t) = t log t - t + 1 on [0, cap], else infinite: f*(s) = e^s - 1 up to s = log cap, then linear.
struct CappedKLDivergence {
  static constexpr bool kEdge = false;
  double cap, log_cap;
  LEEWARD_HD Element operator()(double s) const {
    const bool free = s < log_cap;
    const ExpPair e = exp_pair_below(free ? s : log_cap);
    const double past = s - log_cap;
    const double bend = past < kNear ? (past > -kNear ? cap : 0.0) : 0.0;
    return {free ? e.exp : cap, free ? e.expm1 : cap - 1.0, free ? e.exp : 0.0, free ? e.expm1 : cap * past + (cap - 1.0),
            bend};
  }
};

// log y for y = 1 + t > 0, else a number so small that every power of y vanishes; `y` is the exact form used near 0. There
// are no special cases as in log1p: their branches would keep a loop from vectorising.
LEEWARD_HD double log_of_power(double t, double y) {
  const bool far = t < -0.5;
  const double u = far ? y : 1.0 + t;
  const double v = u - 1.0;
  const double lost = far ? 0.0 : (1.0 - (u - v)) + (t - v);
  const real::LogParts p = real::log_split(u);
  const double scale = from_bits((std::uint64_t{2048 + 1023} - p.exponent) << 52);
  const double result = real::log_join(p.k, p.f, lost * scale * (1.0 - p.f));
  return u > 0x1p-1000 ? result : -1e250;
}

// f(t) = t log t + ((1 - alpha t) / alpha) log((1 - alpha t) / (1 - alpha)), f*(s) = log(1 - alpha + alpha e^s) / alpha.
//
// On each side of `turn` either e^s or e^-s is used, E for short, and 1 - alpha + alpha e^s is `base + moving E` or e^s
// times that. The logarithm is that of 1 + t with t in [-1/2, 1]: t = moving (E - 1) near s = 0, odds E far from it.
struct SmoothedCVaRDivergence {
  static constexpr bool kEdge = false;
  struct Side {
    double base, moving, one, grown;  // r = (one + grown E) / (base + moving E)
    double excess;                    // r - 1 = excess (E - 1) / (base + moving E)
  };
  double alpha, rest;      // rest = 1 - alpha
  double mirror;           // 1 for alpha <= 1/2, else -1: the sides change places
  double turn;             // -log least: far from 0 is mirror s > turn, where t is 1 - least on both sides
  double odds, log_least;  // least = min(alpha, 1 - alpha), odds = (1 - least) / least
  double linear;           // what the near side adds to the logarithm, as a multiple of s
  Side near, far;

  // logarithm is the host's log.
  template <class Logarithm>
  static SmoothedCVaRDivergence make(double alpha, const Logarithm& logarithm) {
    const double rest = 1.0 - alpha;
    const bool swapped = alpha > 0.5;
    const double least = swapped ? rest : alpha, odds = (1.0 - least) / least;
    const Side down{rest, alpha, 0, 1, rest}, up{alpha, rest, 1, 0, -rest};
    return {alpha,
            rest,
            swapped ? -1.0 : 1.0,
            -logarithm(least),
            odds,
            logarithm(least),
            swapped ? 1.0 : 0.0,
            swapped ? up : down,
            swapped ? down : up};
  }

  LEEWARD_HD Element operator()(double s) const {
    const double m = mirror * s;
    const bool is_far = m > turn;
    const ExpPair e = exp_pair_below(is_far ? -m : m);
    const double moving = is_far ? far.moving : near.moving;
    const double inverse = 1.0 / ((is_far ? far.base : near.base) + moving * e.exp);
    const double ratio = ((is_far ? far.one : near.one) + (is_far ? far.grown : near.grown) * e.exp) * inverse;
    const double excess = (is_far ? far.excess : near.excess) * e.expm1 * inverse;
    const double slope = rest * e.exp * (inverse * inverse);
    const double logarithm =
        real::log1p_unit(is_far ? odds * e.exp : near.moving * e.expm1) + (is_far ? m + log_least : 0.0);
    return {ratio, excess, slope, (logarithm + linear * s) * (1.0 / alpha), slope * (1.0 - 2.0 * alpha * (1.0 + excess))};
  }
};

// f(t) = (t^k - k t + k - 1) / (k (k - 1)), f*(s) = (((k - 1) s + 1)_+^(k / (k - 1)) - 1) / k, k > 1.
struct CressieReadDivergence {
  static constexpr bool kEdge = true;
  double order;     // k
  double exponent;  // 1 / (k - 1)
  LEEWARD_HD Element operator()(double s) const { return (*this)(s, 1.0 + (order - 1.0) * s); }
  // y = 1 + (k - 1) s, exact near 0.
  LEEWARD_HD Element operator()(double s, double y) const {
    const double logarithm = log_of_power((order - 1.0) * s, y);
    const ExpPair r = exp_pair(exponent * logarithm);
    // y^(exponent + 1) - 1 = y (y^exponent - 1) + (y - 1), y being 0 below the edge
    const double t = (order - 1.0) * s;
    const bool held = y > 0x1p-1000;
    const double power = held ? y * r.expm1 + (y < 0.5 ? y - 1.0 : t) : -1.0;
    return {r.exp, r.expm1, r.exp / (held ? y : 1.0), power / order};
  }
};

}  // namespace leeward::hd
