// The conjugate of a divergence averaged over a chi-square variable,
//
//     F(x) = E f*(x - beta v),    v ~ chi2 with `freedom` degrees of freedom (v = 0 for none),
//
// with F' and F'': what is left of a Gaussian transport cost in the directions that do not move the score. F does not depend on the
// loss or the point, so it is tabulated once. f* is that of ChiSquareDivergence, or of SmoothedCVaRDivergence.
//
// F' carries an absolute error of about 1e-14 max(1, F'), which is what E F' = 1 needs; where F' < 1e-20 it counts as 0.
#pragma once

#include <cmath>

#include "leeward/core/chebyshev.hpp"
#include "leeward/hd/divergence.hpp"
#include "leeward/hd/real_math.hpp"

namespace leeward {

// Safeguarded Newton steps for the root of a decreasing E F'(. - eta) = 1, whose bracket begins as the whole line.
struct EtaSearch {
  double step = 1.0;  // the longest so far
  double low = -hd::real::kInf, high = hd::real::kInf;

  // Takes in the excess E F' - 1 and the slope E F'' at eta and moves eta; false where it cannot move.
  LEEWARD_INLINE bool move(double excess, double slope, double* eta) {
    (excess > 0.0 ? low : high) = *eta;
    double next = slope > 0.0 ? *eta + excess / slope : (excess > 0.0 ? low + step : high - step);
    const double farthest = excess > 0.0 ? *eta + step : *eta - step;
    if (std::abs(next - *eta) > step) next = farthest;
    if (!(next > low && next < high)) next = 0.5 * low + 0.5 * high;
    if (next == low || next == high || next == *eta) return false;
    if (next == farthest) step *= 4.0;
    *eta = next;
    return true;
  }
};

class NoisyConjugate {
 public:
  // alpha = 0 stands for chi-square.
  NoisyConjugate(double alpha, double beta, std::int64_t freedom, const Resources& use);

  struct Balance {
    double ratio, slope;  // F', F''
  };
  struct Value {
    double ratio, slope, conjugate;  // and F
  };
  LEEWARD_INLINE Balance balance(double x) const {
    if (freedom_ > 0 && x > low_ && x < high_) {
      double out[2];
      table_.template at<2>(x, out);
      return {out[0], out[1]};
    }
    const Value v = outside(x);
    return {v.ratio, v.slope};
  }
  LEEWARD_INLINE Value at(double x) const {
    if (!(freedom_ > 0 && x > low_ && x < high_)) return outside(x);
    double out[3];
    table_.at(x, out);
    return {out[0], out[1], out[2]};
  }
  // F' is 0 below the first, and on the last branch above the second; with freedom.
  double low() const { return low_; }
  double high() const { return high_; }
  // Whether rules of 16 points see F' as smooth: it has a kink, or grows like a low power of x from one, otherwise.
  bool smooth() const { return alpha_ > 0.0 || freedom_ > 4; }

 private:
  // Without v; below the table; or above it, where every v is on the last branch of f*: x + x^2 / 2, or (x + log alpha) / alpha.
  LEEWARD_INLINE Value outside(double x) const {
    if (freedom_ == 0) {
      const hd::Element e = alpha_ > 0.0 ? cvar_(x) : hd::ChiSquareDivergence{}(x);
      return {e.ratio, e.slope, e.conjugate};
    }
    if (!(x > low_)) return {0.0, 0.0, floor_};
    const double y = x - beta_ * dof_;
    if (alpha_ > 0.0) return {1.0 / alpha_, 0.0, (y + log_alpha_) / alpha_};
    return {1.0 + y, 1.0, y + 0.5 * (y * y + 2.0 * dof_ * beta_ * beta_)};
  }
  void tabulate(double x[kLanes], double y[3][kLanes]) const;

  double alpha_, beta_, dof_;
  std::int64_t freedom_;
  hd::SmoothedCVaRDivergence cvar_;
  double log_alpha_, floor_, low_ = 0, high_ = 0;
  double first_ = 0, mode_ = 0, last_ = 0, mass_ = 1;  // of the density of sqrt(v), which is divided by its value at the mode
  ChebyshevTable<3> table_;
};

}  // namespace leeward
