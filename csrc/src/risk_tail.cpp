// CVaR and TotalVariation: the upper tail by selection, then one pass for the weights. The quantile's atom takes
// the fraction of its mass that is still missing, shared over ties in proportion to the base weights.
#include <algorithm>

#include "leeward/risk/factories.hpp"
#include "leeward/risk/passes.hpp"
#include "leeward/risk/quantile.hpp"

namespace leeward {
namespace {

// r = above for x > threshold, at on it, 0 below, and top more on the maximum.
struct TailDensity {
  double threshold, above, at, top;
  LEEWARD_INLINE Ratio operator()(double x) const {
    const double r = x > threshold ? above : (x == threshold ? at : 0.0);
    return {x >= 0.0 ? r + top : r, 0.0};
  }
};

class CVaRRisk final : public FramedRisk<CVaRRisk> {
 public:
  explicit CVaRRisk(double alpha) : alpha_(alpha) {}
  double idle_multiplier() const { return 0; }
  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    const double mass = alpha_ * f.total;
    const UpperTail tail = upper_tail(f, mass, use);
    const double eta = tail.threshold, fraction = std::clamp((mass - tail.above) / tail.on, 0.0, 1.0);
    const Solved s{
        .value = eta + tail.excess / mass, .eta = eta, .norm = 1.0 / (tail.above + fraction * tail.on), .iterations = 2};
    return finish(f, s, TailDensity{eta, 1.0, fraction, 0.0}, weights, use);
  }

 private:
  double alpha_;
};

// The mass rho moves from the least losses to the greatest: q = p above the quantile that leaves 1 - rho, rho more on top.
class TotalVariationRisk final : public FramedRisk<TotalVariationRisk> {
 public:
  explicit TotalVariationRisk(double radius) : radius_(radius) {}
  double idle_multiplier() const { return 0; }
  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    const double kept = (1.0 - radius_) * f.total;
    const UpperTail tail = kept > 0 ? upper_tail(f, kept, use) : UpperTail{};
    const double low = tail.threshold;
    double top = 0;  // mass on the maximum
    sum_over(f, TopMass{}, use, &top);
    if (low >= 0.0) return finish(f, Solved{.norm = 1.0 / top, .iterations = 2}, OnTop{}, weights, use);
    const double fraction = std::clamp((kept - tail.above) / tail.on, 0.0, 1.0);
    // Dual with eta midway between the threshold and the maximum and price nu = max - threshold:
    // eta + nu rho + E max(x - eta, -nu / 2).
    const double price = -low;
    Solved s{.eta = 0.5 * low, .multiplier = price, .norm = 1.0 / f.total, .iterations = 2};
    s.value = s.eta + price * radius_ + tail.excess / f.total - 0.5 * price;
    return finish(f, s, TailDensity{low, 1.0, fraction, f.total * radius_ / top}, weights, use);
  }

 private:
  double radius_;
};

}  // namespace

RiskPointer make_cvar(double alpha) {
  if (alpha == 1) return make_mean();
  return std::make_shared<CVaRRisk>(alpha);
}
RiskPointer make_total_variation(double radius) { return std::make_shared<TotalVariationRisk>(radius); }

}  // namespace leeward
