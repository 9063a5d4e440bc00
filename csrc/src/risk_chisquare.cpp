// ChiSquare(penalty, radius): r = (1 + (l - eta) / lam)_+. Both forms are solved on their active set {r > 0}, whose mass P,
// mean m and variance v give the answer in closed form:
//   penalty lam: eta = m - lam (1 - P) / P        radius rho: lam^2 = P^2 v / (2 rho P - (1 - P)), eta as above.
// The sets found this way converge in a few passes; a bracket on the threshold eta - lam guards the radius form. With both, the
// radius binds exactly when its own multiplier passes the penalty.
#include <cmath>
#include <limits>

#include "leeward/hd/eta_root.hpp"
#include "leeward/risk/factories.hpp"
#include "leeward/risk/penalty.hpp"

namespace leeward {
namespace {

// Over the active set: mass, sum of s, sum of s^2; the mass outside it.
struct ActiveSums {
  static constexpr int kSums = 4;
  hd::Eta eta;
  double inverse;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    const double s = eta.from(x) * inverse;
    const bool active = s > -1.0;
    const double w = active ? b : 0.0, t = active ? s : 0.0;
    v[0] = w;
    v[1] = b * t;
    v[2] = b * (t * t);
    v[3] = b - w;
  }
};

struct StartSums {
  static constexpr int kSums = 3;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    v[0] = b * x;
    v[1] = b * (x * x);
    v[2] = x >= 0.0 ? b : 0.0;
  }
};

struct ChiDensity {
  hd::Eta eta;
  double inverse;
  LEEWARD_INLINE Ratio operator()(double x) const {
    const double s = eta.from(x) * inverse;
    const double t = s > -1.0 ? s : -1.0;
    return {1.0 + t, 0.5 * (t * t)};
  }
};

struct Active {
  double mass, idle, mean, square;  // P, 1 - P, and the means over all samples of s and s^2 on the set
};

template <class T>
Active active_at(const Frame<T>& f, const hd::Eta& eta, double lam, Resources& use) {
  double v[4];
  sum_over(f, ActiveSums{eta, 1.0 / lam}, use, v);
  return {v[0] / f.total, v[3] / f.total, v[1] / f.total, v[2] / f.total};
}

class ChiSquareRisk final : public FramedRisk<ChiSquareRisk> {
 public:
  ChiSquareRisk(double penalty, double radius) : penalty_(penalty), radius_(radius) {}
  double idle_multiplier() const { return radius_ < 0 ? penalty_ : 0; }

  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    double v[3];
    sum_over(f, StartSums{}, use, v);
    const double mean = v[0] / f.total, variance = v[1] / f.total - mean * mean, top = v[2] / f.total;
    const double lam = penalty_ < 0 ? 0 : scaled_penalty(f, penalty_, 0x1p-460);
    if (radius_ < 0) return solve_penalty_form(f, lam, mean, 0, weights, use);
    if (radius_ == 0) {
      const double price = std::numeric_limits<double>::infinity();
      return finish(f, Solved{.value = mean, .eta = mean, .multiplier = price, .norm = 1.0 / f.total, .iterations = 1}, Unit{},
                    weights, use);
    }
    if (2 * radius_ * top >= 1 - top) {
      if (lam > 0) return solve_penalty_form(f, lam, mean, 0, weights, use);
      return finish(f, Solved{.norm = 1.0 / v[2], .iterations = 1}, OnTop{}, weights, use);
    }
    return solve_radius_form(f, lam, mean, variance, weights, use);
  }

 private:
  template <class T>
  RiskSolution solve_penalty_form(const Frame<T>& f, double lam, double mean, int before, T* weights, Resources& use) const;
  template <class T>
  RiskSolution solve_radius_form(const Frame<T>& f, double least, double mean, double variance, T* weights,
                                 Resources& use) const;

  double penalty_, radius_;
};

// f*(s) averaged: s + s^2 / 2 on the set, -1/2 outside.
double conjugate_mean(const Active& a) { return a.mean + 0.5 * a.square - 0.5 * a.idle; }

template <class T>
RiskSolution ChiSquareRisk::solve_penalty_form(const Frame<T>& f, double lam, double mean, int before, T* weights,
                                               Resources& use) const {
  hd::Eta eta{mean, 0};
  Active a{};
  Solved s{.multiplier = radius_ < 0 ? lam : 0, .price = lam, .iterations = before + 1};
  hd::EtaBracket bracket{.low = {f.low, 0}, .high = {0, 0}};
  // From the left each step stays left of the root, and a step from the right lands left: the active sets shrink to the answer.
  for (;;) {
    a = active_at(f, eta, lam, use);
    ++s.iterations;
    const double residual = a.mean - a.idle;  // E r - 1
    if (std::abs(residual) <= kEtaTolerance || s.iterations >= kEtaIterations) break;
    const hd::Eta next = bracket.next(eta, residual, lam * (residual / a.mass));
    if (next.hi == eta.hi && next.lo == eta.lo) break;
    eta = next;
  }
  s.eta = eta.sum();
  s.value = s.eta + lam * conjugate_mean(a);
  s.norm = 1.0 / (f.total * (1.0 + a.mean - a.idle));
  return finish(f, s, ChiDensity{eta, 1.0 / lam}, weights, use);
}

template <class T>
RiskSolution ChiSquareRisk::solve_radius_form(const Frame<T>& f, double least, double mean, double variance, T* weights,
                                              Resources& use) const {
  const double rho2 = 2 * radius_;
  hd::Eta eta{mean, 0};
  double lam = std::sqrt(variance / rho2);
  lam = lam < 0x1p460 ? lam : 0x1p460;
  double low = f.low, high = 0;  // of the threshold eta - lam, once it is inside
  Active a{};
  Solved s{.iterations = 1};
  for (;;) {
    a = active_at(f, eta, lam, use);
    ++s.iterations;
    const double g = a.mean - a.idle, square = a.square + a.idle;  // E r - 1, E (r - 1)^2
    const double side = rho2 * (1 + g) * (1 + g) + g * g - square;  // > 0: the threshold is too small
    const bool settled = std::abs(g) <= kEtaTolerance && std::abs(square - rho2) <= 1e-13 * (rho2 + square);
    if (settled || s.iterations >= kEtaIterations) break;
    const double threshold = eta.sum() - lam;
    if (threshold > low && threshold < high) (side > 0 ? low : high) = threshold;
    // The closed form on the present set.
    const double m = a.mean / a.mass, spread = a.square / a.mass - m * m, room = rho2 * a.mass - a.idle;
    if (room > 0 && spread > 0) {
      const double ratio = a.mass * std::sqrt(spread / room);  // new lam / lam
      const hd::Eta moved = hd::moved(eta, lam * (m - ratio * a.idle / a.mass));
      const double next = moved.sum() - lam * ratio;
      if (next < high && (next > low || low == f.low) && ratio < 0x1p400) {
        if (moved.hi == eta.hi && moved.lo == eta.lo && ratio == 1.0) break;
        eta = moved;
        lam *= ratio;
        continue;
      }
    }
    const double middle = 0.5 * (low + high);
    if (!(middle > low && middle < high)) break;
    eta = {middle + lam, 0};
  }
  if (lam <= least) return solve_penalty_form(f, least, mean, s.iterations, weights, use);
  s.eta = eta.sum();
  s.multiplier = lam - least;
  s.price = least;
  s.value = s.eta + lam * conjugate_mean(a) + (lam - least) * radius_;
  s.norm = 1.0 / (f.total * (1.0 + a.mean - a.idle));
  return finish(f, s, ChiDensity{eta, 1.0 / lam}, weights, use);
}

}  // namespace

RiskPointer make_chi_square(double penalty, double radius) { return std::make_shared<ChiSquareRisk>(penalty, radius); }

}  // namespace leeward
