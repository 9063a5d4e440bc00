// What the kernels for short rows (risk/short.hpp) are made of, for R rows side by side, R = 1 or kSide: their places, sums over
// the places of each row, and the writing of the answers.
//
// Place j of row r stands at j R + r. One row goes through lanes by its places; of rows side by side each has a lane of its own. The
// sums of both follow one tree, that of Lanes::fold: places j mod 16 first, then by halves.
#pragma once

#include <cstdint>

#include "leeward/core/lanes.hpp"
#include "leeward/hd/real_math.hpp"
#include "leeward/risk/short.hpp"

namespace leeward {

template <int R>
inline constexpr int kTogether = R == 1 ? kLanes : R;  // places in one step of a loop
template <int R>
inline constexpr std::int64_t kRoom = R == 1 ? kAlone : kShort;  // the most places of a row

// The quantity of a row at lane k.
template <int R>
LEEWARD_INLINE double of_row(const double* q, int k) {
  return R == 1 ? q[0] : q[k];
}

// K sums over the places of each row: start, add the terms of all places i + k, and fold, which leaves them in row[j][r].
template <int R, int K>
struct ShortSums {
  static constexpr std::int64_t kTerms = kLanes * R;
  alignas(64) double term[K][kTerms];
  alignas(64) double row[K][R];

  LEEWARD_INLINE void start(std::int64_t padded) {
    const std::int64_t used = padded < kTerms ? padded : kTerms;
    for (int j = 0; j < K; ++j)
      for (std::int64_t i = 0; i < used; i += kTogether<R>) {
        LEEWARD_LANES
        for (int k = 0; k < kTogether<R>; ++k) term[j][i + k] = 0.0;
      }
  }
  LEEWARD_INLINE void add(int j, std::int64_t i, int k, double value) { term[j][R == 1 ? k : i % kTerms + k] += value; }
  LEEWARD_INLINE void fold(std::int64_t padded) {
    if constexpr (R == 1) {
      (void)padded;
      halve<8>();
      halve<4>();
      for (int j = 0; j < K; ++j) row[j][0] = (term[j][0] + term[j][2]) + (term[j][1] + term[j][3]);
    } else {
      for (std::int64_t half = (padded < kTerms ? padded : kTerms) / 2; half >= R; half /= 2)
        for (int j = 0; j < K; ++j)
          for (std::int64_t i = 0; i < half; i += R) {
            LEEWARD_LANES
            for (int k = 0; k < R; ++k) term[j][i + k] = term[j][i + k] + term[j][i + k + half];
          }
      for (int j = 0; j < K; ++j) {
        LEEWARD_LANES
        for (int k = 0; k < R; ++k) row[j][k] = term[j][k];
      }
    }
  }

 private:
  template <int Width>
  LEEWARD_INLINE void halve() {
    for (int j = 0; j < K; ++j) {
      LEEWARD_LANES
      for (int k = 0; k < Width; ++k) term[j][k] = term[j][k] + term[j][k + Width];
    }
  }
};

// The frames of the rows (risk/frame.hpp).
template <int R>
struct ShortFrame {
  alignas(64) double x[R * kRoom<R>];
  alignas(64) double held[kRoom<R>];             // base weights of the places: 1 or, in the padding, 0
  std::int64_t padded = 0;                     // R times the padded size
  double size = 0;                             // n
  alignas(64) double top[R], low[R], unit[R];  // max l, least x, 2^k
  alignas(64) double fit[R];                   // 1 where the row can be solved here, else 0

  LEEWARD_INLINE double base(std::int64_t i, int k) const { return R == 1 ? held[i + k] : held[i / R]; }
};

template <int R>
LEEWARD_INLINE bool any(const double* live) {
  double sum = 0.0;
  for (int r = 0; r < R; ++r) sum += live[r];
  return sum > 0.0;
}

template <int R, class T>
LEEWARD_INLINE void read_short(const ShortRows<T>& in, ShortFrame<R>* f) {
  const std::int64_t n = in.size;
  f->size = static_cast<double>(n);
  if constexpr (R == 1) {
    f->padded = (n + kLanes - 1) / kLanes * kLanes;
    const std::int64_t whole = n / kLanes * kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      LEEWARD_LANES
      for (int k = 0; k < kLanes; ++k) {
        f->x[i + k] = static_cast<double>(in.losses[i + k]);
        f->held[i + k] = 1.0;
      }
    }
    if (whole == n) return;
    const int rest = static_cast<int>(n - whole);
    const double first = static_cast<double>(in.losses[0]);
    for (int k = 0; k < kLanes; ++k) {
      f->x[whole + k] = first;
      f->held[whole + k] = k < rest ? 1.0 : 0.0;
    }
    for (int k = 0; k < rest; ++k) f->x[whole + k] = static_cast<double>(in.losses[whole + k]);
  } else {
    std::int64_t places = 1;
    while (places < n && places < kLanes) places *= 2;
    while (places < n) places += kLanes;
    f->padded = places * R;
    for (int r = 0; r < R; ++r) {  // lanes without a row hold the last one again
      const T* const row = in.losses + (r < in.rows ? r : in.rows - 1) * n;
      for (std::int64_t j = 0; j < n; ++j) f->x[j * R + r] = static_cast<double>(row[j]);
      for (std::int64_t j = n; j < places; ++j) f->x[j * R + r] = static_cast<double>(row[0]);
    }
    for (std::int64_t j = 0; j < places; ++j) f->held[j] = j < n ? 1.0 : 0.0;
  }
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

// Fills the frames and the sums of x and x^2. Not fit: an entry that is not finite, equal losses and extreme magnitudes. False where
// no row is fit.
template <int R, class T>
LEEWARD_INLINE bool frame_short(const ShortRows<T>& in, ShortFrame<R>* f, ShortSums<R, 2>* moments) {
  constexpr int kWidth = kTogether<R>;
  read_short<R>(in, f);
  alignas(64) double high[kWidth], low[kWidth], poison[kWidth], inverse[R], shift[R];
  for (int k = 0; k < kWidth; ++k) {
    high[k] = low[k] = f->x[k];
    poison[k] = 0.0;
  }
  for (std::int64_t i = 0; i < f->padded; i += kWidth) {
    LEEWARD_LANES
    for (int k = 0; k < kWidth; ++k) {
      const double x = f->x[i + k];
      high[k] = x > high[k] ? x : high[k];
      low[k] = x < low[k] ? x : low[k];
      poison[k] += x - x;  // 0, or NaN for infinities and NaN
    }
  }
  if constexpr (R == 1) {
    merge_extremes<8>(high, low, poison);
    merge_extremes<4>(high, low, poison);
    merge_extremes<2>(high, low, poison);
    merge_extremes<1>(high, low, poison);
  }
  constexpr double kMost = 0x1p900, kLeast = 0x1p-900;
  LEEWARD_LANES
  for (int r = 0; r < R; ++r) {
    const double range = high[r] - low[r];
    const bool ordinary = (poison[r] == 0.0) & (range > kLeast) & (high[r] < kMost) & (low[r] > -kMost);
    f->fit[r] = ordinary ? 1.0 : 0.0;
    const std::uint64_t exponent = hd::bits_of(ordinary ? range : 1.0) >> 52;  // of range = m 2^k, 1/2 <= m < 1: k + 1022
    inverse[r] = hd::from_bits((std::uint64_t{2045} - exponent) << 52);
    shift[r] = high[r] * inverse[r];
    f->unit[r] = hd::from_bits((exponent + 1) << 52);
    f->top[r] = high[r];
    f->low[r] = low[r] * inverse[r] - shift[r];
  }
  if (!any<R>(f->fit)) return false;
  moments->start(f->padded);
  for (std::int64_t i = 0; i < f->padded; i += kWidth) {
    LEEWARD_LANES
    for (int k = 0; k < kWidth; ++k) {
      const double x = f->x[i + k] * of_row<R>(inverse, k) - of_row<R>(shift, k);
      const double bx = f->base(i, k) * x;
      f->x[i + k] = x;
      moments->add(0, i, k, bx);
      moments->add(1, i, k, bx * x);
    }
  }
  moments->fold(f->padded);
  return true;
}

// The penalties in units of the frames; rows with one outside (least, most) are no longer fit.
template <int R>
LEEWARD_INLINE void penalties_of(ShortFrame<R>* f, double penalty, double least, double most, double* lam) {
  LEEWARD_LANES
  for (int r = 0; r < R; ++r) {
    lam[r] = penalty / f->unit[r];
    f->fit[r] = ((lam[r] > least) & (lam[r] < most)) ? f->fit[r] : 0.0;
  }
}

// Solved rows, in the units of the frames.
template <int R>
struct ShortSolved {
  alignas(64) double eta[R], lam[R];
  alignas(64) double price[R], bonus[R];  // the divergence's price in the primal value; what the dual value has on top
  alignas(64) double multiplier[R];
  alignas(64) double iterations[R];
};

inline constexpr int kShortSums = 5;

// From the ratios r at the places and sum r, sum r^2, sum r x, sum f*, sum f(r). Rows whose weights miss a sum of 1 by more than
// rounding stay undone.
template <int R, class T>
LEEWARD_INLINE void finish_short(const ShortFrame<R>& f, const ShortSolved<R>& a, const double* ratios, const double (*sums)[R],
                                 const ShortRows<T>& in, ShortAnswers* out) {
  alignas(64) double value[R], eta[R], multiplier[R], gap[R], effective[R], norm[R], good[R];
  LEEWARD_LANES
  for (int r = 0; r < R; ++r) {
    const double residual = sums[0][r] / f.size - 1.0, inverse = 1.0 / f.size;
    norm[r] = 1.0 / sums[0][r];
    good[r] = ((residual < 1e-12) & (residual > -1e-12)) ? f.fit[r] : 0.0;
    const double place = a.eta[r] + a.lam[r] * (sums[3][r] * inverse) + a.bonus[r];
    value[r] = f.top[r] + place * f.unit[r];
    eta[r] = f.top[r] + a.eta[r] * f.unit[r];
    multiplier[r] = a.multiplier[r] * f.unit[r];
    gap[r] = (place - (sums[2][r] * norm[r] - a.price[r] * (sums[4][r] * inverse))) * f.unit[r];
    effective[r] = sums[0][r] * sums[0][r] / sums[1][r];
  }
  const std::int64_t n = in.size;
  const int rows = R == 1 ? 1 : static_cast<int>(in.rows);
  for (int r = 0; r < rows; ++r) {
    out->done[r] = good[r] > 0.0;
    if (!out->done[r]) continue;
    const bool whole = in.weights != nullptr;
    out->row[r] = {.value = value[r],
                   .eta = eta[r],
                   .multiplier = multiplier[r],
                   .gap = whole ? gap[r] : hd::real::kNaN,
                   .effective_sample_size = whole ? effective[r] : hd::real::kNaN,
                   .iterations = static_cast<int>(a.iterations[r])};
    if (!whole) continue;
    T* const weights = in.weights + r * n;
    if constexpr (R == 1) {
      std::int64_t i = 0;
      for (; i + kLanes <= n; i += kLanes) {
        LEEWARD_LANES
        for (int k = 0; k < kLanes; ++k) weights[i + k] = static_cast<T>(ratios[i + k] * norm[0]);
      }
      for (; i < n; ++i) weights[i] = static_cast<T>(ratios[i] * norm[0]);
    } else {
      for (std::int64_t j = 0; j < n; ++j) weights[j] = static_cast<T>(ratios[j * R + r] * norm[r]);
    }
  }
}

}  // namespace leeward
