// One sample of the Gaussian Sinkhorn objective, as a function of one number. Losses of one score are phi(m), with m = y z of a
// margin loss and m = z - y of a loss of the residual, so with T = lam entropy and beta = noise^2 / entropy
//
//     Psi(m, tau) = min_eta  T E f*((phi(m + tau s) - eta) / T - beta (s^2 + v)) + eta,    s ~ N(0, 1), v ~ chi2(dim - 1).
//
// Profiles leave the constant out that Psi has for phi = 0. Integrals over s are adaptive (core/quadrature.hpp) between the kinks
// of phi and around the maxima of the exponent: phi is convex, so the exponent's second derivative is bounded below, its maxima
// are no narrower than that bound says, and the outermost two are found by monotone iteration.
#pragma once

#include "leeward/core/quadrature.hpp"
#include "leeward/hd/scalar_loss.hpp"
#include "leeward/risk/noisy_conjugate.hpp"

namespace leeward {

// phi and what is known about it.
template <class Loss>
struct Shape {
  Loss loss;
  double label;         // 1 for margin losses, 0 for those of the residual
  double lowest, highest;  // bounds of phi'
  double kink[2];       // infinite where there is none
  LEEWARD_INLINE double value(double m) const { return loss.value(m, label); }
  LEEWARD_INLINE double slope(double m) const { return loss.slope(m, label); }
};

// Psi less its constant, and its derivatives in m and in tau; a profile of 16 lanes.
struct Profile {
  double value[kLanes], slope[kLanes], spread[kLanes];
};

// KL: the cost turns s into a Gaussian of variance rho^2 = 1 / (1 + 2 beta), and Psi = T log E exp(phi(m + rho tau s) / T).
struct KlScale {
  double T;
  double t;    // rho tau
  double rho;
};

struct EtaScale {
  double T, tau, beta;
  const NoisyConjugate* conjugate;
  double base;  // the constant over T
};

// Calls f with the shape of the loss; false for losses without one (Poisson, softmax and those that are not convex).
template <class F>
bool with_shape(const hd::LossSpec& spec, const F& f) {
  using hd::LossKind;
  constexpr double kNone = hd::real::kInf;
  switch (spec.kind) {
    case LossKind::logistic: f(Shape<hd::LogisticLoss>{{}, 1.0, -1.0, 0.0, {kNone, kNone}}); return true;
    case LossKind::hinge:
    case LossKind::squared_hinge: {
      const hd::Clipped c = hd::clipped_of(spec);
      f(Shape<hd::MarginLoss>{{c}, 1.0, -c.hi, -c.lo, {1.0 - c.from, 1.0 - c.to}});
      return true;
    }
    case LossKind::squared:
    case LossKind::huber:
    case LossKind::absolute:
    case LossKind::quantile: {
      const hd::Clipped c = hd::clipped_of(spec);
      f(Shape<hd::ResidualLoss>{{c}, 0.0, c.lo, c.hi, {c.from, c.to}});
      return true;
    }
    default: return false;
  }
}

// The profile at m[0..16). Each is a function of its own m, but eta starts where that of the lane before was found.
void kl_profile(const Shape<hd::LogisticLoss>& f, const KlScale& scale, const double* m, Profile& out);
void kl_profile(const Shape<hd::MarginLoss>& f, const KlScale& scale, const double* m, Profile& out);
void kl_profile(const Shape<hd::ResidualLoss>& f, const KlScale& scale, const double* m, Profile& out);
void eta_profile(const Shape<hd::LogisticLoss>& f, const EtaScale& scale, const double* m, Profile& out);
void eta_profile(const Shape<hd::MarginLoss>& f, const EtaScale& scale, const double* m, Profile& out);
void eta_profile(const Shape<hd::ResidualLoss>& f, const EtaScale& scale, const double* m, Profile& out);

// min_eta E F(-eta - beta s^2) + eta: the constant of the profiles by eta, over T.
double eta_constant(const NoisyConjugate& conjugate, double beta);

// The smallest (up) or largest fixed point of s = steepness phi'(m + t s) from a bound on its far side, to what a panel's end needs.
template <class Loss>
LEEWARD_INLINE double outer_mode(const Shape<Loss>& f, double m, double t, double steepness, double from, bool up) {
  double s = from;
  for (int i = 0; i < 100; ++i) {
    const double next = steepness * f.slope(m + t * s);
    const double step = up ? next - s : s - next;
    if (!(step > 0.01)) break;
    s = next;
  }
  return s;
}

}  // namespace leeward
