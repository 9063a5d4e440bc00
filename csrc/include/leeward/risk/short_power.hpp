// What the kernels for short rows of CressieRead share: with a = 1 / (k - 1) and a threshold t, powers y^a of y = kappa (x - t)_+.
#pragma once

#include <cmath>
#include <cstdint>

#include "leeward/hd/divergence.hpp"
#include "leeward/risk/short_frame.hpp"

namespace leeward {

inline constexpr double kMostExponent = 16;    // of a and 1 / a, up to which y and its powers keep their digits
inline constexpr double kMostPowerPenalty = 8;  // the penalties, in units of the range of the losses; a times them for a > 1
inline constexpr double kSettled = 1e-14;      // a miss that is rounding
inline constexpr double kNearRoot = 1e-8;      // from which one step of Newton reaches rounding, where slopes are bounded

// y^a and y^(a - 1) for y > 0, and S^(1 - 1/a); the largest penalty, and the miss after which a step is the last.
struct SquareLaw {
  static constexpr double a = 2.0, most = kMostPowerPenalty / 2.0, near = kNearRoot;
  LEEWARD_INLINE void operator()(double y, double* r, double* slope) const {
    *r = y * y;
    *slope = y;
  }
  LEEWARD_INLINE double outer(double s) const { return std::sqrt(s); }
};

struct RootLaw {
  static constexpr double a = 0.5, most = kMostPowerPenalty, near = kSettled;
  LEEWARD_INLINE void operator()(double y, double* r, double* slope) const {
    *r = std::sqrt(y);
    *slope = *r / y;
  }
  LEEWARD_INLINE double outer(double s) const { return 1.0 / s; }
};

LEEWARD_INLINE double logarithm(double y) {  // of a positive, normal y
  const hd::real::LogParts p = hd::real::log_split(y);
  return hd::real::log_join(p.k, p.f, 0.0);
}

struct PowerLaw {
  double a, most, near, rest;  // rest = 1 - 1/a
  LEEWARD_INLINE void operator()(double y, double* r, double* slope) const {
    *r = hd::exp_pair(a * logarithm(y)).exp;
    *slope = *r / y;
  }
  LEEWARD_INLINE double outer(double s) const { return hd::exp_pair(rest * logarithm(s)).exp; }
};

template <int R>
struct Thresholds {
  alignas(64) double hi[R], lo[R];  // t = hi + lo
  alignas(64) double kappa[R];      // 1 / (a lam)
  alignas(64) double iterations[R]; // 0: not found
};

// y at a place: 1 (a harmless number) where it is not above the threshold.
template <int R>
LEEWARD_INLINE double base_at(const Thresholds<R>& t, double x, int k, bool* above) {
  const double y = ((x - of_row<R>(t.hi, k)) - of_row<R>(t.lo, k)) * of_row<R>(t.kappa, k);
  *above = y > 0x1p-1000;
  return *above ? y : 1.0;
}

// Calls solve(law) with the law of powers for this order; not for orders out of range.
template <class Solve>
void with_law(double order, const Solve& solve) {
  const double a = 1.0 / (order - 1.0);
  if (!(a <= kMostExponent && a >= 1.0 / kMostExponent)) return;
  if (order == 1.5)
    solve(SquareLaw{});
  else if (order == 3.0)
    solve(RootLaw{});
  else if (a > 1.0)
    solve(PowerLaw{a, kMostPowerPenalty / a, kNearRoot, 1.0 - 1.0 / a});
  else
    solve(PowerLaw{a, kMostPowerPenalty, kSettled, 1.0 - 1.0 / a});
}

// CressieRead(order, penalty, radius); penalty is negative where there is none.
template <class T>
void short_cressie_read_ball(const ShortRows<T>& rows, double order, double penalty, double radius, ShortAnswers* out);

}  // namespace leeward
