// A safeguarded search for the root of a decreasing function of eta, known only through its sign and a proposed next point.
//
// eta is kept as hi + lo, so that l - eta is resolved far below the spacing of doubles near eta: with a penalty of 1e-12
// of the range one rounding of eta alone would move the weights by 1e-4.
#pragma once

#include "leeward/hd/inline.hpp"

namespace leeward::hd {

struct Eta {
  double hi = 0, lo = 0;
  LEEWARD_HD double from(double x) const { return (x - hi) - lo; }  // x - eta
  LEEWARD_HD double sum() const { return hi + lo; }
};

LEEWARD_HD double minus(const Eta& a, const Eta& b) { return (a.hi - b.hi) + (a.lo - b.lo); }

// s + e = a + b exactly, s the rounded sum.
LEEWARD_HD Eta exact_sum(double a, double b) {
  const double s = a + b;
  const double back = s - a;
  return {s, (a - (s - back)) + (b - back)};
}

// eta + step, renormalised so that |lo| is at most half a unit in the last place of hi.
LEEWARD_HD Eta moved(const Eta& a, double step) {
  const Eta s = exact_sum(a.hi, step);
  return exact_sum(s.hi, s.lo + a.lo);
}

struct EtaBracket {
  Eta low, high;  // the function is >= 0 at low and <= 0 at high

  // Takes in the sign of the function at `at`; returns the next point: `at + step` if that lies strictly inside and
  // no halving is asked for, else the middle.
  // A bracket that cannot shrink returns `at` itself.
  LEEWARD_HD Eta next(const Eta& at, double value, double step, bool halve = false) {
    if (value >= 0)
      low = at;
    else
      high = at;
    const Eta proposed = moved(at, step);
    if (!halve && minus(proposed, low) > 0 && minus(high, proposed) > 0) return proposed;
    const Eta middle = moved(low, 0.5 * minus(high, low));
    if (minus(middle, low) > 0 && minus(high, middle) > 0) return middle;
    return at;
  }
};

}  // namespace leeward::hd
