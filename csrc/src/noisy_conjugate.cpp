#include "leeward/risk/noisy_conjugate.hpp"

#include <cmath>
#include <stdexcept>

#include "leeward/core/quadrature.hpp"

namespace leeward {
namespace {

constexpr double kReach = 14.0;  // sqrt(v) is within this of its mode but for 1e-43; its variance is at most 1
constexpr double kPrecision = 1e-13;

// The density of q = sqrt(v), up to a constant: q^(k - 1) e^(-q^2 / 2), 1 at its mode.
struct Density {
  double mode, power;  // sqrt(k - 1), k - 1
  LEEWARD_INLINE double operator()(double q) const {
    const double d = q - mode;
    const double ratio = mode > 0.0 ? d / mode : 0.0;
    return hd::exp(power * hd::log1p(ratio) - d * (mode + 0.5 * d));
  }
};

struct MassNodes {
  Density density;
  LEEWARD_INLINE void operator()(const double* q, double (*out)[kLanes]) const {
    for (int l = 0; l < kLanes; ++l) out[0][l] = density(q[l]);
  }
};

template <class Divergence>
struct ConjugateNodes {
  Density density;
  Divergence divergence;
  double x, beta;
  LEEWARD_INLINE void operator()(const double* q, double (*out)[kLanes]) const {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double w = density(q[l]);
      const hd::Element e = divergence(x - beta * (q[l] * q[l]));
      out[0][l] = w * e.ratio;
      out[1][l] = w * e.conjugate;
      out[2][l] = w * e.slope;
    }
  }
};

constexpr double kLeast[3] = {1.0, 1.0, 1.0};

LEEWARD_CLONES double mass_of(MassNodes f, const PanelEnds& ends) {
  return integrate<1, 1>(f, ends, kPrecision, kLeast).of[0];
}
LEEWARD_CLONES Integrals<3> conjugate_of(ConjugateNodes<hd::ChiSquareDivergence> f, const PanelEnds& ends) {
  return integrate<3, 2>(f, ends, kPrecision, kLeast);
}
LEEWARD_CLONES Integrals<3> conjugate_of(ConjugateNodes<hd::SmoothedCVaRDivergence> f, const PanelEnds& ends) {
  return integrate<3, 2>(f, ends, kPrecision, kLeast);
}

double host_log(double x) { return hd::log(x); }

}  // namespace

NoisyConjugate::NoisyConjugate(double alpha, double beta, std::int64_t freedom, const Resources& use)
    : alpha_(alpha),
      beta_(beta),
      dof_(static_cast<double>(freedom)),
      freedom_(freedom),
      cvar_(hd::SmoothedCVaRDivergence::make(alpha > 0.0 ? alpha : 0.5, host_log)),
      log_alpha_(alpha > 0.0 ? hd::log(alpha) : 0.0),
      floor_(alpha > 0.0 ? hd::log1p(-alpha) / alpha : -0.5) {
  if (freedom == 0) return;
  mode_ = std::sqrt(dof_ - 1.0);
  first_ = std::max(0.0, mode_ - kReach);
  last_ = mode_ + kReach;
  PanelEnds ends(first_, last_);
  for (const double q : {mode_ - 4.5, mode_, mode_ + 4.5}) ends.split(q);
  mass_ = mass_of({{mode_, dof_ - 1.0}}, ends);
  const double turn = alpha > 0.0 ? hd::log1p(-alpha) - log_alpha_ : -1.0;  // where f*' bends, or begins
  low_ = alpha > 0.0 ? std::min(hd::log1p(-alpha), 0.0) - 46.0 : beta * (first_ * first_) - 1.0;
  high_ = beta * (last_ * last_) + turn + (alpha > 0.0 ? 46.0 : 0.0);
  const auto fit = [this](double* x, double(*y)[kLanes]) { tabulate(x, y); };
  const auto small = [](const double* tail, const double* size, int) {
    return tail[0] <= 3e-14 * std::max(1.0, size[0]) && tail[2] <= 3e-14 * std::max(1.0, size[2]);
  };
  constexpr std::int64_t kMost = 4096;
  if (high_ > low_ && !table_.build(low_, high_, kMost, use, fit, small))
    throw std::invalid_argument("noise, entropy and the number of features are too extreme for the exact Gaussian objective");
}

void NoisyConjugate::tabulate(double x[kLanes], double y[3][kLanes]) const {
  const double turn = alpha_ > 0.0 ? hd::log1p(-alpha_) - log_alpha_ : -1.0;
  for (int i = 0; i < kLanes; ++i) {
    const double square = (x[i] - turn) / beta_;
    const double bend = square > 0.0 ? std::sqrt(square) : 0.0;
    const bool stops = alpha_ == 0.0;
    Integrals<3> sum;
    const double last = stops ? std::min(last_, std::max(bend, first_)) : last_;
    PanelEnds ends(first_, last);
    for (const double q : {mode_ - 4.5, mode_, mode_ + 4.5, bend}) ends.split(q);
    const Density density{mode_, dof_ - 1.0};
    if (stops) {
      // Past the bend f* is -1/2.
      sum = conjugate_of(ConjugateNodes<hd::ChiSquareDivergence>{density, {}, x[i], beta_}, ends);
      PanelEnds rest(last, last_);
      for (const double q : {mode_ - 4.5, mode_, mode_ + 4.5}) rest.split(q);
      sum.of[1] -= 0.5 * mass_of({density}, rest);
    } else {
      sum = conjugate_of(ConjugateNodes<hd::SmoothedCVaRDivergence>{density, cvar_, x[i], beta_}, ends);
    }
    y[0][i] = sum.of[0] / mass_;
    y[1][i] = sum.of[2] / mass_;
    y[2][i] = sum.of[1] / mass_;
  }
}

}  // namespace leeward
