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
    const hd::ExpPair e = hd::exp_pair_below(tau * x);
    v[0] = b * e.expm1;
    v[1] = b * e.exp;
  }
};

// the same, and sum b x e^(tau x), sum b x^2 e^(tau x)
struct TiltMoments {
  static constexpr int kSums = 4;
  double tau;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    const hd::ExpPair e = hd::exp_pair_below(tau * x);
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
    const hd::ExpPair e = hd::exp_pair_below(tau * x);
    const double r = e.exp * inverse_z;
    const double excess = (z_excess > -0.5 ? e.expm1 - z_excess : e.exp - z) * inverse_z;  // r - 1
    return {e.exp, r * (tau * x - log_z) - excess};
  }
};

TiltDensity density_of(double tau, const Partition& z) { return {tau, z.logarithm(), z.mass, z.excess, 1.0 / z.mass}; }

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
  void run_short(const ShortRows<T>& rows, ShortAnswers* out) const {
    if (!negative_) short_kl(rows, penalty_, out);
  }
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
  void run_short(const ShortRows<T>& rows, ShortAnswers* out) const {
    if (radius_ < 0) short_kl(rows, penalty_, out);
  }
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

// The tilt at tau, and what the search for tau needs of it.
struct TiltRoot {
  double tau = 0;
  Partition z{};
  double mass = 0;              // sum b e^(tau x)
  double mean = 0, spread = 0;  // of x under the tilt
  double kl = 0, noise = 0;     // the divergence, and the size of the terms it is the difference of
  int iterations = 0;
};

template <class T>
TiltRoot tilt_at(const Frame<T>& f, double tau, Resources& use) {
  double v[4];
  sum_over(f, TiltMoments{tau}, use, v);
  TiltRoot at{.tau = tau, .z = {v[0] / f.total, v[1] / f.total}, .mass = v[1], .mean = v[2] / v[1]};
  at.spread = v[3] / v[1] - at.mean * at.mean;
  const double log_z = at.z.logarithm();
  at.kl = tau * at.mean - log_z;
  at.noise = std::abs(tau * at.mean) + std::abs(log_z);
  return at;
}

// Newton on sqrt(KL(tau)) = sqrt(rho), nearly linear for small tau.
double tilt_step(const TiltRoot& at, double radius) {
  const double now = std::sqrt(at.kl > 0 ? at.kl : 0);
  return 2 * now * (std::sqrt(radius) - now) / (at.tau * at.spread);
}

// The step for KL of a sample, with value and slope corrected at `full`; `step` where that is of no use.
double modelled_step(const Frame<double>& sample, const TiltRoot& full, double radius, double step, Resources& use) {
  constexpr int kSteps = 8;
  const TiltRoot start = tilt_at(sample, full.tau, use);
  const double tilt = full.tau * (full.spread - start.spread);
  double change = step;
  for (int k = 0; k < kSteps; ++k) {
    const TiltRoot at = tilt_at(sample, full.tau + change, use);
    const double slope = at.tau * at.spread + tilt;
    const double more = (radius - (at.kl - start.kl + full.kl + tilt * change)) / slope;
    if (!(slope > 0.25 * at.tau * at.spread) || !(std::abs(change + more - step) <= 0.5 * std::abs(step))) return step;
    change += more;
    if (std::abs(more) <= 0x1p-30 * std::abs(step)) break;
  }
  return change;
}

// The tilt at tau + step, from the moments: exact to the third power of the step.
void move_tilt(TiltRoot* at, double step) {
  const double log_ratio = step * (at->mean + 0.5 * step * at->spread);
  at->tau += step;
  at->z.excess += at->z.mass * std::expm1(log_ratio);
  at->z.mass *= std::exp(log_ratio);
  at->mass *= std::exp(log_ratio);
}

// The root in tau, with bisection in log tau where the steps fail. A step whose remainder is below the tolerance is the last
// and is not confirmed by a pass.
template <class T>
TiltRoot solve_tilt(const Frame<T>& f, double radius, double start, double high, const Frame<double>* sample,
                    Resources& use) {
  double low = 0x1p-400;
  const double most = high;
  double tau = start > low && start < high ? start : high;
  for (int iterations = 1;; ++iterations) {
    TiltRoot root = tilt_at(f, tau, use);
    root.iterations = iterations;
    const double miss = radius - root.kl;
    if (root.tau == most && miss >= 0) return root;  // the penalty alone keeps q inside the ball
    const double tolerance = 1e-15 * radius + 4e-16 * root.noise;
    if (std::abs(miss) <= tolerance || iterations >= kEtaIterations) return root;
    if (miss > 0)
      low = root.tau;
    else
      high = root.tau;
    double step = tilt_step(root, radius);
    // |KL''| is at most the spread times 1 + 2 tau |low|, and the model knows it to a few parts in a hundred.
    double remainder = 0.5 * root.spread * (1 - 2 * root.tau * f.low) * step * step;
    if (sample != nullptr && std::abs(step) < 0.5 * root.tau) {
      step = modelled_step(*sample, root, radius, step, use);
      remainder *= 0.05;
    }
    double next = root.tau + step;
    const bool inside = next > low && next < high;
    if (inside && remainder <= 4 * tolerance) {
      move_tilt(&root, step);
      return root;
    }
    if (!inside) next = std::sqrt(low) * std::sqrt(high);
    if (!(next > low && next < high)) return root;
    tau = next;
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
    return finish(f, Solved{.value = mean, .eta = mean, .multiplier = price, .norm = 1.0 / f.total, .iterations = 1}, Unit{},
                  weights, use);
  }
  if (least == 0 && radius_ >= -std::log(m[2] / f.total) * (1 - 1e-15))
    return finish(f, Solved{.norm = 1.0 / m[2], .iterations = 1}, OnTop{}, weights, use);

  const double high = least > 0 ? 1.0 / least : 0x1p400;
  double start = std::sqrt(2 * radius_ / (std::max(variance, 0x1p-60 * f.low * f.low)));
  const Workspace::Scope scope(use.workspace);
  Frame<double> sample;
  if (f.size >= kSampleFrom) sample = sample_of(f, use);
  if (sample.size > 0) start = solve_tilt(sample, radius_, start, high, nullptr, use).tau;
  const TiltRoot root = solve_tilt(f, radius_, start, high, sample.size > 0 ? &sample : nullptr, use);
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
