// CressieRead(k): penalty form by the common iteration on eta; radius form over the one-parameter family
// r = y^a / E y^a, y = (1 + kappa x)_+, a = 1 / (k - 1), along which the divergence grows from 0 (kappa = 0) to its ceiling.
#include <cmath>
#include <limits>

#include "leeward/risk/factories.hpp"
#include "leeward/risk/penalty.hpp"

namespace leeward {
namespace {

// sum b (y^a - 1), sum b y^a, sum b (y^(a + 1) - 1), sum b y^(a + 1)
struct PowerSums {
  static constexpr int kSums = 4;
  double kappa, a;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    const double t = kappa * x;
    const double logarithm = hd::log1p(t > -1.0 ? t : -1.0);
    const hd::ExpPair r = hd::exp_pair(a * logarithm), s = hd::exp_pair((a + 1.0) * logarithm);
    v[0] = b * r.expm1;
    v[1] = b * r.exp;
    v[2] = b * s.expm1;
    v[3] = b * s.exp;
  }
};

struct PowerDensity {
  double kappa, a, order, inverse_z, z_power, scale;  // z_power = Z^-(k - 1); scale = 1 / (k - 1)
  LEEWARD_INLINE Ratio operator()(double x) const {
    const double t = kappa * x;
    const double logarithm = hd::log1p(t > -1.0 ? t : -1.0);
    const double raw = hd::exp_pair(a * logarithm).exp;
    const double s = ((t > -1.0 ? 1.0 + t : 0.0) * z_power - 1.0) * scale;
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

double logarithm_of(double excess, double mass) { return excess > -0.5 ? std::log1p(excess) : std::log(mass); }

class CressieReadRisk final : public FramedRisk<CressieReadRisk> {
 public:
  CressieReadRisk(double order, double penalty, double radius)
      : divergence_{order, 1.0 / (order - 1.0)}, penalty_(penalty), radius_(radius) {}
  double idle_multiplier() const { return radius_ < 0 ? penalty_ : 0; }

  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    double m[3];
    sum_over(f, Moments{}, use, m);
    const double mean = m[0] / f.total, variance = m[1] / f.total - mean * mean, top = m[2] / f.total;
    const double lam = penalty_ < 0 ? 0 : scaled_penalty(f, penalty_, kLeastPenalty);
    if (radius_ < 0) return solve_penalty_form(f, lam, mean, lam, weights, use);
    if (radius_ == 0) {
      const double price = std::numeric_limits<double>::infinity();
      return finish(f, Solved{.value = mean, .eta = mean, .multiplier = price, .norm = 1.0 / f.total, .iterations = 1}, Unit{},
                    weights, use);
    }
    if (std::log1p(moment()) >= (1.0 - divergence_.order) * std::log(top)) {
      if (lam > 0) return solve_penalty_form(f, lam, mean, 0, weights, use);
      return finish(f, Solved{.norm = 1.0 / m[2], .iterations = 1}, OnTop{}, weights, use);
    }
    return solve_radius_form(f, lam, mean, variance, weights, use);
  }

 private:
  // E r^k - 1 on the boundary of the ball.
  double moment() const { return divergence_.order * (divergence_.order - 1.0) * radius_; }

  template <class T>
  RiskSolution solve_penalty_form(const Frame<T>& f, double lam, double mean, double multiplier, T* weights,
                                  Resources& use) const {
    const PenaltyRoot root = solve_penalty(f, divergence_, lam, hd::Eta{mean, 0}, NewtonStep{}, use);
    RiskSolution out = finish_penalty(f, divergence_, lam, root, weights, use);
    if (multiplier == 0) out.multiplier = 0;
    return out;
  }

  template <class T>
  RiskSolution solve_radius_form(const Frame<T>& f, double least, double mean, double variance, T* weights,
                                 Resources& use) const;

  hd::CressieReadDivergence divergence_;
  double penalty_, radius_;
};

template <class T>
RiskSolution CressieReadRisk::solve_radius_form(const Frame<T>& f, double least, double mean, double variance, T* weights,
                                                Resources& use) const {
  const double k = divergence_.order, a = divergence_.exponent;
  const double target = std::log1p(moment());
  // log D against log kappa is close to a line of slope 2 for small kappa: secant steps on it, bisection where they fail.
  double low = -300, high = 300, low_value = -std::numeric_limits<double>::infinity(), high_value = low_value;
  double at = 0.5 * std::log(2 * radius_ / (variance > 0x1p-60 ? variance : 0x1p-60)) - std::log(a);
  at = at > -290 ? (at < 290 ? at : 290) : -290;
  Solved s{.iterations = 1};
  double v[4], kappa = 0, log_z = 0, log_power = 0, last = 0, last_value = 0;
  for (bool first = true;; first = false) {
    kappa = std::exp(at);
    sum_over(f, PowerSums{kappa, a}, use, v);
    ++s.iterations;
    log_z = logarithm_of(v[0] / f.total, v[1] / f.total);
    log_power = logarithm_of(v[2] / f.total, v[3] / f.total);
    const double reached = log_power - k * log_z;  // log E r^k
    if (std::abs(reached - target) <= 1e-14 * (target + 0.01 * kappa) || s.iterations >= kEtaIterations) break;
    const double value = reached > 0 ? std::log(reached / target) : -1e3;
    if (value < 0) {
      low = at;
      low_value = value;
    } else {
      high = at;
      high_value = value;
    }
    double next;
    if (first)
      next = at - 0.5 * value;
    else if (s.iterations % 3 == 0 && low_value > -1e3 && std::isfinite(high_value))
      next = low - low_value * (high - low) / (high_value - low_value);
    else
      next = at - value * (at - last) / (value - last_value);
    last = at;
    last_value = value;
    if (!(next > low && next < high)) next = 0.5 * (low + high);
    if (!(next > low && next < high)) break;
    at = next;
  }
  const double lam = (k - 1.0) / kappa * std::exp((k - 1.0) * log_z);
  if (lam <= least) return solve_penalty_form(f, least, mean, 0, weights, use);
  s.eta = std::expm1((k - 1.0) * log_z) / kappa;
  s.multiplier = lam - least;
  s.price = least;
  s.norm = 1.0 / v[1];
  s.value = s.eta + (lam - least) * radius_ + lam / k * std::expm1(log_power - k * log_z);
  return finish(f, s, PowerDensity{kappa, a, k, f.total / v[1], std::exp(-(k - 1.0) * log_z), a}, weights, use);
}

}  // namespace

RiskPointer make_cressie_read(double order, double penalty, double radius) {
  if (order == 2) return make_chi_square(penalty, radius);
  return std::make_shared<CressieReadRisk>(order, penalty, radius);
}

}  // namespace leeward
