// Vectors of at most kShort losses under uniform base weights, solved whole in one kernel: the losses become places on the stack,
// padded to full lanes, and what a search needs of each (an exponential, say) is computed once. Rows of a matrix are such vectors,
// and there a call of the general passes costs more than the work in it.
//
// Each kernel returns false, with nothing written, where the vector or the parameters lie outside the ordinary range in which its
// closed forms keep their digits (and for losses that are not finite, or all equal); the general solver takes over.
#pragma once

#include <cstdint>

#include "leeward/core/lanes.hpp"
#include "leeward/hd/divergence.hpp"
#include "leeward/risk/risk.hpp"

namespace leeward {

inline constexpr std::int64_t kShort = 128;

template <class T>
bool short_chi_square(LossVector<T> l, double penalty, double radius, T* weights, RiskSolution* out);
template <class T>
bool short_kl_cvar(LossVector<T> l, const hd::CappedKLDivergence& divergence, double penalty, T* weights, RiskSolution* out);
template <class T>
bool short_smoothed_cvar(LossVector<T> l, const hd::SmoothedCVaRDivergence& divergence, double penalty, T* weights,
                         RiskSolution* out);

// The frame of a short vector (risk/frame.hpp): places x and their base weights b, 1 or, in the padding, 0.
struct ShortFrame {
  alignas(64) double x[kShort];
  alignas(64) double b[kShort];
  std::int64_t padded = 0;
  double size = 0, top = 0, low = 0, unit = 1;  // n, max l, least x, 2^k

  double value(double at) const { return top + at * unit; }
};

// The folds of K sums side by side.
template <int K>
LEEWARD_INLINE void fold_lanes(double (*acc)[kLanes], double* sums) {
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int j = 0; j < K; ++j)
      for (int k = 0; k < width; ++k) acc[j][k] = acc[j][k] + acc[j][k + width];
  for (int j = 0; j < K; ++j) sums[j] = acc[j][0];
}

// Fills the frame and the sums of x and x^2. False for an entry that is not finite, equal losses and extreme magnitudes.
template <class T>
LEEWARD_INLINE bool frame_short(const T* l, std::int64_t n, ShortFrame* f, double* moments) {
  f->padded = (n + kLanes - 1) / kLanes * kLanes;
  for (std::int64_t i = 0; i < n; ++i) f->x[i] = static_cast<double>(l[i]);
  for (std::int64_t i = 0; i < n; ++i) f->b[i] = 1.0;
  for (std::int64_t i = n; i < f->padded; ++i) {
    f->x[i] = f->x[0];
    f->b[i] = 0.0;
  }
  double high[kLanes], low[kLanes], poison[kLanes];
  for (int k = 0; k < kLanes; ++k) {
    high[k] = low[k] = f->x[k];
    poison[k] = 0.0;
  }
  for (std::int64_t i = 0; i < f->padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double x = f->x[i + k];
      high[k] = x > high[k] ? x : high[k];
      low[k] = x < low[k] ? x : low[k];
      poison[k] += x - x;  // 0, or NaN for infinities and NaN
    }
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int k = 0; k < width; ++k) {
      high[k] = high[k + width] > high[k] ? high[k + width] : high[k];
      low[k] = low[k + width] < low[k] ? low[k + width] : low[k];
      poison[k] = poison[k] + poison[k + width];
    }
  }
  constexpr double kMost = 0x1p900, kLeast = 0x1p-900;
  const double range = high[0] - low[0];
  if (!(poison[0] == 0.0 && range > kLeast && high[0] < kMost && low[0] > -kMost)) return false;
  const std::uint64_t exponent = hd::bits_of(range) >> 52;  // of range = m 2^k, 1/2 <= m < 1: k + 1022
  const double inverse = hd::from_bits((std::uint64_t{2045} - exponent) << 52);
  const double shift = high[0] * inverse;
  f->unit = hd::from_bits((exponent + 1) << 52);
  f->top = high[0];
  f->low = low[0] * inverse - shift;
  f->size = static_cast<double>(n);
  double acc[2][kLanes] = {};
  for (std::int64_t i = 0; i < f->padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double x = f->x[i + k] * inverse - shift;
      const double first = f->b[i + k] * x;
      f->x[i + k] = x;
      acc[0][k] += first;
      acc[1][k] += first * x;
    }
  }
  fold_lanes<2>(acc, moments);
  return true;
}

// A solved short vector: ratios in f.x's order, and sum r, sum r^2, sum r x, sum f*, sum f(r).
struct ShortAnswer {
  double eta = 0, lam = 0;
  double price = 0, bonus = 0;  // the divergence's price in the primal value; what the dual value has on top
  double multiplier = 0;
  int iterations = 0;
};

inline constexpr int kShortSums = 5;

// False if the weights miss a sum of 1 by more than rounding.
template <class T>
LEEWARD_INLINE bool finish_short(const ShortFrame& f, const ShortAnswer& a, const double* ratios, const double* sums, T* weights,
                                 std::int64_t n, RiskSolution* out) {
  const double residual = sums[0] / f.size - 1.0;
  if (!(residual < 1e-12 && residual > -1e-12)) return false;
  const double inverse = 1.0 / f.size, norm = 1.0 / sums[0];
  const double value = a.eta + a.lam * (sums[3] * inverse) + a.bonus;
  out->value = f.value(value);
  out->eta = f.value(a.eta);
  out->multiplier = a.multiplier * f.unit;
  out->iterations = a.iterations;
  if (weights == nullptr) {
    out->gap = out->effective_sample_size = hd::real::kNaN;
    return true;
  }
  out->gap = (value - (sums[2] * norm - a.price * (sums[4] * inverse))) * f.unit;
  out->effective_sample_size = sums[0] * sums[0] / sums[1];
  for (std::int64_t i = 0; i < n; ++i) weights[i] = static_cast<T>(ratios[i] * norm);
  return true;
}

}  // namespace leeward
