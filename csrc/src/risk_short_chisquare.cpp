// ChiSquare of a short vector: the closed form on the active set (risk_chisquare.cpp), applied to the sets it finds until one
// repeats. Sets of places above a threshold are nested, so that equal counts mean equal sets. The greatest place is 0 and always
// active: the set's places are of the size of their own spread, hence no digits are lost.
#include <cmath>

#include "leeward/risk/short.hpp"

namespace leeward {
namespace {

constexpr int kSteps = 40;  // sets shrink in a few steps; the general solver has the guards for the others

// Over the places above the threshold: their number, sum and sum of squares.
LEEWARD_INLINE void active_sums(const ShortFrame& f, double threshold, double* sums) {
  double acc[3][kLanes] = {};
  for (std::int64_t i = 0; i < f.padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double x = f.x[i + k];
      const double b = x > threshold ? f.b[i + k] : 0.0;
      const double first = b * x;
      acc[0][k] += b;
      acc[1][k] += first;
      acc[2][k] += first * x;
    }
  }
  fold_lanes<3>(acc, sums);
}

struct ChiPair {
  double eta = 0, lam = 0;
  int iterations = 0;  // 0: not found
};

// From the set of all places the sets shrink to the answer.
LEEWARD_INLINE ChiPair penalty_pair(const ShortFrame& f, const double* all, double lam) {
  double s[3] = {all[0], all[1], all[2]};
  for (int step = 1; step <= kSteps; ++step) {
    const double count = s[0], eta = (s[1] - lam * (f.size - count)) / count;
    active_sums(f, eta - lam, s);
    if (s[0] == count) return {eta, lam, step};
    if (!(s[0] > 0)) break;
  }
  return {};
}

LEEWARD_INLINE ChiPair radius_pair(const ShortFrame& f, const double* all, double radius) {
  double s[3] = {all[0], all[1], all[2]};
  for (int step = 1; step <= kSteps; ++step) {
    const double count = s[0], inverse = 1.0 / count;
    const double mean = s[1] * inverse, spread = s[2] * inverse - mean * mean;
    const double idle = f.size - count, room = 2 * radius * count - idle;
    if (!(room > 1e-4 * count && spread > 0)) return {};
    const double lam = count * std::sqrt(spread / (room * f.size));
    const double eta = mean - lam * (idle * inverse);
    active_sums(f, eta - lam, s);
    if (s[0] == count) return {eta, lam, step};
    if (!(s[0] > 0)) break;
  }
  return {};
}

template <class T>
LEEWARD_CLONES bool solve_chi(const T* l, std::int64_t n, double penalty, double radius, T* weights, RiskSolution* out) {
  ShortFrame f;
  double all[3] = {static_cast<double>(n), 0, 0};
  if (!frame_short(l, n, &f, all + 1)) return false;
  const double lam = penalty < 0 ? 0.0 : penalty / f.unit;
  if (!(lam < 0x1p200) || (penalty >= 0 && !(lam > 0x1p-200))) return false;
  ChiPair at;
  bool bound = false;
  if (radius >= 0) {
    at = radius_pair(f, all, radius);
    if (at.iterations == 0) return false;
    bound = at.lam > lam;
  }
  if (!bound) at = penalty_pair(f, all, lam);
  if (at.iterations == 0) return false;
  const double eta = at.eta, inverse = 1.0 / at.lam;
  alignas(64) double ratios[kShort];
  double acc[3][kLanes] = {}, v[3];
  for (std::int64_t i = 0; i < f.padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double x = f.x[i + k], s = (x - eta) * inverse;
      const double t = f.b[i + k] * (s > -1.0 ? s : -1.0);  // r - 1
      const double r = 1.0 + t;
      ratios[i + k] = r;
      acc[0][k] += t;
      acc[1][k] += t * t;
      acc[2][k] += f.b[i + k] * (r * x);
    }
  }
  fold_lanes<3>(acc, v);
  const double sums[kShortSums] = {f.size + v[0], (f.size + v[0]) + (v[0] + v[1]), v[2], v[0] + 0.5 * v[1], 0.5 * v[1]};
  const double price = bound ? at.lam - lam : 0.0;
  const ShortAnswer a{.eta = eta, .lam = at.lam, .price = lam, .bonus = bound ? price * radius : 0.0,
                      .multiplier = radius < 0 ? lam : price, .iterations = at.iterations + 2};
  return finish_short(f, a, ratios, sums, weights, n, out);
}

}  // namespace

template <class T>
bool short_chi_square(LossVector<T> l, double penalty, double radius, T* weights, RiskSolution* out) {
  if (radius >= 0 && !(radius > 1e-30)) return false;
  return solve_chi<T>(l.losses, l.size, penalty, radius, weights, out);
}

template bool short_chi_square(LossVector<float>, double, double, float*, RiskSolution*);
template bool short_chi_square(LossVector<double>, double, double, double*, RiskSolution*);

}  // namespace leeward
