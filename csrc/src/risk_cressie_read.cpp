// CressieRead(k): penalty form by the common iteration on eta; radius form over the one-parameter family
// r = y^a / E y^a, y = (1 + kappa x)_+, a = 1 / (k - 1), along which the divergence grows from 0 (kappa = 0) to its ceiling.
#include <algorithm>
#include <cmath>
#include <limits>

#include "leeward/risk/factories.hpp"
#include "leeward/risk/penalty.hpp"
#include "leeward/risk/sample.hpp"
#include "leeward/risk/short_power.hpp"

namespace leeward {
namespace {

// y = (1 + kappa x)_+ = kappa (x - eta)_+ with eta = -1 / kappa: the first form is exact for small kappa, the second near y
// = 0.
struct Power {
  hd::Eta eta;
  double kappa;
  LEEWARD_INLINE double logarithm(double x) const { return hd::log_of_power(kappa * x, kappa * eta.from(x)); }
};

// sum b (y^a - 1), sum b y^a, sum b (y^(a + 1) - 1), sum b y^(a + 1)
struct PowerSums {
  static constexpr int kSums = 4;
  Power y;
  double a;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    const hd::ExpPair r = hd::exp_pair(a * y.logarithm(x));
    const double t = y.kappa * x, edge = y.kappa * y.eta.from(x), exact = edge > 0.0 ? edge : 0.0;
    const double base = t < -0.5 ? exact : 1.0 + t;
    v[0] = b * r.expm1;
    v[1] = b * r.exp;
    v[2] = b * (base * r.expm1 + (t < -0.5 ? base - 1.0 : t));  // y^(a + 1) - 1 = y (y^a - 1) + (y - 1)
    v[3] = b * (base * r.exp);
  }
};

struct PowerDensity {
  Power y;
  double a, order, inverse_z, z_power;  // z_power = Z^-(k - 1)
  LEEWARD_INLINE Ratio operator()(double x) const {
    const double logarithm = y.logarithm(x);
    const double raw = hd::exp_pair(a * logarithm).exp;
    const double s = (hd::exp_pair(logarithm).exp * z_power - 1.0) * a;
    const double r = raw * inverse_z;
    return {raw, r * s - (r * (1.0 + (order - 1.0) * s) - 1.0) / order};
  }
};

struct Moments {
  static constexpr int kSums = 3;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    v[0] = b * x;
    v[1] = b * x * x;
    v[2] = x >= 0.0 ? b : 0.0;
  }
};

// Below this share of the range a penalty no longer moves a double, and powers of x / lam would overflow.
constexpr double kLeastPenalty = 0x1p-64;
// For k > 2 powers grow slowly, and the divergence itself (r^k) may be so large that a smaller penalty still counts.
constexpr double kLeastSteep = 0x1p-300;

double logarithm_of(double excess, double mass) { return excess > -0.5 ? std::log1p(excess) : std::log(mass); }

// Newton's step for (E r)^(1 / a) = 1, which is linear in eta where one sample carries all the mass; near the root it is g /
// h.
struct PowerStep {
  double a;
  double operator()(double g, double h, double) const { return -a * (1.0 + g) * std::expm1(-std::log1p(g) / a) / h; }
  double remainder(double, double, double) const {
    return std::numeric_limits<double>::infinity();
  }  // slopes are unbounded at the edge
};

class CressieReadRisk final : public FramedRisk<CressieReadRisk> {
 public:
  CressieReadRisk(double order, double penalty, double radius)
      : divergence_{order, 1.0 / (order - 1.0)}, penalty_(penalty), radius_(radius) {}
  double idle_multiplier() const { return radius_ < 0 ? penalty_ : 0; }

  template <class T>
  void run_short(const ShortRows<T>& rows, ShortAnswers* out) const {
    if (radius_ < 0)
      short_cressie_read(rows, divergence_.order, penalty_, out);
    else
      short_cressie_read_ball(rows, divergence_.order, penalty_, radius_, out);
  }
  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    double m[3];
    sum_over(f, Moments{}, use, m);
    const double mean = m[0] / f.total, variance = m[1] / f.total - mean * mean, top = m[2] / f.total;
    const double lam = penalty_ < 0 ? 0 : scaled_penalty(f, penalty_, divergence_.order > 2 ? kLeastSteep : kLeastPenalty);
    if (radius_ < 0) return solve_penalty_form(f, lam, lam, weights, use);
    if (radius_ == 0) {
      const double price = std::numeric_limits<double>::infinity();
      return finish(f, Solved{.value = mean, .eta = mean, .multiplier = price, .norm = 1.0 / f.total, .iterations = 1},
                    Unit{}, weights, use);
    }
    if (std::log1p(moment()) >= (1.0 - divergence_.order) * std::log(top) * (1 - 1e-15)) {
      if (lam > 0) return solve_penalty_form(f, lam, 0, weights, use);
      return finish(f, Solved{.norm = 1.0 / m[2], .iterations = 1}, OnTop{}, weights, use);
    }
    return solve_radius_form(f, lam, variance, weights, use);
  }

 private:
  // E r^k - 1 on the boundary of the ball.
  double moment() const { return divergence_.order * (divergence_.order - 1.0) * radius_; }

  template <class T>
  RiskSolution solve_penalty_form(const Frame<T>& f, double lam, double multiplier, T* weights, Resources& use) const {
    const PenaltyRoot root = solve_penalty(f, divergence_, lam, PowerStep{divergence_.exponent}, use);
    RiskSolution out = finish_penalty(f, divergence_, lam, root, weights, use);
    if (multiplier == 0) out.multiplier = 0;
    return out;
  }

  template <class T>
  RiskSolution solve_radius_form(const Frame<T>& f, double least, double variance, T* weights, Resources& use) const;

  hd::CressieReadDivergence divergence_;
  double penalty_, radius_;
};

struct PowerRoot {
  Power y{};
  double sums[4] = {};
  double log_z = 0, log_power = 0;  // log E y^a, log E y^(a + 1)
  double slope = 2;                 // of log log E r^k in log kappa, from the last two points
  int iterations = 0;
};

template <class T>
void evaluate(const Frame<T>& f, double a, PowerRoot* root, Resources& use) {
  sum_over(f, PowerSums{root->y, a}, use, root->sums);
  ++root->iterations;
  root->log_z = logarithm_of(root->sums[0] / f.total, root->sums[1] / f.total);
  root->log_power = logarithm_of(root->sums[2] / f.total, root->sums[3] / f.total);
}

// The kappa at which log E r^k reaches `target`. log of the one against log kappa is close to a line of slope 2 for small
// kappa: secant steps on it, halving where they fail; where y of some sample is nearly 0, halving of eta to twice the
// precision.
template <class T>
PowerRoot solve_power(const Frame<T>& f, double k, double a, double target, double start, double slope, Resources& use) {
  double low = -300, high = 300;
  hd::EtaBracket bracket{.low = {-std::exp(-low), 0}, .high = {-std::exp(-high), 0}};
  double at = start > -290 ? (start < 290 ? start : 290) : -290;
  double last = 0, last_value = 0;
  PowerRoot root{.slope = slope};
  const auto settled = [&](double reached) {
    const double reach = a * root.y.kappa * -f.low;  // log Z is of this size, up to saturation, and carries its rounding
    return std::abs(reached - target) <= 1e-14 * target + 5e-16 * k * (reach < 1 ? reach : 1) ||
           root.iterations >= kEtaIterations;
  };
  for (bool first = true;; first = false) {
    const double kappa = std::exp(at);
    root.y = {{-1.0 / kappa, 0}, kappa};
    evaluate(f, a, &root, use);
    const double reached = root.log_power - k * root.log_z;  // log E r^k
    if (settled(reached)) return root;
    const bool vanished = !(root.sums[1] > 0);  // kappa so large that no sample is left: a sample may lack the maximum
    const double value = vanished ? 1e3 : (reached > 0 ? std::log(reached / target) : -1e3);
    (value < 0 ? low : high) = at;
    (value < 0 ? bracket.low : bracket.high) = root.y.eta;
    if (!first && std::abs(at - last) > 1e-10 && std::abs(value) < 500 && std::abs(last_value) < 500)
      root.slope = (value - last_value) / (at - last);
    if (!(root.slope > 0.01)) root.slope = 2;
    double next = at - std::clamp(value / root.slope, -2.0, 2.0);
    if (std::abs(next - at) <= kStepTolerance && std::abs(value) <= 1e-12) return root;  // rounding moves it further
    if (root.iterations > 8 && std::abs(value) > 0.5 * std::abs(last_value)) next = 0.5 * (low + high);
    last = at;
    last_value = value;
    if (!(next > low && next < high)) next = 0.5 * (low + high);
    if (high - low < 1e-10 || !(next > low && next < high)) break;
    at = next;
  }
  for (;;) {
    // Halving only: the last residual stands at an end of the bracket.
    const hd::Eta next = bracket.next(root.y.eta, target - (root.log_power - k * root.log_z), 0, true);
    if (next.hi == root.y.eta.hi && next.lo == root.y.eta.lo) return root;
    root.y = {next, -1.0 / next.sum()};
    evaluate(f, a, &root, use);
    if (settled(root.log_power - k * root.log_z)) return root;
  }
}

template <class T>
RiskSolution CressieReadRisk::solve_radius_form(const Frame<T>& f, double least, double variance, T* weights,
                                                Resources& use) const {
  const double k = divergence_.order, a = divergence_.exponent, target = std::log1p(moment());
  double slope = 2, start = 0.5 * std::log(2 * radius_ / (std::max(variance, 0x1p-60 * f.low * f.low))) - std::log(a);
  if (f.size >= kSampleFrom) {
    const Workspace::Scope scope(use.workspace);
    const Frame<double> sample = sample_of(f, use);
    if (sample.size > 0) {
      const PowerRoot first = solve_power(sample, k, a, target, start, slope, use);
      start = std::log(first.y.kappa);
      slope = first.slope;
    }
  }
  const PowerRoot root = solve_power(f, k, a, target, start, slope, use);
  const double kappa = root.y.kappa;
  const double lam = (k - 1.0) / kappa * std::exp((k - 1.0) * root.log_z);
  if (lam <= least) return solve_penalty_form(f, least, 0, weights, use);
  Solved s{.eta = std::expm1((k - 1.0) * root.log_z) / kappa,
           .multiplier = lam - least,
           .norm = 1.0 / root.sums[1],
           .price = least,
           .iterations = root.iterations + 1};
  s.value = s.eta + (lam - least) * radius_ + lam / k * std::expm1(root.log_power - k * root.log_z);
  return finish(f, s, PowerDensity{root.y, a, k, f.total / root.sums[1], std::exp(-(k - 1.0) * root.log_z)}, weights, use);
}

}  // namespace

RiskPointer make_cressie_read(double order, double penalty, double radius) {
  if (order == 2) return make_chi_square(penalty, radius);
  return std::make_shared<CressieReadRisk>(order, penalty, radius);
}

}  // namespace leeward
