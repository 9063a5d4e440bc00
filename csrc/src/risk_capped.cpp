// KLCVaR and SmoothedCVaR: the two entropic smoothings of CVaR, whose density ratio never passes 1 / alpha.
#include <cmath>
#include <limits>

#include "leeward/risk/factories.hpp"
#include "leeward/risk/penalty.hpp"

namespace leeward {
namespace {

// Below this share of the range a penalty no longer moves a double; it keeps (l - eta) / lam resolved.
constexpr double kLeastPenalty = 0x1p-64;

// On a fixed clipped set E r = 1 is solved by eta + lam log(E[r; free] / (1 - P(clipped) / alpha)), and 1 - P(clipped) /
// alpha is E[r; free] - (E r - 1): the Newton step of a concave function of exp(-eta / lam), monotone from the right. Too
// far left, where the clipped set alone has too much mass, it takes Newton's step in eta, of limited length.
struct CappedStep {
  double operator()(double residual, double free_mass, double) const {
    const double rest = free_mass - residual;
    const double ratio = residual / rest;
    if (!(rest > 0)) return residual < 4 * free_mass ? residual / free_mass : 4.0;
    return ratio > -0.5 ? std::log1p(ratio) : std::log(free_mass / rest);
  }
  // Exact but for the samples that pass the cap on the way.
  double remainder(double step, double, double bend) const {
    return std::abs(step) < 0.5 * hd::kNear ? bend * std::abs(step) : std::numeric_limits<double>::infinity();
  }
};

class KLCVaRRisk final : public FramedRisk<KLCVaRRisk> {
 public:
  KLCVaRRisk(double alpha, double penalty) : divergence_{1.0 / alpha, -std::log(alpha)}, penalty_(penalty) {}
  double idle_multiplier() const { return penalty_; }
  template <class T>
  void run_short(const ShortRows<T>& rows, ShortAnswers* out) const {
    short_kl_cvar(rows, divergence_, penalty_, out);
  }
  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    const double lam = scaled_penalty(f, penalty_, kLeastPenalty);
    const PenaltyRoot root = solve_penalty(f, divergence_, lam, CappedStep{}, use);
    return finish_penalty(f, divergence_, lam, root, weights, use);
  }

 private:
  hd::CappedKLDivergence divergence_;
  double penalty_;
};

class SmoothedCVaRRisk final : public FramedRisk<SmoothedCVaRRisk> {
 public:
  SmoothedCVaRRisk(double alpha, double penalty)
      : divergence_(hd::SmoothedCVaRDivergence::make(alpha, [](double x) { return std::log(x); })), penalty_(penalty) {}
  double idle_multiplier() const { return penalty_; }
  template <class T>
  void run_short(const ShortRows<T>& rows, ShortAnswers* out) const {
    short_smoothed_cvar(rows, divergence_, penalty_, out);
  }
  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    const double lam = scaled_penalty(f, penalty_, kLeastPenalty);
    const PenaltyRoot root = solve_penalty(f, divergence_, lam, SmoothStep{}, use);
    return finish_penalty(f, divergence_, lam, root, weights, use);
  }

 private:
  hd::SmoothedCVaRDivergence divergence_;
  double penalty_;
};

}  // namespace

// With alpha = 1 the base weights are the only feasible ones.
RiskPointer make_kl_cvar(double alpha, double penalty) {
  if (alpha == 1) return make_mean();
  return std::make_shared<KLCVaRRisk>(alpha, penalty);
}
RiskPointer make_smoothed_cvar(double alpha, double penalty) {
  if (alpha == 1) return make_mean();
  return std::make_shared<SmoothedCVaRRisk>(alpha, penalty);
}

}  // namespace leeward
