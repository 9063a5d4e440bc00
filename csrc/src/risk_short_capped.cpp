// KLCVaR and SmoothedCVaR of a short vector: e_i = exp(x_i / lam) once, then the search is for the factor u = exp(-eta / lam) of
// a_i = e_i u, without further exponentials:
//   KLCVaR        sum min(a, cap) = n       Newton, exact on a fixed clipped set, from the left: the clipped sets grow to the answer
//   SmoothedCVaR  sum a / (1 - alpha + alpha a) = n       Halley's iteration, exact for a single such term
#include <cmath>

#include "leeward/risk/short.hpp"

namespace leeward {
namespace {

// The range of penalties, in units of the range of the losses, where e_i neither vanishes nor is 1 to rounding.
constexpr double kLeastPenalty = 1.0 / 512, kMostPenalty = 8;
constexpr int kSteps = 40;

struct Tilt {
  alignas(64) double e[kShort];
  double sum = 0;
};

LEEWARD_INLINE void tilt(const ShortFrame& f, double inverse, Tilt* t) {
  double acc[1][kLanes] = {};
  for (std::int64_t i = 0; i < f.padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double e = hd::exp_pair(f.x[i + k] * inverse).exp;
      t->e[i + k] = e;
      acc[0][k] += f.b[i + k] * e;
    }
  }
  fold_lanes<1>(acc, &t->sum);
}

// The factor and the number of passes, 0 where none was found.
struct Factor {
  double u = 0;
  int iterations = 0;
};

LEEWARD_INLINE Factor capped_factor(const ShortFrame& f, const Tilt& t, double cap) {
  double clipped = 0, free_sum = t.sum;
  for (int step = 1; step <= kSteps; ++step) {
    const double rest = f.size - cap * clipped;
    if (!(rest > 1e-6 * f.size && free_sum > 0)) break;
    const double u = rest / free_sum;
    double acc[2][kLanes] = {}, v[2];
    for (std::int64_t i = 0; i < f.padded; i += kLanes) {
      LEEWARD_LANES
      for (int k = 0; k < kLanes; ++k) {
        const double e = t.e[i + k], b = f.b[i + k];
        const bool over = e * u >= cap;
        acc[0][k] += over ? b : 0.0;
        acc[1][k] += over ? 0.0 : b * e;
      }
    }
    fold_lanes<2>(acc, v);
    if (v[0] == clipped) return {u, step};
    clipped = v[0];
    free_sum = v[1];
  }
  return {};
}

LEEWARD_INLINE Factor logistic_factor(const ShortFrame& f, const Tilt& t, double alpha) {
  constexpr double kNear = 1e-6;  // the miss from which one cubic step reaches rounding
  const double rest = 1.0 - alpha;
  // a / (rest + alpha a) <= min(a / rest, 1 / alpha), whose root stands to the left and costs no divisions.
  const Factor left = capped_factor(f, t, 1.0 / alpha);
  double u = left.iterations > 0 ? rest * left.u : rest * f.size / t.sum;
  for (int step = 1; step <= kSteps; ++step) {
    double acc[3][kLanes] = {}, v[3];
    for (std::int64_t i = 0; i < f.padded; i += kLanes) {
      LEEWARD_LANES
      for (int k = 0; k < kLanes; ++k) {
        const double a = t.e[i + k] * u;
        const double inverse = f.b[i + k] / (rest + alpha * a);
        const double r = a * inverse, w = r * (rest * inverse);
        acc[0][k] += r;
        acc[1][k] += w;
        acc[2][k] += w * r;
      }
    }
    fold_lanes<3>(acc, v);
    // In units of u: first derivative v[1], second -2 alpha v[2].
    const double miss = f.size - v[0];
    const double bend = v[1] * v[1] - alpha * (miss * v[2]);
    double move = bend > 0.125 * (v[1] * v[1]) ? miss * v[1] / bend : miss / v[1];
    move = move > -0.75 ? move : -0.75;
    u += u * move;
    if (!(u < 0x1p1000)) break;
    if (miss <= kNear * f.size && miss >= -kNear * f.size) return {u, left.iterations + step};
  }
  return {};
}

template <class T>
LEEWARD_CLONES bool solve_kl_cvar(const T* l, std::int64_t n, double cap, double log_cap, double penalty, T* weights,
                                  RiskSolution* out) {
  ShortFrame f;
  double moments[2];
  if (!frame_short(l, n, &f, moments)) return false;
  const double lam = penalty / f.unit;
  if (!(lam > kLeastPenalty && lam < kMostPenalty)) return false;
  const double inverse = 1.0 / lam;
  Tilt t;
  tilt(f, inverse, &t);
  const Factor found = capped_factor(f, t, cap);
  if (found.iterations == 0) return false;
  const double u = found.u, eta = -lam * hd::log(u);
  double acc[kShortSums][kLanes] = {}, sums[kShortSums];
  for (std::int64_t i = 0; i < f.padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double x = f.x[i + k], b = f.b[i + k], a = t.e[i + k] * u, s = (x - eta) * inverse;
      const bool over = a >= cap;
      const double r = over ? cap : a;
      const double conjugate = over ? cap * (s - log_cap) + (cap - 1.0) : a - 1.0;
      const double q = b * r;
      t.e[i + k] = r;
      acc[0][k] += q;
      acc[1][k] += q * r;
      acc[2][k] += q * x;
      acc[3][k] += b * conjugate;
      acc[4][k] += b * (r * s - conjugate);
    }
  }
  fold_lanes<kShortSums>(acc, sums);
  const ShortAnswer answer{.eta = eta, .lam = lam, .price = lam, .multiplier = lam, .iterations = found.iterations + 2};
  return finish_short(f, answer, t.e, sums, weights, n, out);
}

template <class T>
LEEWARD_CLONES bool solve_smoothed_cvar(const T* l, std::int64_t n, double alpha, double penalty, T* weights, RiskSolution* out) {
  ShortFrame f;
  double moments[2];
  if (!frame_short(l, n, &f, moments)) return false;
  const double lam = penalty / f.unit;
  if (!(lam > kLeastPenalty && lam < kMostPenalty)) return false;
  const double inverse = 1.0 / lam, rest = 1.0 - alpha, inverse_alpha = 1.0 / alpha;
  Tilt t;
  tilt(f, inverse, &t);
  const Factor found = logistic_factor(f, t, alpha);
  if (found.iterations == 0) return false;
  const double u = found.u, eta = -lam * hd::log(u);
  double acc[kShortSums][kLanes] = {}, sums[kShortSums];
  for (std::int64_t i = 0; i < f.padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double x = f.x[i + k], b = f.b[i + k], a = t.e[i + k] * u, s = (x - eta) * inverse;
      const double d = rest + alpha * a;
      const double r = a / d;
      const double conjugate = hd::log_of_power(alpha * (a - 1.0), d) * inverse_alpha;
      const double q = b * r;
      t.e[i + k] = r;
      acc[0][k] += q;
      acc[1][k] += q * r;
      acc[2][k] += q * x;
      acc[3][k] += b * conjugate;
      acc[4][k] += b * (r * s - conjugate);
    }
  }
  fold_lanes<kShortSums>(acc, sums);
  const ShortAnswer answer{.eta = eta, .lam = lam, .price = lam, .multiplier = lam, .iterations = found.iterations + 2};
  return finish_short(f, answer, t.e, sums, weights, n, out);
}

}  // namespace

template <class T>
bool short_kl_cvar(LossVector<T> l, const hd::CappedKLDivergence& divergence, double penalty, T* weights, RiskSolution* out) {
  return solve_kl_cvar<T>(l.losses, l.size, divergence.cap, divergence.log_cap, penalty, weights, out);
}

template <class T>
bool short_smoothed_cvar(LossVector<T> l, const hd::SmoothedCVaRDivergence& divergence, double penalty, T* weights,
                         RiskSolution* out) {
  return solve_smoothed_cvar<T>(l.losses, l.size, divergence.alpha, penalty, weights, out);
}

template bool short_kl_cvar(LossVector<float>, const hd::CappedKLDivergence&, double, float*, RiskSolution*);
template bool short_kl_cvar(LossVector<double>, const hd::CappedKLDivergence&, double, double*, RiskSolution*);
template bool short_smoothed_cvar(LossVector<float>, const hd::SmoothedCVaRDivergence&, double, float*, RiskSolution*);
template bool short_smoothed_cvar(LossVector<double>, const hd::SmoothedCVaRDivergence&, double, double*, RiskSolution*);

}  // namespace leeward
