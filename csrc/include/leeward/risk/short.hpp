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

// The folds of K sums side by side, in the order of Lanes::fold.
template <int Width, int K>
LEEWARD_INLINE void halve_lanes(double (*acc)[kLanes]) {
  for (int j = 0; j < K; ++j) {
    LEEWARD_LANES
    for (int k = 0; k < Width; ++k) acc[j][k] = acc[j][k] + acc[j][k + Width];
  }
}

template <int K>
LEEWARD_INLINE void fold_lanes(double (*acc)[kLanes], double* sums) {
  halve_lanes<8, K>(acc);
  halve_lanes<4, K>(acc);
  for (int j = 0; j < K; ++j) sums[j] = (acc[j][0] + acc[j][2]) + (acc[j][1] + acc[j][3]);
}

template <int Width>
LEEWARD_INLINE void merge_extremes(double* high, double* low, double* poison) {
  LEEWARD_LANES
  for (int k = 0; k < Width; ++k) {
    high[k] = high[k + Width] > high[k] ? high[k + Width] : high[k];
    low[k] = low[k + Width] < low[k] ? low[k + Width] : low[k];
    poison[k] = poison[k] + poison[k + Width];
  }
}

// Fills the frame and the sums of x and x^2. False for an entry that is not finite, equal losses and extreme magnitudes.
template <class T>
LEEWARD_INLINE bool frame_short(const T* l, std::int64_t n, ShortFrame* f, double* moments) {
  f->padded = (n + kLanes - 1) / kLanes * kLanes;
  const std::int64_t whole = n / kLanes * kLanes;
  double high[kLanes], low[kLanes], poison[kLanes];
  const double first = static_cast<double>(l[0]);
  for (int k = 0; k < kLanes; ++k) {
    high[k] = low[k] = first;
    poison[k] = 0.0;
  }
  if (whole < n) {
    double* x = f->x + whole;
    double* b = f->b + whole;
    const int rest = static_cast<int>(n - whole);
    for (int k = 0; k < kLanes; ++k) {
      x[k] = first;
      b[k] = k < rest ? 1.0 : 0.0;
    }
    for (int k = 0; k < rest; ++k) x[k] = static_cast<double>(l[whole + k]);
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      high[k] = x[k] > high[k] ? x[k] : high[k];
      low[k] = x[k] < low[k] ? x[k] : low[k];
      poison[k] += x[k] - x[k];
    }
  }
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double x = static_cast<double>(l[i + k]);
      f->x[i + k] = x;
      f->b[i + k] = 1.0;
      high[k] = x > high[k] ? x : high[k];
      low[k] = x < low[k] ? x : low[k];
      poison[k] += x - x;  // 0, or NaN for infinities and NaN
    }
  }
  merge_extremes<8>(high, low, poison);
  merge_extremes<4>(high, low, poison);
  merge_extremes<2>(high, low, poison);
  merge_extremes<1>(high, low, poison);
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
      const double bx = f->b[i + k] * x;
      f->x[i + k] = x;
      acc[0][k] += bx;
      acc[1][k] += bx * x;
    }
  }
  fold_lanes<2>(acc, moments);
  return true;
}

// A solved short vector, in the units of the frame.
struct ShortAnswer {
  double eta = 0, lam = 0;
  double price = 0, bonus = 0;  // the divergence's price in the primal value; what the dual value has on top
  double multiplier = 0;
  int iterations = 0;
};

inline constexpr int kShortSums = 5;

// From the ratios r in the order of f.x, and sum r, sum r^2, sum r x, sum f*, sum f(r). False if the weights miss a sum of 1 by
// more than rounding.
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
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) weights[i + k] = static_cast<T>(ratios[i + k] * norm);
  }
  for (; i < n; ++i) weights[i] = static_cast<T>(ratios[i] * norm);
  return true;
}

}  // namespace leeward
