// The divergences of the penalised risks, one element at a time: with s = (l - eta) / lam, each gives the density ratio
// r = (f*)'(s), r - 1, its slope (f*)''(s), the conjugate f*(s) and the integrand f(r) = r s - f*(s).
//
// Everything vanishes at s = 0 without cancellation, so a penalty of 1e12 times the range keeps all digits.
#pragma once

#include "leeward/hd/real_math.hpp"

namespace leeward::hd {

struct Element {
  double ratio, excess, slope, conjugate;  // r, r - 1, dr/ds, f*(s)
};

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
    const ExpPair e = exp_pair(free ? s : log_cap);
    return {free ? e.exp : cap, free ? e.expm1 : cap - 1.0, free ? e.exp : 0.0,
            free ? e.expm1 : cap * (s - log_cap) + (cap - 1.0)};
  }
};

// log y for y = 1 + t > 0, else a number so small that every power of y vanishes; `y` is the exact form used near 0. There are no
// special cases as in log1p: their branches would keep a loop from vectorising.
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
// d = 1 - alpha + alpha e^s up to s = turn, where both terms weigh the same (or s = 0), and d / e^s beyond: a sum of positive terms
// whose logarithm loses nothing however small alpha is.
struct SmoothedCVaRDivergence {
  static constexpr bool kEdge = false;
  double alpha, turn;  // turn = max(0, log((1 - alpha) / alpha))
  LEEWARD_HD Element operator()(double s) const {
    const bool up = s > turn;
    const ExpPair e = exp_pair(up ? -s : s);
    const double rest = 1.0 - alpha;
    const double moving = up ? rest : alpha;
    const double d = (up ? alpha : rest) + moving * e.exp;
    const double excess = rest * e.expm1 / d;
    return {(up ? 1.0 : e.exp) / d, up ? -excess : excess, rest * e.exp / (d * d),
            (log_of_power(moving * e.expm1, d) + (up ? s : 0.0)) / alpha};
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
    const ExpPair r = exp_pair(exponent * logarithm), power = exp_pair((exponent + 1.0) * logarithm);
    return {r.exp, r.expm1, r.exp / (y > 0x1p-1000 ? y : 1.0), power.expm1 / order};
  }
};

}  // namespace leeward::hd
