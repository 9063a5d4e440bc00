// Losses l(z; y) of one score z and one label y: value, slope dl/dz, curvature, conjugate, and smoothness constant.
//
// Six of them are one family: the clipped quadratic of a residual u,
//     c(u) = max_{lo <= s <= hi} s u - mu s^2 / 2,        s(u) = clip(u / mu, lo, hi)   (mu = 0: the support function),
// with u = z - y (squared, Huber, absolute, quantile) or u = 1 - y z, y = +-1 (hinge, squared hinge). Its Moreau envelope
// with parameter m is the same function with mu + m, and its conjugate is mu s^2 / 2 on [lo, hi].
// Logistic, Poisson and softmax (one row of scores) stand by themselves. Sigmoid, Cauchy, Geman-McClure and Tukey are not convex:
// their curvature is a bound that is never negative, and their conjugate is finite at s = 0 alone.
//
// Conjugates are l*(s) = sup_z s z - l(z; y): infinite outside their domain, where a slope computed from scores may lie
// by rounding; arguments within kDomainSlack of the domain count as its border.
#pragma once

#include <cstdint>

#include "leeward/hd/real_math.hpp"

namespace leeward::hd {

inline constexpr double kDomainSlack = 1e-12;

LEEWARD_HD double magnitude(double x) { return from_bits(bits_of(x) & 0x7fffffffffffffffULL); }

// x log x for x >= 0, 0 at 0; written so that nothing hinges on a branch.
LEEWARD_HD double entropy_term(double x) { return x * log(x > 0.0 ? x : 1.0); }

// The clipped quadratic; lo <= 0 <= hi, finite where mu = 0.
struct Clipped {
  double lo, hi, mu;
  double inverse;         // 1 / mu, 0 where mu = 0
  double from, to;        // mu lo, mu hi: the residuals between which s = u / mu

  static Clipped make(double lo, double hi, double mu) {
    const bool kink = !(mu > 0.0);
    return {lo, hi, mu, kink ? 0.0 : 1.0 / mu, kink ? 0.0 : mu * lo, kink ? 0.0 : mu * hi};
  }
  LEEWARD_HD double dual(double u) const { return u > to ? hi : (u < from ? lo : u * inverse); }
  LEEWARD_HD double value(double u) const {
    const double s = dual(u);
    return (s * u - 0.5 * mu * s * s) + 0.0;  // 0 rather than -0 where s is 0
  }
  // 1 / mu where s = u / mu, elsewhere s / u, the k of the parabola c(u) + s (v - u) + k (v - u)^2 / 2 that lies above c from
  // u to 0. 0 for mu = 0.
  LEEWARD_HD double curvature(double u) const {
    const bool inside = u <= to && u >= from;
    const double ratio = dual(u) / (inside ? 1.0 : u);
    return mu > 0.0 ? (inside ? inverse : ratio + 0.0) : 0.0;
  }
  // mu s^2 / 2 on [lo, hi]; `s` is moved onto the border by at most the slack.
  LEEWARD_HD double conjugate(double s) const {
    const double slack_hi = kDomainSlack * (hi > 1.0 ? hi : 1.0);
    const double slack_lo = kDomainSlack * (lo < -1.0 ? -lo : 1.0);
    const double t = s > hi ? hi : (s < lo ? lo : s);
    const bool outside = s > hi + slack_hi || s < lo - slack_lo;
    return outside ? real::kInf : 0.5 * mu * t * t;
  }
};

// u = z - y: squared (-inf, inf, 1), Huber (-delta, delta, 1), absolute (-1, 1, 0), quantile (-tau, 1 - tau, 0).
struct ResidualLoss {
  Clipped c;
  LEEWARD_HD double value(double z, double y) const { return c.value(z - y); }
  LEEWARD_HD double slope(double z, double y) const { return c.dual(z - y); }
  LEEWARD_HD double curvature(double z, double y) const { return c.curvature(z - y); }
  LEEWARD_HD double conjugate(double s, double y) const { return c.conjugate(s) + s * y; }
};

// u = 1 - y z, y = +-1: hinge (0, 1, 0), squared hinge (0, inf, 1). With a = -y s the dual variable, l*(s) = c*(a) - a.
struct MarginLoss {
  Clipped c;
  LEEWARD_HD double value(double z, double y) const { return c.value(1.0 - y * z); }
  LEEWARD_HD double slope(double z, double y) const { return -y * c.dual(1.0 - y * z); }
  LEEWARD_HD double curvature(double z, double y) const { return c.curvature(1.0 - y * z); }
  LEEWARD_HD double conjugate(double s, double y) const { return c.conjugate(-y * s) + y * s; }
};

// log(1 + e^{-y z}), y = +-1. With a = -y s in [0, 1], l*(s) = a log a + (1 - a) log(1 - a).
struct LogisticLoss {
  LEEWARD_HD double value(double z, double y) const { return softplus(-y * z); }
  LEEWARD_HD double slope(double z, double y) const { return -y * sigmoid(-y * z); }
  LEEWARD_HD double curvature(double z, double) const {
    const double e = exp(-magnitude(z));
    const double p = 1.0 + e;
    return e / (p * p);
  }
  LEEWARD_HD double conjugate(double s, double y) const {
    const double a = -y * s;
    const double t = a > 1.0 ? 1.0 : (a < 0.0 ? 0.0 : a);
    const bool outside = a > 1.0 + kDomainSlack || a < -kDomainSlack;
    return outside ? real::kInf : entropy_term(t) + entropy_term(1.0 - t);
  }
};

// e^z - y z, y >= 0 (minus the log-likelihood up to log y!). With t = s + y >= 0, l*(s) = t log t - t.
struct PoissonLoss {
  LEEWARD_HD double value(double z, double y) const { return exp(z) - y * z; }
  LEEWARD_HD double slope(double z, double y) const { return exp(z) - y; }
  LEEWARD_HD double curvature(double z, double) const { return exp(z); }
  LEEWARD_HD double conjugate(double s, double y) const {
    const double t = s + y;
    const double slack = kDomainSlack * (y > 1.0 ? y : 1.0);
    const double t0 = t > 0.0 ? t : 0.0;
    return t < -slack ? real::kInf : entropy_term(t0) - t0;
  }
};

// log sum_k e^{z_k} - z_y over one row of C scores, y in 0..C-1. Slopes are softmax(z) - e_y.
struct SoftmaxLoss {
  std::int64_t classes;

  LEEWARD_HD double largest(const double* z) const {
    double top = z[0];
    for (std::int64_t k = 1; k < classes; ++k) top = z[k] > top ? z[k] : top;
    return top;
  }
  // Exact to rounding even where the label's class has nearly all the mass: log1p of the sum of the others.
  LEEWARD_HD double value(const double* z, std::int64_t y) const {
    const double top = largest(z);
    double others = 0.0;
    bool counted = false;  // the largest score itself, once
    for (std::int64_t k = 0; k < classes; ++k) {
      const bool self = !counted && z[k] == top;
      others += self ? 0.0 : exp(z[k] - top);
      counted = counted || self;
    }
    return (top - z[y]) + log1p(others);
  }
  LEEWARD_HD void slopes(const double* z, std::int64_t y, double* out) const {
    const double top = largest(z);
    double total = 0.0;
    for (std::int64_t k = 0; k < classes; ++k) total += out[k] = exp(z[k] - top);
    double others = 0.0;  // so that the label's slope is accurate near 0 as well
    for (std::int64_t k = 0; k < classes; ++k) {
      out[k] /= total;
      others += k == y ? 0.0 : out[k];
    }
    out[y] = -others;
  }
  // The diagonal p_k (1 - p_k).
  LEEWARD_HD void curvatures(const double* z, double* out) const {
    const double top = largest(z);
    double total = 0.0;
    for (std::int64_t k = 0; k < classes; ++k) total += out[k] = exp(z[k] - top);
    for (std::int64_t k = 0; k < classes; ++k) out[k] = out[k] / total * ((total - out[k]) / total);
  }
  // sum p log p with p = s + e_y in the simplex.
  LEEWARD_HD double conjugate(const double* s, std::int64_t y) const {
    double total = 0.0, sum = 0.0;
    bool outside = false;
    for (std::int64_t k = 0; k < classes; ++k) {
      const double p = s[k] + (k == y ? 1.0 : 0.0);
      outside = outside || p < -kDomainSlack;
      total += p;
      sum += entropy_term(p > 0.0 ? p : 0.0);
    }
    outside = outside || magnitude(total - 1.0) > kDomainSlack * static_cast<double>(classes);
    return outside ? real::kInf : sum;
  }
};

// The conjugate of a loss with infimum 0 that grows slower than any line: only the slope 0 bounds it from below.
LEEWARD_HD double flat_conjugate(double s) { return magnitude(s) > 0.0 ? real::kInf : s * 0.0; }

// 1 / (1 + e^{y z}), y = +-1: a smooth count of errors. With p the loss, |l'| = p (1 - p) and |l''| = p (1 - p) |1 - 2 p|.
struct SigmoidLoss {
  static constexpr double kSteepest = 0.09622504486493763;  // sup |l''| = 1 / (6 sqrt 3)
  LEEWARD_HD double value(double z, double y) const { return sigmoid(-y * z); }
  LEEWARD_HD double slope(double z, double y) const { return -y * spread(z); }
  // The smaller of two bounds of |l''|, positive at z = 0 as well, where l'' itself changes its sign.
  LEEWARD_HD double curvature(double z, double) const {
    const double p = spread(z);
    return p > kSteepest ? kSteepest : p;
  }
  LEEWARD_HD double conjugate(double s, double) const { return flat_conjugate(s); }

 private:
  LEEWARD_HD static double spread(double z) {  // p (1 - p), without cancellation
    const double e = exp(-magnitude(z));
    const double p = 1.0 + e;
    return e / (p * p);
  }
};

// Losses of a residual r = z - y that stop growing like r^2 at r about c, with u = r / c; all are r^2 / 2 near 0 and have
// |l''| <= 1. Their curvature is l'(r) / r: the parabola with it that touches l at r lies above l everywhere, since l is
// concave as a function of r^2.
//
//   Cauchy         (c^2/2) log(1 + u^2)          l' = r / (1 + u^2)
//   Geman-McClure  (c^2/2) u^2 / (1 + u^2)       l' = r / (1 + u^2)^2
//   Tukey          (c^2/6) (1 - (1 - u^2)^3)     l' = r (1 - u^2)^2,   c^2/6 and 0 where |u| > 1
struct Scaled {
  double c, inverse;
  static Scaled make(double c) { return {c, 1.0 / c}; }
  LEEWARD_HD double unit(double z, double y) const { return (z - y) * inverse; }
  // |u|, at most 1e150: bounded losses and their slopes are at their limits long before, and squares do not overflow.
  LEEWARD_HD static double capped(double u) {
    const double t = magnitude(u);
    return t > 1e150 ? 1e150 : t;
  }
};

struct CauchyLoss {
  Scaled s;
  LEEWARD_HD double value(double z, double y) const {
    const double t = magnitude(s.unit(z, y));
    const bool far = t > 1e150;  // log(1 + t^2) = 2 log(1 + t) there, to rounding
    return (far ? s.c * s.c : 0.5 * s.c * s.c) * log1p(far ? t : t * t);
  }
  LEEWARD_HD double slope(double z, double y) const {
    const double u = s.unit(z, y);
    const bool far = magnitude(u) > 1e150;
    return s.c * ((far ? 1.0 : u) / (far ? u : 1.0 + u * u));
  }
  LEEWARD_HD double curvature(double z, double y) const {
    const double t = Scaled::capped(s.unit(z, y));
    return 1.0 / (1.0 + t * t);
  }
  LEEWARD_HD double conjugate(double v, double y) const { return flat_conjugate(v) + v * y; }
};

struct GemanMcClureLoss {
  Scaled s;
  LEEWARD_HD double value(double z, double y) const {
    const double t = Scaled::capped(s.unit(z, y));
    return 0.5 * s.c * s.c * (t * t / (1.0 + t * t));
  }
  LEEWARD_HD double slope(double z, double y) const {
    const double u = s.unit(z, y), t = Scaled::capped(u), k = 1.0 / (1.0 + t * t);
    const double size = s.c * (t * k * k);
    return u < 0.0 ? -size : size;
  }
  LEEWARD_HD double curvature(double z, double y) const {
    const double t = Scaled::capped(s.unit(z, y)), k = 1.0 / (1.0 + t * t);
    return k * k;
  }
  LEEWARD_HD double conjugate(double v, double y) const { return flat_conjugate(v) + v * y; }
};

struct TukeyLoss {
  Scaled s;
  // (1 - (1 - a)^3) / 3 = a - a^2 + a^3 / 3 with a = u^2: no cancellation near 0.
  LEEWARD_HD double value(double z, double y) const {
    const double t = Scaled::capped(s.unit(z, y)), a = t * t;
    return 0.5 * s.c * s.c * (a > 1.0 ? 1.0 / 3.0 : a * (1.0 - a * (1.0 - a / 3.0)));
  }
  LEEWARD_HD double slope(double z, double y) const {
    const double u = s.unit(z, y), t = Scaled::capped(u), k = rest(t);
    const double size = s.c * (t * k * k);
    return u < 0.0 ? -size : size;
  }
  LEEWARD_HD double curvature(double z, double y) const {
    const double k = rest(Scaled::capped(s.unit(z, y)));
    return k * k;
  }
  LEEWARD_HD double conjugate(double v, double y) const { return flat_conjugate(v) + v * y; }

 private:
  LEEWARD_HD static double rest(double t) {  // 1 - u^2 where it is positive; NaN stays NaN
    const double k = (1.0 - t) * (1.0 + t);
    return k < 0.0 ? 0.0 : k;
  }
};

// Which loss, as data: what a caller writes down.
enum class LossKind {
  squared, huber, absolute, quantile, logistic, softmax, hinge, squared_hinge, poisson, sigmoid, cauchy, geman_mcclure, tukey
};

struct LossSpec {
  LossKind kind = LossKind::squared;
  double parameter = 0;  // Huber's delta, the quantile's tau, the scale c of Cauchy, Geman-McClure and Tukey
  double smoothing = 0;  // Moreau parameter mu of the absolute, quantile and hinge losses; no effect on the others
  bool operator==(const LossSpec&) const = default;
};

// The family member of a clipped loss (squared for the others).
inline Clipped clipped_of(const LossSpec& spec) {
  switch (spec.kind) {
    case LossKind::huber: return Clipped::make(-spec.parameter, spec.parameter, 1.0);
    case LossKind::absolute: return Clipped::make(-1.0, 1.0, spec.smoothing);
    case LossKind::quantile: return Clipped::make(-spec.parameter, 1.0 - spec.parameter, spec.smoothing);
    case LossKind::hinge: return Clipped::make(0.0, 1.0, spec.smoothing);
    case LossKind::squared_hinge: return Clipped::make(0.0, real::kInf, 1.0);
    default: return Clipped::make(-real::kInf, real::kInf, 1.0);
  }
}

// sup_z |l''(z)|: the Lipschitz constant of the slope in the score; infinite where there is none.
inline double score_smoothness(const LossSpec& spec) {
  switch (spec.kind) {
    case LossKind::logistic: return 0.25;
    case LossKind::softmax: return 0.5;  // of the vector of C scores, in the 2-norm
    case LossKind::poisson: return real::kInf;
    case LossKind::sigmoid: return SigmoidLoss::kSteepest;
    case LossKind::cauchy:
    case LossKind::geman_mcclure:
    case LossKind::tukey: return 1.0;
    default: {
      const Clipped c = clipped_of(spec);
      return c.mu > 0.0 ? c.inverse : real::kInf;
    }
  }
}

}  // namespace leeward::hd
