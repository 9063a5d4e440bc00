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
#include "leeward/risk/sample.hpp"

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

// f*(s) averaged: s + s^2 / 2 on the set, -1/2 outside.
double conjugate_mean(const Active& a) { return a.mean + 0.5 * a.square - 0.5 * a.idle; }

struct ChiRoot {
  hd::Eta eta;
  double lam = 0;
  Active at{};  // at eta and lam
  int iterations = 0;
};

// From the left each step stays left of the root, and a step from the right lands left: the active sets shrink to the answer.
template <class T>
ChiRoot search_penalty(const Frame<T>& f, double lam, hd::Eta start, Resources& use) {
  hd::EtaBracket bracket{.low = {f.low, 0}, .high = {0, 0}};
  ChiRoot root{.eta = start, .lam = lam};
  for (;;) {
    root.at = active_at(f, root.eta, lam, use);
    ++root.iterations;
    const double residual = root.at.mean - root.at.idle;  // E r - 1
    if (std::abs(residual) <= kEtaTolerance || root.iterations >= kEtaIterations) return root;
    double step = lam * (residual / root.at.mass);
    // A step that rounding takes past the bracket's right end stops just short of it instead.
    const double most = minus(bracket.high, root.eta);
    if (residual > 0 && !(step < most)) step = most * (1 - 0x1p-30);
    const hd::Eta next = bracket.next(root.eta, residual, step);
    if (next.hi == root.eta.hi && next.lo == root.eta.lo) return root;
    root.eta = next;
  }
}

// Places closer to the maximum than kNearTop are not told apart; no scale goes below kLeastScale.
constexpr double kNearTop = 0x1p-440, kLeastScale = 0x1p-460;

// The middle of a bracket of negative numbers: geometric while its ends differ in magnitude.
double middle_of(double low, double high) {
  if (high == 0) return low * 0x1p-40;
  return low < 4 * high ? -std::sqrt(low * high) : 0.5 * (low + high);
}

template <class T>
ChiRoot search_radius(const Frame<T>& f, double radius, hd::Eta start, double lam, Resources& use) {
  const double rho2 = 2 * radius;
  double low = f.low, high = 0;  // of the threshold eta - lam, once it is inside
  ChiRoot root{.eta = start, .lam = lam};
  for (;;) {
    const Active a = root.at = active_at(f, root.eta, root.lam, use);
    ++root.iterations;
    const double g = a.mean - a.idle, square = a.square + a.idle;  // E r - 1, E (r - 1)^2
    const double side = rho2 * (1 + g) * (1 + g) + g * g - square;  // > 0: the threshold is too small
    const bool settled = std::abs(g) <= kEtaTolerance && std::abs(square - rho2) <= 1e-13 * (rho2 + square);
    if (settled || root.iterations >= kEtaIterations) return root;
    const double threshold = root.eta.sum() - root.lam;
    if (threshold > low && threshold < high) (side > 0 ? low : high) = threshold;
    // The closed form on the present set.
    const double m = a.mean / a.mass, spread = a.square / a.mass - m * m, room = rho2 * a.mass - a.idle;
    if (room > 0 && spread > 0) {
      const double ratio = a.mass * std::sqrt(spread / room);  // new lam / lam
      const hd::Eta moved = hd::moved(root.eta, root.lam * (m - ratio * a.idle / a.mass));
      const double next = moved.sum() - root.lam * ratio;
      if (next < high && (next > low || low == f.low) && ratio < 0x1p400) {
        if (moved.hi == root.eta.hi && moved.lo == root.eta.lo && ratio == 1.0) return root;
        if (root.lam <= kLeastScale && ratio <= 1) return root;
        root.eta = moved;
        root.lam = root.lam * ratio > kLeastScale ? root.lam * ratio : kLeastScale;
        continue;
      }
    }
    double middle = middle_of(low, high);
    if (middle > -kNearTop && low < -kNearTop) middle = -kNearTop;
    if (low >= -kNearTop) {  // nothing but samples that hardly differ from the maximum: they share the mass
      root.eta = {0, 0};
      root.lam = kLeastScale;
      root.at = active_at(f, root.eta, root.lam, use);
      return root;
    }
    if (!(middle > low && middle < high)) {
      // The threshold is known to the last digit of a double: give lam the mean of what lies above it, then the closed form, which
      // sees eta to twice as many digits.
      root.eta = hd::moved(root.eta, root.lam * g);
      root.lam *= 1 + g;
      for (int polish = 0;; ++polish) {
        const Active b = root.at = active_at(f, root.eta, root.lam, use);
        const double centre = b.mean / b.mass, variance = b.square / b.mass - centre * centre;
        const double ratio = b.mass * std::sqrt(variance / (rho2 * b.mass - b.idle));
        if (polish == 2 || !(ratio > 0.5 && ratio < 2)) return root;
        root.eta = hd::moved(root.eta, root.lam * (centre - ratio * b.idle / b.mass));
        root.lam *= ratio;
      }
    }
    root.lam = -middle;  // the scale of the places above the threshold
    root.eta = {0, 0};
  }
}

template <class T>
RiskSolution finish_chi(const Frame<T>& f, const ChiRoot& root, double penalty, double price, double radius, T* weights,
                        Resources& use) {
  double mass = f.total * (1.0 + root.at.mean - root.at.idle);
  const ChiDensity density{root.eta, 1.0 / root.lam};
  if (!(mass > 0.5 * f.total && mass < 2 * f.total)) sum_over(f, DensityMass<ChiDensity>{density}, use, &mass);
  const Solved s{.value = root.eta.sum() + root.lam * conjugate_mean(root.at) + price * radius, .eta = root.eta.sum(),
                 .multiplier = radius < 0 ? penalty : price, .norm = 1.0 / mass, .price = penalty, .iterations = root.iterations + 2};
  return finish(f, s, density, weights, use);
}

class ChiSquareRisk final : public FramedRisk<ChiSquareRisk> {
 public:
  ChiSquareRisk(double penalty, double radius) : penalty_(penalty), radius_(radius) {}
  double idle_multiplier() const { return radius_ < 0 ? penalty_ : 0; }

  template <class T>
  void run_short(const ShortRows<T>& rows, ShortAnswers* out) const {
    short_chi_square(rows, penalty_, radius_, out);
  }
  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    const double lam = penalty_ < 0 ? 0 : scaled_penalty(f, penalty_, 0x1p-460);
    if (radius_ < 0) return finish_chi(f, solve_penalty_form(f, lam, use), lam, 0, -1, weights, use);
    double v[3];
    sum_over(f, StartSums{}, use, v);
    const double mean = v[0] / f.total, variance = v[1] / f.total - mean * mean, top = v[2] / f.total;
    if (radius_ == 0) {
      const double price = std::numeric_limits<double>::infinity();
      return finish(f, Solved{.value = mean, .eta = mean, .multiplier = price, .norm = 1.0 / f.total, .iterations = 1}, Unit{},
                    weights, use);
    }
    const bool on_top = 2 * radius_ * top >= (1 - top) * (1 - 1e-15);
    if (on_top && lam == 0) return finish(f, Solved{.norm = 1.0 / v[2], .iterations = 1}, OnTop{}, weights, use);
    if (!on_top) {
      const ChiRoot root = solve_radius_form(f, mean, variance, use);
      if (root.lam > lam) return finish_chi(f, root, lam, root.lam - lam, radius_, weights, use);
    }
    return finish_chi(f, solve_penalty_form(f, lam, use), lam, 0, radius_, weights, use);
  }

 private:
  template <class T>
  ChiRoot solve_penalty_form(const Frame<T>& f, double lam, Resources& use) const {
    if (f.size >= kSampleFrom) {
      const Workspace::Scope scope(use.workspace);
      const Frame<double> sample = sample_of(f, use);
      if (sample.size > 0) return search_penalty(f, lam, search_penalty(sample, lam, {mean_place(sample, use), 0}, use).eta, use);
    }
    return search_penalty(f, lam, {mean_place(f, use), 0}, use);
  }

  template <class T>
  ChiRoot solve_radius_form(const Frame<T>& f, double mean, double variance, Resources& use) const {
    const double lam = std::sqrt(variance / (2 * radius_));
    ChiRoot start{.eta = {mean, 0}, .lam = lam < 0x1p460 ? lam : 0x1p460};
    if (f.size >= kSampleFrom) {
      const Workspace::Scope scope(use.workspace);
      const Frame<double> sample = sample_of(f, use);
      if (sample.size > 0) start = search_radius(sample, radius_, start.eta, start.lam, use);
    }
    return search_radius(f, radius_, start.eta, start.lam, use);
  }

  double penalty_, radius_;
};

}  // namespace

RiskPointer make_chi_square(double penalty, double radius) { return std::make_shared<ChiSquareRisk>(penalty, radius); }

}  // namespace leeward
