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

// exp(s) and exp(s) - 1 for the price of one; s is at most 700.
struct ExpPair {
  double exp, expm1;
};

LEEWARD_HD ExpPair exp_pair(double s) {
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
  LEEWARD_HD Element operator()(double s) const {
    const ExpPair e = exp_pair(s);
    return {e.exp, e.expm1, e.exp, e.expm1};
  }
};

// f(t) = (t - 1)^2 / 2, f*(s) = ((1 + s)_+^2 - 1) / 2.
struct ChiSquareDivergence {
  LEEWARD_HD Element operator()(double s) const {
    const bool active = s > -1.0;
    const double t = active ? s : -1.0;
    return {active ? 1.0 + s : 0.0, t, active ? 1.0 : 0.0, active ? s + 0.5 * (s * s) : -0.5};
  }
};

// f(t) = t log t - t + 1 on [0, cap], else infinite: f*(s) = e^s - 1 up to s = log cap, then linear.
struct CappedKLDivergence {
  double cap, log_cap;
  LEEWARD_HD Element operator()(double s) const {
    const bool free = s < log_cap;
    const ExpPair e = exp_pair(free ? s : log_cap);
    return {free ? e.exp : cap, free ? e.expm1 : cap - 1.0, free ? e.exp : 0.0,
            free ? e.expm1 : cap * (s - log_cap) + (cap - 1.0)};
  }
};

// f(t) = t log t + ((1 - alpha t) / alpha) log((1 - alpha t) / (1 - alpha)), f*(s) = log(1 - alpha + alpha e^s) / alpha.
struct SmoothedCVaRDivergence {
  double alpha;
  LEEWARD_HD Element operator()(double s) const {
    const bool up = s > 0.0;
    const ExpPair e = exp_pair(up ? -s : s);
    const double rest = 1.0 - alpha;
    const double d = 1.0 + (up ? rest : alpha) * e.expm1;  // 1 - alpha + alpha e^s, over e^s when s > 0
    const double excess = rest * e.expm1 / d;
    return {(up ? 1.0 : e.exp) / d, up ? -excess : excess, rest * e.exp / (d * d),
            (log1p((up ? rest : alpha) * e.expm1) + (up ? s : 0.0)) / alpha};
  }
};

// f(t) = (t^k - k t + k - 1) / (k (k - 1)), f*(s) = (((k - 1) s + 1)_+^(k / (k - 1)) - 1) / k, k > 1.
struct CressieReadDivergence {
  double order;     // k
  double exponent;  // 1 / (k - 1)
  LEEWARD_HD Element operator()(double s) const {
    const double t = (order - 1.0) * s;
    const bool active = t > -1.0;
    const double logarithm = log1p(active ? t : -1.0);
    const double excess = expm1(exponent * logarithm);
    const double ratio = active ? 1.0 + excess : 0.0;
    const double power = expm1((exponent + 1.0) * logarithm);
    return {ratio > 0.0 ? ratio : 0.0, active ? excess : -1.0, active ? ratio / (1.0 + t) : 0.0, (active ? power : -1.0) / order};
  }
};

}  // namespace leeward::hd
