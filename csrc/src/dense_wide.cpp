#include "leeward/oracle/dense_wide.hpp"

#include <algorithm>

#include "leeward/core/vectors.hpp"
#include "leeward/oracle/linear_matrix.hpp"

#if defined(__GNUC__) && (defined(LEEWARD_CLONES_CHOSEN) || defined(__AVX512F__))
#define LEEWARD_WIDE_ROWS 1
#endif

namespace leeward {

#if defined(LEEWARD_WIDE_ROWS)
namespace {

using Vector8 = Vector<8>;

constexpr int kMostVectors = 16;  // of a row's whole steps; as many registers are left for the rest
constexpr int kFolded = 8;        // rows whose lanes are folded together

// lane[l] of out = fold of the lanes of sum[l].
LEEWARD_INLINE void fold_rows(const Vector8 (&sum)[kFolded], Vector8& out) {
#if __has_builtin(__builtin_shufflevector)
  Vector8 a[4], b[2];  // a: rows g and g + 4, four numbers each; b: rows g, g + 2, g + 4 and g + 6, two each
  for (int g = 0; g < 4; ++g)
    a[g] = __builtin_shufflevector(sum[g], sum[g + 4], 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(sum[g], sum[g + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  for (int g = 0; g < 2; ++g)
    b[g] = __builtin_shufflevector(a[g], a[g + 2], 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(a[g], a[g + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  out = __builtin_shufflevector(b[0], b[1], 0, 8, 2, 10, 4, 12, 6, 14) +
        __builtin_shufflevector(b[0], b[1], 1, 9, 3, 11, 5, 13, 7, 15);
#else
  for (int g = 0; g < kFolded; ++g) {
    alignas(64) double lane[8];
    store<8>(sum[g], lane);
    out[g] = fold(lane);
  }
#endif
}

// As dot_lanes of linear_dense.cpp, for a row of C whole vectors and a tail.
template <bool kPicked, int C, class T>
LEEWARD_INLINE void row_lanes(const T* row, const T* ahead, const Tail& tail, const Vector8 (&w)[C], const Vector8 (&w_tail)[2],
                              Vector8& sum) {
  Vector8 low = {}, high = {}, p, q;
#pragma GCC unroll 8
  for (int c = 0; c < C; c += 2) {
    if constexpr (kPicked) prefetch_step(ahead + 8 * c);
    load<8>(row + 8 * c, p);
    load<8>(row + 8 * c + 8, q);
    low += p * w[c];
    high += q * w[c + 1];
  }
  if (tail.width > 0) {
    load<8>(row + tail.first, p);
    low += p * w_tail[0];
  }
  if (tail.width > 8) {
    load<8>(row + tail.first + 8, p);
    high += p * w_tail[1];
  }
  sum = low + high;
}

template <int C, bool kPicked, class T>
LEEWARD_INLINE void dots_of(DenseView<T> x, Rows rows, const double* w, const double* w_tail, double bias, double* out) {
  const Tail tail(x.cols);
  Vector8 point[C], ends[2], sum[kFolded] = {}, dots;
  for (int c = 0; c < C; ++c) load<8>(w + 8 * c, point[c]);
  for (int i = 0; i < 2; ++i) load<8>(w_tail + 8 * i, ends[i]);
  for (std::int64_t k = 0; k < rows.count; k += kFolded) {
    const std::int64_t count = std::min<std::int64_t>(kFolded, rows.count - k);
#pragma GCC unroll 1
    for (std::int64_t g = 0; g < count; ++g) {
      const T* const row = x.row(rows[k + g]);
      row_lanes<kPicked, C>(row, kPicked ? row_ahead(x, rows, k + g) : row, tail, point, ends, sum[g]);
    }
    fold_rows(sum, dots);
    dots += bias;
    if (count == kFolded) {
      store<8>(dots, out + k);
    } else {
      alignas(64) double some[kFolded];
      store<8>(dots, some);
      std::copy(some, some + count, out + k);
    }
  }
}

// rest[16]: what the tail of the rows adds.
template <int C, bool kPicked, class T>
LEEWARD_INLINE void sums_of(DenseView<T> x, Rows rows, const double* r, std::int64_t stride, double* out, double* rest) {
  const Tail tail(x.cols);
  Vector8 sum[C], ends[2] = {}, p;
  for (int c = 0; c < C; ++c) load<8>(out + 8 * c, sum[c]);
  for (std::int64_t k = 0; k < rows.count; ++k) {
    const T* const row = x.row(rows[k]);
    const T* const ahead = kPicked ? row_ahead(x, rows, k) : row;
    const double by = r[k * stride];
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) {
      if constexpr (kPicked)
        if (c % 2 == 0) prefetch_step(ahead + 8 * c);
      load<8>(row + 8 * c, p);
      sum[c] += by * p;
    }
    if (tail.width > 0) {
      load<8>(row + tail.first, p);
      ends[0] += by * p;
    }
    if (tail.width > 8) {
      load<8>(row + tail.first + 8, p);
      ends[1] += by * p;
    }
  }
  for (int c = 0; c < C; ++c) store<8>(sum[c], out + 8 * c);
  for (int i = 0; i < 2; ++i) store<8>(ends[i], rest + 8 * i);
}

template <int C, class T>
LEEWARD_INLINE void dots_with(DenseView<T> x, Rows rows, const double* w, const double* w_tail, double bias, double* out) {
  if (rows.index != nullptr) return dots_of<C, true>(x, rows, w, w_tail, bias, out);
  dots_of<C, false>(x, rows, w, w_tail, bias, out);
}
template <int C, class T>
LEEWARD_INLINE void sums_with(DenseView<T> x, Rows rows, const double* r, std::int64_t stride, double* out, double* rest) {
  if (rows.index != nullptr) return sums_of<C, true>(x, rows, r, stride, out, rest);
  sums_of<C, false>(x, rows, r, stride, out, rest);
}

// A function's level stands in its name, which the check of the library's baseline reads.
#define LEEWARD_WIDE(T)                                                                                                         \
  LEEWARD_AT_AVX512 void dots_at_avx512(DenseView<T> x, Rows rows, const double* w, const double* w_tail, double bias,         \
                                        double* out) {                                                                         \
    switch (x.cols / 16) {                                                                                                     \
      case 1: return dots_with<2>(x, rows, w, w_tail, bias, out);                                                              \
      case 2: return dots_with<4>(x, rows, w, w_tail, bias, out);                                                              \
      case 3: return dots_with<6>(x, rows, w, w_tail, bias, out);                                                              \
      case 4: return dots_with<8>(x, rows, w, w_tail, bias, out);                                                              \
      case 5: return dots_with<10>(x, rows, w, w_tail, bias, out);                                                             \
      case 6: return dots_with<12>(x, rows, w, w_tail, bias, out);                                                             \
      case 7: return dots_with<14>(x, rows, w, w_tail, bias, out);                                                             \
      default: return dots_with<16>(x, rows, w, w_tail, bias, out);                                                            \
    }                                                                                                                          \
  }                                                                                                                            \
  LEEWARD_AT_AVX512 void sums_at_avx512(DenseView<T> x, Rows rows, const double* r, std::int64_t stride, double* out,          \
                                        double* rest) {                                                                        \
    switch (x.cols / 16) {                                                                                                     \
      case 1: return sums_with<2>(x, rows, r, stride, out, rest);                                                              \
      case 2: return sums_with<4>(x, rows, r, stride, out, rest);                                                              \
      case 3: return sums_with<6>(x, rows, r, stride, out, rest);                                                              \
      case 4: return sums_with<8>(x, rows, r, stride, out, rest);                                                              \
      case 5: return sums_with<10>(x, rows, r, stride, out, rest);                                                             \
      case 6: return sums_with<12>(x, rows, r, stride, out, rest);                                                             \
      case 7: return sums_with<14>(x, rows, r, stride, out, rest);                                                             \
      default: return sums_with<16>(x, rows, r, stride, out, rest);                                                            \
    }                                                                                                                          \
  }

LEEWARD_WIDE(float)
LEEWARD_WIDE(double)

bool suits(std::int64_t cols) { return cols >= kShort && cols / 8 <= kMostVectors + 1 && register_width() == 8; }

}  // namespace

template <class T>
bool wide_dots(DenseView<T> x, const Rows& rows, const double* w, double bias, double* out) {
  if (!suits(x.cols)) return false;
  const Tail tail(x.cols);
  double w_tail[16] = {};
  for (int l = 0; l < tail.width; ++l) w_tail[l] = tail.fresh(l) ? w[tail.first + l] : 0.0;
  dots_at_avx512(x, rows, w, w_tail, bias, out);
  return true;
}
template <class T>
bool wide_sums(DenseView<T> x, const Rows& rows, const double* r, std::int64_t stride, double* out) {
  if (!suits(x.cols)) return false;
  const Tail tail(x.cols);
  double rest[16];
  sums_at_avx512(x, rows, r, stride, out, rest);
  for (int l = 0; l < tail.width; ++l)
    if (tail.fresh(l)) out[tail.first + l] += rest[l];
  return true;
}
#else
template <class T>
bool wide_dots(DenseView<T>, const Rows&, const double*, double, double*) {
  return false;
}
template <class T>
bool wide_sums(DenseView<T>, const Rows&, const double*, std::int64_t, double*) {
  return false;
}
#endif

template bool wide_dots(DenseView<float>, const Rows&, const double*, double, double*);
template bool wide_dots(DenseView<double>, const Rows&, const double*, double, double*);
template bool wide_sums(DenseView<float>, const Rows&, const double*, std::int64_t, double*);
template bool wide_sums(DenseView<double>, const Rows&, const double*, std::int64_t, double*);

}  // namespace leeward
