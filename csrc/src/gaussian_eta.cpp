// Profiles of the divergences whose eta is not in closed form: eta by safeguarded Newton steps, E F' = 1 at it.
#include <cmath>

#include "leeward/risk/gaussian_profile.hpp"

namespace leeward {
namespace {

constexpr double kReach = 14.0;        // of s; a Gaussian has 1e-44 beyond
constexpr double kPrecision = 1e-12;   // of a panel's halves against the whole, where F' is smooth
constexpr double kFine = 1e-15;        // where panels have to close in on its kinks
constexpr double kRootTwoPi = 2.5066282746310002;

// The argument of F at s, for phi(m) the origin of losses: (phi(m + tau s) - phi(m)) / T - eta - beta s^2.
template <class Loss>
struct Argument {
  Shape<Loss> f;
  double m, tau, inverse, start, beta, eta;
  LEEWARD_INLINE double operator()(double s) const {
    return (f.value(m + tau * s) - start) * inverse - eta - beta * (s * s);
  }
};

// F' and F''.
template <class Argue>
struct BalanceNodes {
  Argue x;
  const NoisyConjugate* conjugate;
  LEEWARD_INLINE void operator()(const double* s, double (*out)[kLanes]) const {
    double at[kLanes], w[kLanes];
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      at[l] = x(s[l]);
      w[l] = hd::exp(-0.5 * (s[l] * s[l])) * (1.0 / kRootTwoPi);
    }
    for (int l = 0; l < kLanes; ++l) {
      const NoisyConjugate::Balance v = conjugate->balance(at[l]);
      out[0][l] = w[l] * v.ratio;
      out[1][l] = w[l] * v.slope;
    }
  }
};

// F', F, F' phi', F' phi' s.
template <class Loss>
struct ResultNodes {
  Argument<Loss> x;
  const NoisyConjugate* conjugate;
  LEEWARD_INLINE void operator()(const double* s, double (*out)[kLanes]) const {
    double at[kLanes], w[kLanes], g[kLanes];
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      at[l] = x(s[l]);
      g[l] = x.f.slope(x.m + x.tau * s[l]);
      w[l] = hd::exp(-0.5 * (s[l] * s[l])) * (1.0 / kRootTwoPi);
    }
    for (int l = 0; l < kLanes; ++l) {
      const NoisyConjugate::Value v = conjugate->at(at[l]);
      const double r = w[l] * v.ratio;
      out[0][l] = r;
      out[1][l] = w[l] * v.conjugate;
      out[2][l] = r * g[l];
      out[3][l] = r * g[l] * s[l];
    }
  }
};

// Panels that no feature of F(x(s)) falls between: graded around the maxima of x, which are at least 1 / sqrt(2 beta) wide.
LEEWARD_INLINE PanelEnds panels(double reach, double beta, double low, double high, double kink0, double kink1) {
  PanelEnds ends(-reach, reach);
  for (const double s : {-9.0, -4.5, 0.0, 4.5, 9.0, kink0, kink1, low, high}) ends.split(s);
  const double width = 2.0 / std::sqrt(2.0 * beta);
  for (double w = width; w < 3.0 && ends.count + 4 < kMostEnds; w *= (width < 1e-6 ? 16.0 : 4.0))
    for (const double s : {low - w, low + w, high - w, high + w}) ends.split(s);
  return ends;
}

// What a solve takes besides its functions.
struct Solve {
  double step;             // of the first search for eta
  double precision;        // of panels
  double noise;            // of the arguments of F, by rounding of the losses
  AcceptedPanels* known;   // panels that served a nearby sample, or none
};

// The root of E F'(x(eta)) = 1; `eta` is where to start. On known panels first, then on panels of its own.
template <class Argue>
LEEWARD_INLINE double solve(BalanceNodes<Argue> nodes, const PanelEnds& ends, double eta, const Solve& how) {
  constexpr double kLeast[1] = {1.0};
  const double near = std::max(2e-14, how.noise);
  EtaSearch search{.step = how.step};
  bool given = how.known != nullptr && how.known->complete();
  for (int i = 0; i < 300; ++i) {
    nodes.x.eta = eta;
    const Integrals<2> e = given ? integrate_over<2>(nodes, *how.known) : integrate<2, 1>(nodes, ends, how.precision, kLeast);
    const double excess = e.of[0] - 1.0;
    if (!(std::abs(excess) > near)) break;
    if (given && (i == 8 || std::abs(excess) > 1.0)) {  // the panels were those of another problem
      given = false;
      search = {.step = search.step};
      continue;
    }
    if (!search.move(excess, e.of[1], &eta)) break;
  }
  return eta;
}

// Whether the tails of the Gaussian beyond 9 carry nothing: the ratio there, by 1e-18, is nothing beside 1.
template <class Argue>
LEEWARD_INLINE double reach_of(const Argue& x, const NoisyConjugate& conjugate) {
  double most = 0.0;
  for (const double s : {-kReach, -9.0, 9.0, kReach}) most = std::max(most, conjugate.balance(x(s)).ratio);
  return most < 10.0 ? 9.0 : kReach;
}

template <class Loss>
LEEWARD_INLINE void lanes(const Shape<Loss>& f, const EtaScale& scale, const double* m, Profile& out) {
  const double T = scale.T, tau = scale.tau, beta = scale.beta;
  const bool smooth = scale.conjugate->smooth();
  const double precision = smooth ? kPrecision : kFine;
  AcceptedPanels known;
  double eta = scale.base, last = hd::real::kNaN;
  for (int l = 0; l < kLanes; ++l) {
    if (m[l] == last) {  // lanes past the samples repeat one
      out.value[l] = out.value[l - 1];
      out.slope[l] = out.slope[l - 1];
      out.spread[l] = out.spread[l - 1];
      continue;
    }
    last = m[l];
    const double start = f.value(m[l]);
    if (!(tau > 0.0)) {
      out.value[l] = start;
      out.slope[l] = f.slope(m[l]);
      out.spread[l] = 0.0;
      continue;
    }
    const double steepness = tau / T / (2.0 * beta);
    double low = std::max(-kReach, steepness * f.lowest), high = std::min(kReach, steepness * f.highest);
    low = std::max(-kReach, outer_mode(f, m[l], tau, steepness, low, true));
    high = std::min(kReach, outer_mode(f, m[l], tau, steepness, high, false));
    Argument<Loss> x{f, m[l], tau, 1.0 / T, start, beta, eta};
    // phi(m + tau s) - phi(m) is known to the rounding of its terms.
    const double rounding = std::min(0.1, 4e-16 * (std::abs(start) + std::abs(m[l] * f.slope(m[l]))) / T);
    const double steepest = std::max(std::abs(f.slope(m[l] - tau * kReach)), std::abs(f.slope(m[l] + tau * kReach)));
    const double least[4] = {1.0, 1.0, 0.1 * steepest, 0.1 * steepest};
    Integrals<4> e;
    for (int attempt = 0; attempt < 3; ++attempt) {
      x.eta = eta;
      const double reach = attempt == 2 ? kReach : reach_of(x, *scale.conjugate);
      const PanelEnds ends = panels(reach, beta, low, high, (f.kink[0] - m[l]) / tau, (f.kink[1] - m[l]) / tau);
      const Solve how{1.0 + beta, std::max(precision, rounding), rounding, smooth && attempt == 0 ? &known : nullptr};
      x.eta = eta = solve(BalanceNodes<Argument<Loss>>{x, scale.conjugate}, ends, eta, how);
      known.count = 0;
      e = integrate<4, 4>(ResultNodes<Loss>{x, scale.conjugate}, ends, how.precision, least, &known);
      if (reach >= reach_of(x, *scale.conjugate) && std::abs(e.of[0] - 1.0) <= std::max(1e-12, 4.0 * rounding)) break;
    }
    out.value[l] = start + T * ((e.of[1] + eta) - scale.base);
    out.slope[l] = e.of[2] / e.of[0];
    out.spread[l] = e.of[3] / e.of[0];
  }
}

struct NoLoss {
  double beta, eta;
  LEEWARD_INLINE double operator()(double s) const { return -eta - beta * (s * s); }
};
struct NoLossNodes {
  NoLoss x;
  const NoisyConjugate* conjugate;
  LEEWARD_INLINE void operator()(const double* s, double (*out)[kLanes]) const {
    for (int l = 0; l < kLanes; ++l)
      out[0][l] = conjugate->at(x(s[l])).conjugate * hd::exp(-0.5 * (s[l] * s[l])) * (1.0 / kRootTwoPi);
  }
};

LEEWARD_CLONES double constant(const NoisyConjugate& conjugate, double beta) {
  const PanelEnds ends = panels(kReach, beta, 0.0, 0.0, 0.0, 0.0);
  NoLoss x{beta, 0.0};
  x.eta = solve(BalanceNodes<NoLoss>{x, &conjugate}, ends, 0.0, {1.0 + beta, kFine, 0.0, nullptr});
  constexpr double kLeast[1] = {1.0};
  return x.eta + integrate<1, 1>(NoLossNodes{x, &conjugate}, ends, kFine, kLeast).of[0];
}

}  // namespace

double eta_constant(const NoisyConjugate& conjugate, double beta) { return constant(conjugate, beta); }

LEEWARD_CLONES void eta_profile(const Shape<hd::LogisticLoss>& f, const EtaScale& scale, const double* m, Profile& out) {
  lanes(f, scale, m, out);
}
LEEWARD_CLONES void eta_profile(const Shape<hd::MarginLoss>& f, const EtaScale& scale, const double* m, Profile& out) {
  lanes(f, scale, m, out);
}
LEEWARD_CLONES void eta_profile(const Shape<hd::ResidualLoss>& f, const EtaScale& scale, const double* m, Profile& out) {
  lanes(f, scale, m, out);
}

}  // namespace leeward
