// Penalised risks, R(l) = max_q sum q l - lam D_f(q|p) = min_eta lam E f*((l - eta) / lam) + eta, for any divergence of hd/:
// a safeguarded Newton iteration on E (f*)'((l - eta) / lam) = 1, whose left side decreases in eta and has its root
// between the least and the greatest loss because (f*)'(0) = 1.
#pragma once

#include <cmath>
#include <limits>

#include "leeward/hd/divergence.hpp"
#include "leeward/hd/eta_root.hpp"
#include "leeward/risk/passes.hpp"
#include "leeward/risk/sample.hpp"

namespace leeward {

// A divergence at eta and lam. Where the density ratio is a small power of the distance from an edge (Cressie-Read), that distance is
// taken from the edge itself, since (x - eta) / lam has lost its digits there.
template <class Divergence>
struct Located {
  Divergence divergence;
  hd::Eta eta;
  double inverse;  // 1 / lam
  hd::Eta edge{};
  double edge_inverse = 0;

  Located(const Divergence& d, const hd::Eta& at, double lam) : divergence(d), eta(at), inverse(1.0 / lam) {
    if constexpr (Divergence::kEdge) {
      edge = hd::moved(at, -lam * d.exponent);
      edge_inverse = 1.0 / (lam * d.exponent);
    }
  }
  LEEWARD_INLINE double argument(double x) const { return eta.from(x) * inverse; }
  LEEWARD_INLINE hd::Element at(double x) const {
    if constexpr (Divergence::kEdge)
      return divergence(argument(x), edge.from(x) * edge_inverse);
    else
      return divergence(argument(x));
  }
};

// sum b (r - 1), sum b dr/ds
template <class Divergence>
struct PenaltySums {
  static constexpr int kSums = 2;
  Located<Divergence> located;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    const hd::Element e = located.at(x);
    v[0] = b * e.excess;
    v[1] = b * e.slope;
  }
};

// sum b f*(s)
template <class Divergence>
struct ConjugateSum {
  static constexpr int kSums = 1;
  Located<Divergence> located;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const { v[0] = b * located.at(x).conjugate; }
};

template <class Divergence>
struct PenaltyDensity {
  Located<Divergence> located;
  LEEWARD_INLINE Ratio operator()(double x) const {
    const hd::Element e = located.at(x);
    return {e.ratio, e.ratio * located.argument(x) - e.conjugate};
  }
};

struct Mean {
  static constexpr int kSums = 1;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const { v[0] = b * x; }
};

template <class T>
double mean_place(const Frame<T>& f, Resources& use) {
  double v = 0;
  sum_over(f, Mean{}, use, &v);
  return v / f.total;
}

inline constexpr double kEtaTolerance = 1e-14;  // on E r - 1
inline constexpr int kEtaIterations = 400;      // bisection alone needs about 110

// Newton's step in the units of eta / lam, from the residual g = E r - 1 and the mean slope h.
struct NewtonStep {
  double operator()(double g, double h) const { return g / h; }
};

struct PenaltyRoot {
  hd::Eta eta;
  double residual = 0;   // E r - 1 at eta
  double conjugate = 0;  // E f*
  int iterations = 0;
};

// The search from a given start. A step that did not halve the residual is followed by a halving of the bracket.
template <class T, class Divergence, class Step>
PenaltyRoot search_penalty(const Frame<T>& f, const Divergence& divergence, double lam, hd::Eta start, const Step& step,
                           Resources& use) {
  hd::EtaBracket bracket{.low = {f.low, 0}, .high = {0, 0}};
  PenaltyRoot root{.eta = start};
  double before = std::numeric_limits<double>::infinity();
  for (;;) {
    double v[2];
    sum_over(f, PenaltySums<Divergence>{{divergence, root.eta, lam}}, use, v);
    ++root.iterations;
    root.residual = v[0] / f.total;
    if (std::abs(root.residual) <= kEtaTolerance || root.iterations >= kEtaIterations) return root;
    const bool slow = root.iterations > 4 && std::abs(root.residual) > 0.5 * before;
    before = slow ? std::numeric_limits<double>::infinity() : std::abs(root.residual);
    const hd::Eta next = bracket.next(root.eta, root.residual, lam * step(root.residual, v[1] / f.total), slow);
    if (next.hi == root.eta.hi && next.lo == root.eta.lo) return root;
    root.eta = next;
  }
}

template <class T, class Divergence, class Step>
PenaltyRoot solve_penalty(const Frame<T>& f, const Divergence& divergence, double lam, const Step& step, Resources& use) {
  hd::Eta start{};
  bool started = false;
  if (f.size >= kSampleFrom) {
    const Workspace::Scope scope(use.workspace);
    const Frame<double> sample = sample_of(f, use);
    if (sample.size > 0) {
      start = search_penalty(sample, divergence, lam, hd::Eta{mean_place(sample, use), 0}, step, use).eta;
      started = true;
    }
  }
  if (!started) start = {mean_place(f, use), 0};
  PenaltyRoot root = search_penalty(f, divergence, lam, start, step, use);
  double conjugate = 0;
  sum_over(f, ConjugateSum<Divergence>{{divergence, root.eta, lam}}, use, &conjugate);
  root.conjugate = conjugate / f.total;
  root.iterations += 2;
  return root;
}

// The penalty in units of the frame, kept where its inverse and the squares of x / lam are finite.
template <class T>
double scaled_penalty(const Frame<T>& f, double lam, double least) {
  const double scaled = f.to_scaled(lam);
  return scaled < least ? least : (scaled > 0x1p460 ? 0x1p460 : scaled);
}

template <class T, class Divergence>
RiskSolution finish_penalty(const Frame<T>& f, const Divergence& divergence, double lam, const PenaltyRoot& root, T* weights,
                            Resources& use) {
  const PenaltyDensity<Divergence> density{{divergence, root.eta, lam}};
  double mass = f.total * (1.0 + root.residual);
  if (!(mass > 0.5 * f.total && mass < 2 * f.total)) sum_over(f, DensityMass<PenaltyDensity<Divergence>>{density}, use, &mass);
  const Solved s{.value = root.eta.sum() + lam * root.conjugate, .eta = root.eta.sum(), .multiplier = lam, .norm = 1.0 / mass,
                 .price = lam, .iterations = root.iterations};
  return finish(f, s, density, weights, use);
}

}  // namespace leeward
