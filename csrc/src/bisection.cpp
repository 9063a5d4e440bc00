#include "leeward/risk/bisection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace leeward {
namespace {

constexpr int kMostSteps = 200;

class Bisection final : public Risk {
 public:
  Bisection(DualForm form, double lam, double tol) : form_(form), lam_(lam), tol_(tol) {
    if (form.kind == DualKind::cvar) throw std::invalid_argument("bisection needs a divergence with a smooth conjugate");
    if (!(lam > 0.0 && std::isfinite(lam))) throw std::invalid_argument("lam must be positive and finite");
    if (!(tol >= 0.0 && tol < 1.0)) throw std::invalid_argument("tol must be in [0, 1)");
  }

  RiskSolution solve(LossVector<float> l, float* weights, Resources& use) const override {
    const Workspace::Scope scope(use.workspace);
    double* const wide = use.workspace.take<double>(l.size);
    double* const q = use.workspace.take<double>(l.size);
    std::copy(l.losses, l.losses + l.size, wide);
    const RiskSolution s = solve(LossVector<double>{wide, l.base, l.size}, q, use);
    if (weights != nullptr)
      for (std::int64_t k = 0; k < l.size; ++k) weights[k] = static_cast<float>(q[k]);
    return s;
  }

  RiskSolution solve(LossVector<double> l, double* weights, Resources& use) const override {
    if (l.base != nullptr) throw std::invalid_argument("bisection is for equal base weights");
    for (std::int64_t k = 0; k < l.size; ++k)
      if (!std::isfinite(l.losses[k])) throw InvalidEntry(InvalidEntry::Where::kLosses, k, l.losses[k]);
    const Workspace::Scope scope(use.workspace);
    double* const q = weights != nullptr ? weights : use.workspace.take<double>(l.size);
    const auto [least, most] = std::minmax_element(l.losses, l.losses + l.size);
    const double low_end = *least, high_end = *most;
    // v < 0 means that eta is below the root.
    const auto below = [&](double eta) { return !(dual_means(form_, l.losses, l.size, eta, lam_, q).ratio <= 1.0); };
    double reach = lam_, low = low_end - lam_, high = high_end + lam_;
    int steps = 0;
    for (; !below(low) && steps < kMostSteps; ++steps) low -= reach *= 2.0;
    for (reach = lam_; below(high) && steps < kMostSteps; ++steps) high += reach *= 2.0;
    const double short_enough = tol_ * ((high_end - low_end) + lam_);
    while (high - low > short_enough && steps < kMostSteps) {
      ++steps;
      const double middle = low + 0.5 * (high - low);
      if (middle <= low || middle >= high) break;
      (below(middle) ? low : high) = middle;
    }
    const double eta = low + 0.5 * (high - low);
    const DualMeans means = dual_means(form_, l.losses, l.size, eta, lam_, q);
    double squares = 0.0;
    for (std::int64_t k = 0; k < l.size; ++k) {
      q[k] /= means.ratio;
      squares += q[k] * q[k];
    }
    return {.value = lam_ * means.conjugate + eta,
            .eta = eta,
            .multiplier = lam_,
            .gap = std::fabs(1.0 - means.ratio) * (high - low),  // the dual function is convex with slope v
            .effective_sample_size = 1.0 / squares,
            .iterations = steps};
  }

 private:
  DualForm form_;
  double lam_, tol_;
};

}  // namespace

std::shared_ptr<Risk> make_bisection(DualForm form, double lam, double tol) { return std::make_shared<Bisection>(form, lam, tol); }

}  // namespace leeward
