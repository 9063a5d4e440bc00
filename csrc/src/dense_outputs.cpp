// Blocks of rows by outputs in registers. A dot product is a sum over eight lanes (entry j in lane j mod 8, the last entries filled up with
// zeros), a weighted sum of rows goes over the rows in order; both whatever block a row or an output falls into.
#include "leeward/oracle/dense_outputs.hpp"

#include <utility>

#include "leeward/core/simd.hpp"
#include "leeward/core/vectors.hpp"
#include "leeward/oracle/linear_matrix.hpp"
#include "leeward/oracle/prefetch.hpp"

namespace leeward {
namespace {

// Blocks by the registers of a level: sixteen of `width` doubles, thirty-two at AVX-512, where a load serves twice the products.
struct Baseline {
  static constexpr int width = 2, rows = 2, sums = 5;
};
struct Avx2 {
  static constexpr int width = 4, rows = 2, sums = 5;
};
struct Avx512 {
  static constexpr int width = 8, rows = 4, sums = 10;
};

constexpr int kLanes8 = 8;                  // lanes of a dot product; a narrower register takes some of them at a time
constexpr int kFew = 5;                     // outputs of a group
constexpr std::int64_t kColumnsAhead = 32;  // rows are too far apart for the hardware to fetch their next columns

// ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)), as oracle/linear_dense folds.
LEEWARD_INLINE double fold8(const double* lane) {
  Vector<2> p, q, r, s;
  load<2>(lane, p);
  load<2>(lane + 2, q);
  load<2>(lane + 4, r);
  load<2>(lane + 6, s);
  p += r;
  q += s;
  p += q;
  double both[2];
  store<2>(p, both);
  return both[0] + both[1];
}

// The last cols mod 8 entries, filled up with zeros.
template <class T>
LEEWARD_INLINE void fill_tail(const T* x, std::int64_t count, double* tail) {
  for (std::int64_t l = 0; l < 8; ++l) tail[l] = l < count ? static_cast<double>(x[l]) : 0.0;
}

// a[r][c] += p[r] k for each row.
template <class V, int R, std::size_t N>
LEEWARD_INLINE void multiply_add(const V (&p)[R], const V& k, V (&a)[R][N], std::size_t c) {
  for (int r = 0; r < R; ++r) a[r][c] += p[r] * k;
}

// W columns from j on of R rows against C outputs, whose weights stand `apart`.
template <int W, int R, class T, std::size_t... C>
LEEWARD_INLINE void dot_step(const T* const (&x)[R], std::int64_t j, const double* w, std::int64_t apart,
                             Vector<W> (&a)[R][sizeof...(C)], std::index_sequence<C...>) {
  Vector<W> p[R], k;
  for (int r = 0; r < R; ++r) load<W>(x[r] + j, p[r]);
  ((load<W>(w + static_cast<std::int64_t>(C) * apart, k), multiply_add(p, k, a, C)), ...);
}

// The dot products of R rows with C outputs. With kFetch the rows `ahead` are fetched step by step, for the next block.
template <int W, int R, bool kFetch, class T, std::size_t... C>
LEEWARD_INLINE void dot_block(const T* const (&x)[R], const T* const (&ahead)[R], std::int64_t cols, const double* w,
                              const double* w_tail, double* const (&out)[R], std::int64_t to, std::index_sequence<C...> group) {
  const std::int64_t whole = cols / 8 * 8;
  alignas(64) double lanes[R][sizeof...(C)][kLanes8], tails[R][8];
  const double* ends[R];
  for (int r = 0; r < R; ++r) {
    if (whole < cols) fill_tail(x[r] + whole, cols - whole, tails[r]);
    ends[r] = tails[r];
  }
  for (int first = 0; first < kLanes8; first += W) {
    Vector<W> a[R][sizeof...(C)] = {};
    for (std::int64_t j = 0; j < whole; j += 8) {
      if (kFetch && first == 0)
        for (int r = 0; r < R; ++r) LEEWARD_PREFETCH_L2(ahead[r] + j);
      dot_step<W, R>(x, j + first, w + j + first, cols, a, group);
    }
    if (whole < cols) dot_step<W, R>(ends, first, w_tail + first, 8, a, group);
    for (int r = 0; r < R; ++r) (store<W>(a[r][C], lanes[r][C] + first), ...);
  }
  for (int r = 0; r < R; ++r) ((out[r][to + static_cast<std::int64_t>(C)] = fold8(lanes[r][C])), ...);
}

// Calls f with the number of outputs left over by groups of kFew, 1 to 4, as a sequence.
template <class F>
LEEWARD_INLINE void with_rest(std::int64_t rest, const F& f) {
  if (rest == 1) f(std::make_index_sequence<1>{});
  if (rest == 2) f(std::make_index_sequence<2>{});
  if (rest == 3) f(std::make_index_sequence<3>{});
  if (rest == 4) f(std::make_index_sequence<4>{});
}

constexpr std::int64_t kTailed = 64;  // outputs whose ends are filled up at a time

template <class Level, class T>
LEEWARD_INLINE void dots_body(DenseView<T> x, Rows rows, const double* w, std::int64_t outputs, const double* biases, double* out) {
  constexpr int W = Level::width, R = Level::rows, C = kFew;
  const std::int64_t cols = x.cols, whole = cols / 8 * 8;
  alignas(64) double w_tail[kTailed * 8];
  for (std::int64_t part = 0; part < outputs; part += kTailed) {
    const std::int64_t count = outputs - part < kTailed ? outputs - part : kTailed;
    for (std::int64_t c = 0; c < count; ++c) fill_tail(w + (part + c) * cols + whole, cols - whole, w_tail + 8 * c);
    for (std::int64_t k = 0; k < rows.count; k += R) {
      double spare[kTailed];
      const T *row[R], *ahead[R];
      double* to[R];
      for (int r = 0; r < R; ++r) {
        const bool there = k + r < rows.count;
        row[r] = there ? x.row(rows[k + r]) : row[0];
        ahead[r] = x.row(rows[k + R + r < rows.count ? k + R + r : rows.count - 1]);
        to[r] = there ? out + (k + r) * outputs + part : spare;
      }
      std::int64_t c = 0;
      if (C <= count) {
        dot_block<W, R, true>(row, ahead, cols, w + part * cols, w_tail, to, 0, std::make_index_sequence<C>{});
        c = C;
      }
      for (; c + C <= count; c += C)
        dot_block<W, R, false>(row, ahead, cols, w + (part + c) * cols, w_tail + 8 * c, to, c, std::make_index_sequence<C>{});
      with_rest(count - c, [&](auto group) {
        if (c == 0) return dot_block<W, R, true>(row, ahead, cols, w + part * cols, w_tail, to, 0, group);
        dot_block<W, R, false>(row, ahead, cols, w + (part + c) * cols, w_tail + 8 * c, to, c, group);
      });
      if (biases == nullptr) continue;
      for (int r = 0; r < R && k + r < rows.count; ++r)
        for (c = 0; c < count; ++c) to[r][c] += biases[part + c];
    }
  }
}

template <class V, std::size_t... C>
LEEWARD_INLINE void sum_step(const double* r, const V& p, const V& q, V (&a)[sizeof...(C)], V (&b)[sizeof...(C)],
                             std::index_sequence<C...>) {
  ((a[C] += r[C] * p, b[C] += r[C] * q), ...);
}

template <int W>
LEEWARD_INLINE void add_to(double* out, std::int64_t count, const Vector<W>& low, const Vector<W>& high) {
  alignas(64) double both[2 * W];
  store<W>(low, both);
  store<W>(high, both + W);
  for (std::int64_t l = 0; l < count; ++l) out[l] += both[l];
}

// 2 W columns from j on (`count` of them are there) of C outputs, over all rows.
template <int W, class T, std::size_t... C>
LEEWARD_INLINE void sum_columns(DenseView<T> x, Rows rows, std::int64_t j, std::int64_t count, const double* r, std::int64_t outputs,
                                double* out, std::index_sequence<C...> group) {
  Vector<W> a[sizeof...(C)] = {}, b[sizeof...(C)] = {};
  for (std::int64_t k = 0; k < rows.count; ++k) {
    const T* const row = x.row(rows[k]) + j;
    LEEWARD_PREFETCH(row + kColumnsAhead);
    if constexpr (sizeof(T) == 8 && W == 8) LEEWARD_PREFETCH(row + kColumnsAhead + 8);
    Vector<W> p, q;
    if (count == 2 * W) {
      load<W>(row, p);
      load<W>(row + W, q);
    } else {
      alignas(64) double tail[2 * W];
      for (std::int64_t l = 0; l < 2 * W; ++l) tail[l] = l < count ? static_cast<double>(row[l]) : 0.0;
      load<W>(tail, p);
      load<W>(tail + W, q);
    }
    sum_step(r + k * outputs, p, q, a, b, group);
  }
  (add_to<W>(out + j + static_cast<std::int64_t>(C) * x.cols, count, a[C], b[C]), ...);
}

template <class Level, class T>
LEEWARD_INLINE void sums_body(DenseView<T> x, Rows rows, const double* r, std::int64_t outputs, double* out) {
  constexpr int W = Level::width, C = Level::sums;
  for (std::int64_t j = 0; j < x.cols; j += 2 * W) {
    const std::int64_t count = x.cols - j < 2 * W ? x.cols - j : 2 * W;
    std::int64_t c = 0;
    for (; c + C <= outputs; c += C)
      sum_columns<W>(x, rows, j, count, r + c, outputs, out + c * x.cols, std::make_index_sequence<C>{});
    if constexpr (C > kFew)
      for (; c + kFew <= outputs; c += kFew)
        sum_columns<W>(x, rows, j, count, r + c, outputs, out + c * x.cols, std::make_index_sequence<kFew>{});
    with_rest(outputs - c, [&](auto group) { sum_columns<W>(x, rows, j, count, r + c, outputs, out + c * x.cols, group); });
  }
}

// A function's level stands in its name, which the check of the library's baseline reads.
#define LEEWARD_OUTPUTS(at, level, Level, T)                                                                                       \
  at void dots_##level(DenseView<T> x, Rows rows, const double* w, std::int64_t outputs, const double* biases, double* out) { \
    dots_body<Level>(x, rows, w, outputs, biases, out);                                                                       \
  }                                                                                                                           \
  at void sums_##level(DenseView<T> x, Rows rows, const double* r, std::int64_t outputs, double* out) {                       \
    sums_body<Level>(x, rows, r, outputs, out);                                                                               \
  }

LEEWARD_OUTPUTS(, at_baseline, Baseline, float)
LEEWARD_OUTPUTS(, at_baseline, Baseline, double)
LEEWARD_OUTPUTS(LEEWARD_AT_AVX2, at_avx2, Avx2, float)
LEEWARD_OUTPUTS(LEEWARD_AT_AVX2, at_avx2, Avx2, double)
LEEWARD_OUTPUTS(LEEWARD_AT_AVX512, at_avx512, Avx512, float)
LEEWARD_OUTPUTS(LEEWARD_AT_AVX512, at_avx512, Avx512, double)

}  // namespace

template <class T>
void dense_output_dots(DenseView<T> x, Rows rows, const double* w, std::int64_t outputs, const double* biases, double* out) {
  switch (register_width()) {
    case 8: return dots_at_avx512(x, rows, w, outputs, biases, out);
    case 4: return dots_at_avx2(x, rows, w, outputs, biases, out);
    default: return dots_at_baseline(x, rows, w, outputs, biases, out);
  }
}
template <class T>
void dense_output_sums(DenseView<T> x, Rows rows, const double* r, std::int64_t outputs, double* out) {
  switch (register_width()) {
    case 8: return sums_at_avx512(x, rows, r, outputs, out);
    case 4: return sums_at_avx2(x, rows, r, outputs, out);
    default: return sums_at_baseline(x, rows, r, outputs, out);
  }
}

template void dense_output_dots(DenseView<float>, Rows, const double*, std::int64_t, const double*, double*);
template void dense_output_dots(DenseView<double>, Rows, const double*, std::int64_t, const double*, double*);
template void dense_output_sums(DenseView<float>, Rows, const double*, std::int64_t, double*);
template void dense_output_sums(DenseView<double>, Rows, const double*, std::int64_t, double*);

}  // namespace leeward
