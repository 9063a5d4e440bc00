// KL(penalty, radius) and Tilted: weights proportional to p exp(l / lam). The penalty form is a log-sum-exp shifted by the
// maximum; the radius form is the root in tau = 1 / lam of KL(q_tau | p) = rho, which increases from 0 to -log P(argmax).
#include <algorithm>
#include <cmath>
#include <limits>

#include "leeward/hd/divergence.hpp"
#include "leeward/risk/factories.hpp"
#include "leeward/risk/passes.hpp"
#include "leeward/risk/penalty.hpp"
#include "leeward/risk/sample.hpp"

namespace leeward {
namespace {

// sum b (e^(tau x) - 1), sum b e^(tau x)
struct TiltSums {
  static constexpr int kSums = 2;
  double tau;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    const hd::ExpPair e = hd::exp_pair(tau * x);
    v[0] = b * e.expm1;
    v[1] = b * e.exp;
  }
};

// the same, and sum b x e^(tau x), sum b x^2 e^(tau x)
struct TiltMoments {
  static constexpr int kSums = 4;
  double tau;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    const hd::ExpPair e = hd::exp_pair(tau * x);
    const double w = b * e.exp;
    v[0] = b * e.expm1;
    v[1] = w;
    v[2] = w * x;
    v[3] = w * x * x;
  }
};

// Z = E e^(tau x) in the two forms that keep its digits near 1 and near 0.
struct Partition {
  double excess, mass;  // Z - 1, Z
  double logarithm() const { return excess > -0.5 ? std::log1p(excess) : std::log(mass); }
};

struct TiltDensity {
  double tau, log_z, z, z_excess, inverse_z;
  LEEWARD_INLINE Ratio operator()(double x) const {
    const hd::ExpPair e = hd::exp_pair(tau * x);
    const double r = e.exp * inverse_z;
    const double excess = (z_excess > -0.5 ? e.expm1 - z_excess : e.exp - z) * inverse_z;  // r - 1
    return {e.exp, r * (tau * x - log_z) - excess};
  }
};

TiltDensity density_of(double tau, const Partition& z) {
  return {tau, z.logarithm(), z.mass, z.excess, 1.0 / z.mass};
}

struct Moments {
  static constexpr int kSums = 3;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    v[0] = b * x;
    v[1] = b * x * x;
    v[2] = x >= 0.0 ? b : 0.0;
  }
};

template <class T>
RiskSolution solve_kl_penalty(const Frame<T>& f, double penalty, T* weights, Resources& use) {
  const double lam = scaled_penalty(f, penalty, 0x1p-460);
  double v[2];
  sum_over(f, TiltSums{1.0 / lam}, use, v);
  const Partition z{v[0] / f.total, v[1] / f.total};
  const double eta = lam * z.logarithm();
  const Solved s{.value = eta, .eta = eta, .multiplier = lam, .norm = 1.0 / v[1], .price = lam, .iterations = 1};
  return finish(f, s, density_of(1.0 / lam, z), weights, use);
}

class TiltedRisk final : public FramedRisk<TiltedRisk> {
 public:
  explicit TiltedRisk(double t) : penalty_(1.0 / std::abs(t)), negative_(t < 0) {}
  double idle_multiplier() const { return penalty_; }
  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    return solve_kl_penalty(f, penalty_, weights, use);
  }

 protected:
  bool mirrored() const override { return negative_; }

 private:
  double penalty_;
  bool negative_;
};

class KLRisk final : public FramedRisk<KLRisk> {
 public:
  KLRisk(double penalty, double radius) : penalty_(penalty), radius_(radius) {}
  double idle_multiplier() const { return radius_ < 0 ? penalty_ : 0; }

  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    if (radius_ < 0) return solve_kl_penalty(f, penalty_, weights, use);
    return solve_radius(f, weights, use);
  }

 private:
  template <class T>
  RiskSolution solve_radius(const Frame<T>& f, T* weights, Resources& use) const;

  double penalty_, radius_;
};

// The state of the search for tau.
struct TiltRoot {
  double tau = 0;
  Partition z{};
  double mass = 0;  // sum b e^(tau x)
  int iterations = 0;
};

// Newton on sqrt(KL(tau)) = sqrt(rho), nearly linear for small tau; bisection in log tau where that fails.
template <class T>
TiltRoot solve_tilt(const Frame<T>& f, double radius, double start, double high, Resources& use) {
  double low = 0x1p-400;
  const double most = high;
  TiltRoot root{.tau = start > low && start < high ? start : high};
  for (;;) {
    double v[4];
    sum_over(f, TiltMoments{root.tau}, use, v);
    ++root.iterations;
    root.z = {v[0] / f.total, v[1] / f.total};
    root.mass = v[1];
    const double tilted = v[2] / v[1];
    const double log_z = root.z.logarithm();
    const double kl = root.tau * tilted - log_z;
    const double miss = radius - kl, noise = std::abs(root.tau * tilted) + std::abs(log_z);
    if (root.tau == most && miss >= 0) return root;  // the penalty alone keeps q inside the ball
    if (std::abs(miss) <= 1e-15 * radius + 4e-16 * noise || root.iterations >= kEtaIterations) return root;
    if (miss > 0)
      low = root.tau;
    else
      high = root.tau;
    const double spread = v[3] / v[1] - tilted * tilted;
    const double now = std::sqrt(kl > 0 ? kl : 0);
    double next = root.tau + 2 * now * (std::sqrt(radius) - now) / (root.tau * spread);
    if (!(next > low && next < high)) next = std::sqrt(low) * std::sqrt(high);
    if (!(next > low && next < high)) return root;
    root.tau = next;
  }
}

template <class T>
RiskSolution KLRisk::solve_radius(const Frame<T>& f, T* weights, Resources& use) const {
  double m[3];
  sum_over(f, Moments{}, use, m);
  const double mean = m[0] / f.total, variance = m[1] / f.total - mean * mean;
  const double least = penalty_ < 0 ? 0.0 : scaled_penalty(f, penalty_, 0x1p-460);
  if (radius_ == 0) {
    const double price = std::numeric_limits<double>::infinity();
    return finish(f, Solved{.value = mean, .eta = mean, .multiplier = price, .norm = 1.0 / f.total, .iterations = 1}, Unit{}, weights, use);
  }
  if (least == 0 && radius_ >= -std::log(m[2] / f.total) * (1 - 1e-15))
    return finish(f, Solved{.norm = 1.0 / m[2], .iterations = 1}, OnTop{}, weights, use);

  const double high = least > 0 ? 1.0 / least : 0x1p400;
  double start = std::sqrt(2 * radius_ / (std::max(variance, 0x1p-60 * f.low * f.low)));
  if (f.size >= kSampleFrom) {
    const Workspace::Scope scope(use.workspace);
    const Frame<double> sample = sample_of(f, use);
    if (sample.size > 0) start = solve_tilt(sample, radius_, start, high, use).tau;
  }
  const TiltRoot root = solve_tilt(f, radius_, start, high, use);
  const double tau = root.tau;
  Solved s{.norm = 1.0 / root.mass, .iterations = root.iterations + 1};
  const double lam = 1.0 / tau;
  s.eta = lam * root.z.logarithm();
  s.multiplier = lam - least;
  s.price = least;
  s.value = s.eta + (lam - least) * radius_;
  return finish(f, s, density_of(tau, root.z), weights, use);
}

}  // namespace

RiskPointer make_kl(double penalty, double radius) { return std::make_shared<KLRisk>(penalty, radius); }
RiskPointer make_tilted(double t) {
  if (t == 0) return make_mean();
  return std::make_shared<TiltedRisk>(t);
}

}  // namespace leeward
