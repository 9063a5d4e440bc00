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

// A divergence at eta and lam. Where the density ratio is a small power of the distance from an edge (Cressie-Read), that
// distance is taken from the edge itself, since (x - eta) / lam has lost its digits there.
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

// sum b (r - 1), sum b dr/ds, sum b bend, sum b f*(s); the last costs a logarithm for some divergences and is left out at
// first.
template <class Divergence, bool Conjugate>
struct PenaltySums {
  static constexpr int kSums = Conjugate ? 4 : 3;
  Located<Divergence> located;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    const hd::Element e = located.at(x);
    v[0] = b * e.excess;
    v[1] = b * e.slope;
    v[2] = b * e.bend;
    if constexpr (Conjugate) v[3] = b * e.conjugate;
  }
};

// Its cost is r s: what is missing to f(r), the conjugate, is known on average (Solved::conjugate).
template <class Divergence>
struct PenaltyDensity {
  Located<Divergence> located;
  LEEWARD_INLINE Ratio operator()(double x) const {
    const hd::Element e = located.at(x);
    return {e.ratio, e.ratio * located.argument(x)};
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

inline constexpr double kEtaTolerance = 1e-14;   // on E r - 1
inline constexpr double kStepTolerance = 3e-14;  // on E r - 1 after a step whose remainder is bounded
inline constexpr int kEtaIterations = 400;       // bisection alone needs about 110

// A step rule gives the change of eta / lam from the residual g = E r - 1, the mean slope h and the mean bend, and a bound
// on |E r - 1| after it, infinite where it has none. This one is Chebyshev's, for ratios whose derivatives are bounded by
// their slope.
struct SmoothStep {
  double operator()(double g, double h, double bend) const {
    const double newton = g / h;
    return std::abs(newton) < 0.25 ? newton * (1.0 + 0.5 * newton * (bend / h)) : newton;
  }
  double remainder(double step, double h, double) const {
    return std::abs(step) < 0.25 ? h * std::abs(step * step * step) : std::numeric_limits<double>::infinity();
  }
};

struct PenaltyRoot {
  hd::Eta eta;
  double residual = 0;   // E r - 1 at eta
  double slope = 0;      // E dr/ds
  double conjugate = 0;  // E f*
  int iterations = 0;
};

// E r - 1 and its slope at a start, and the sample that gave the start: between full passes, the sample's own function with
// value and slope corrected to those of all losses is a far better model than a line, above all where the divergence has a
// kink.
struct SampleModel {
  Frame<double> sample;
  hd::Eta at;
  double residual = 0, slope = 0;  // the sample's, at `at`
};

struct PenaltyMeans {
  double residual, slope, bend, conjugate;
};

template <bool Conjugate, class T, class Divergence>
PenaltyMeans penalty_means(const Frame<T>& f, const Divergence& divergence, const hd::Eta& eta, double lam, Resources& use) {
  double v[4] = {};
  sum_over(f, PenaltySums<Divergence, Conjugate>{{divergence, eta, lam}}, use, v);
  return {v[0] / f.total, v[1] / f.total, v[2] / f.total, v[3] / f.total};
}

// The model's step from where it was made, in units of lam; Newton's where the model is of no use.
template <class Divergence>
double model_step(const SampleModel& model, const Divergence& divergence, double lam, const PenaltyMeans& full, double first,
                  Resources& use) {
  constexpr int kSteps = 8;
  const double tilt = full.slope - model.slope;
  double at = first;
  for (int k = 0; k < kSteps; ++k) {
    const PenaltyMeans m = penalty_means<false>(model.sample, divergence, hd::moved(model.at, lam * at), lam, use);
    const double value = m.residual - model.residual + full.residual - tilt * at;
    const double step = value / (m.slope + tilt);
    if (!(m.slope + tilt > 0.25 * m.slope) || !(std::abs(at + step - first) <= 4 * std::abs(first))) return first;
    at += step;
    if (std::abs(step) <= 0x1p-30 * std::abs(first)) break;
  }
  return at;
}

// The search from a given start. A step that did not halve the residual is followed by a halving of the bracket; a step
// whose remainder is bounded by the tolerance is the last, and is not confirmed by a pass.
template <class T, class Divergence, class Step>
PenaltyRoot search_penalty(const Frame<T>& f, const Divergence& divergence, double lam, hd::Eta start, const Step& step,
                           const SampleModel* model, Resources& use) {
  constexpr double kShortStep = 0x1p-7;  // after it, the next pass may well be the last
  hd::EtaBracket bracket{.low = {f.low, 0}, .high = {0, 0}};
  PenaltyRoot root{.eta = start};
  double before = std::numeric_limits<double>::infinity();
  bool conjugate = false;
  for (;;) {
    const PenaltyMeans m = conjugate ? penalty_means<true>(f, divergence, root.eta, lam, use)
                                     : penalty_means<false>(f, divergence, root.eta, lam, use);
    ++root.iterations;
    root.residual = m.residual;
    root.slope = m.slope;
    root.conjugate = m.conjugate;
    double change = step(m.residual, m.slope, m.bend);
    hd::Eta next = root.eta;
    bool last = std::abs(m.residual) <= kEtaTolerance || root.iterations >= kEtaIterations;
    if (!last) {
      const bool slow = root.iterations > 4 && std::abs(m.residual) > 0.5 * before;
      before = slow ? std::numeric_limits<double>::infinity() : std::abs(m.residual);
      const double remainder = step.remainder(change, m.slope, m.bend);
      if (conjugate && remainder <= kStepTolerance) {
        root.conjugate -= change + 0.5 * m.residual * change;  // f* at eta + lam change, from its first two derivatives
        root.eta = hd::moved(root.eta, lam * change);
        root.residual = 0;
        return root;
      }
      const bool modelled = model != nullptr && root.iterations == 1 && !(remainder <= kStepTolerance);
      if (modelled) change = model_step(*model, divergence, lam, m, change, use);
      next = bracket.next(root.eta, m.residual, lam * change, slow);
      last = next.hi == root.eta.hi && next.lo == root.eta.lo;
      if (!last && !conjugate) {
        const bool settled = remainder <= kStepTolerance;
        conjugate = modelled || settled || std::abs(change) < kShortStep;
        if (settled) next = root.eta;  // the step will do: once more, for the conjugate
      }
    }
    if (last) {
      if (!conjugate) root.conjugate = penalty_means<true>(f, divergence, root.eta, lam, use).conjugate;
      return root;
    }
    root.eta = next;
  }
}

template <class T, class Divergence, class Step>
PenaltyRoot solve_penalty(const Frame<T>& f, const Divergence& divergence, double lam, const Step& step, Resources& use) {
  const Workspace::Scope scope(use.workspace);
  SampleModel model;
  if (f.size >= kSampleFrom) model.sample = sample_of(f, use);
  if (model.sample.size == 0) return search_penalty(f, divergence, lam, {mean_place(f, use), 0}, step, nullptr, use);
  const PenaltyRoot start =
      search_penalty(model.sample, divergence, lam, {mean_place(model.sample, use), 0}, step, nullptr, use);
  const PenaltyMeans m = penalty_means<false>(model.sample, divergence, start.eta, lam, use);
  model.at = start.eta;
  model.residual = m.residual;
  model.slope = m.slope;
  return search_penalty(f, divergence, lam, start.eta, step, &model, use);
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
  if (!(mass > 0.5 * f.total && mass < 2 * f.total))
    sum_over(f, DensityMass<PenaltyDensity<Divergence>>{density}, use, &mass);
  const Solved s{.value = root.eta.sum() + lam * root.conjugate,
                 .eta = root.eta.sum(),
                 .multiplier = lam,
                 .norm = 1.0 / mass,
                 .price = lam,
                 .conjugate = root.conjugate,
                 .iterations = root.iterations + 1};
  return finish(f, s, density, weights, use);
}

}  // namespace leeward
