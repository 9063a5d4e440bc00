// Blocks of rows by outputs in registers. A dot product is a sum over eight lanes (entry j in lane j mod 8, the last entries filled up with
// zeros), a weighted sum of rows goes over the rows in order; both whatever block a row or an output falls into.
#include "leeward/oracle/dense_outputs.hpp"

#include <utility>

#include "leeward/core/simd.hpp"
#include "leeward/core/vector8.hpp"
#include "leeward/oracle/linear_matrix.hpp"
#include "leeward/oracle/prefetch.hpp"

namespace leeward {
namespace {


// The last cols mod 8 entries, filled up with zeros.
template <class T>
LEEWARD_INLINE void fill_tail(const T* x, std::int64_t count, double* tail) {
  for (std::int64_t l = 0; l < 8; ++l) tail[l] = l < count ? static_cast<double>(x[l]) : 0.0;
}

constexpr std::int64_t kColumnsAhead = 32;  // rows are too far apart for the hardware to fetch their next columns

// Blocks by the registers of a level: with thirty-two of eight doubles, a load serves twice the products. Bits do not depend on blocks.
struct Narrow {
  static constexpr int rows = 2, dots = 5, sums = 5;
};
struct Wide {
  static constexpr int rows = 4, dots = 5, sums = 10;
};

// a[r][c] += p[r] k for each row.
template <int R, std::size_t N>
LEEWARD_INLINE void multiply_add(const Vector8 (&p)[R], const Vector8& k, Vector8 (&a)[R][N], std::size_t c) {
  for (int r = 0; r < R; ++r) a[r][c] += p[r] * k;
}

// Eight columns of R rows against C outputs.
template <int R, class T, std::size_t... C>
LEEWARD_INLINE void dot_step(const T* const (&x)[R], std::int64_t j, const double* w, std::int64_t apart,
                             Vector8 (&a)[R][sizeof...(C)], std::index_sequence<C...>) {
  Vector8 p[R], k;
  for (int r = 0; r < R; ++r) load8(x[r] + j, p[r]);
  ((load8(w + static_cast<std::int64_t>(C) * apart, k), multiply_add(p, k, a, C)), ...);
}

// With kFetch the rows `ahead` are fetched step by step, for the next block.
template <int R, bool kFetch, class T, std::size_t... C>
LEEWARD_INLINE void dot_block(const T* const (&x)[R], const T* const (&ahead)[R], std::int64_t cols, const double* w, const double* w_tail, double* const (&out)[R],
                              std::int64_t to, std::index_sequence<C...> group) {
  Vector8 a[R][sizeof...(C)] = {};
  const std::int64_t whole = cols / 8 * 8;
  for (std::int64_t j = 0; j < whole; j += 8) {
    if constexpr (kFetch)
      for (int r = 0; r < R; ++r) LEEWARD_PREFETCH(ahead[r] + j);
    dot_step<R>(x, j, w + j, cols, a, group);
  }
  if (whole < cols) {
    alignas(64) double tails[R][8];
    const double* ends[R];
    for (int r = 0; r < R; ++r) {
      fill_tail(x[r] + whole, cols - whole, tails[r]);
      ends[r] = tails[r];
    }
    dot_step<R>(ends, 0, w_tail, 8, a, group);
  }
  for (int r = 0; r < R; ++r) ((out[r][to + static_cast<std::int64_t>(C)] = fold8(a[r][C])), ...);
}

constexpr std::int64_t kTailed = 64;  // outputs whose ends are filled up at a time

template <class Block, class T>
LEEWARD_INLINE void dots_body(DenseView<T> x, Rows rows, const double* w, std::int64_t outputs, const double* biases, double* out) {
  constexpr int R = Block::rows, C = Block::dots;
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
        dot_block<R, true>(row, ahead, cols, w + part * cols, w_tail, to, 0, std::make_index_sequence<C>{});
        c = C;
      }
      for (; c + C <= count; c += C)
        dot_block<R, false>(row, ahead, cols, w + (part + c) * cols, w_tail + 8 * c, to, c, std::make_index_sequence<C>{});
      for (; c < count; ++c)
        dot_block<R, false>(row, ahead, cols, w + (part + c) * cols, w_tail + 8 * c, to, c, std::make_index_sequence<1>{});
      if (biases == nullptr) continue;
      for (int r = 0; r < R && k + r < rows.count; ++r)
        for (c = 0; c < count; ++c) to[r][c] += biases[part + c];
    }
  }
}

template <std::size_t... C>
LEEWARD_INLINE void sum_step(const double* r, const Vector8& p, const Vector8& q, Vector8 (&a)[sizeof...(C)],
                             Vector8 (&b)[sizeof...(C)], std::index_sequence<C...>) {
  ((a[C] += r[C] * p, b[C] += r[C] * q), ...);
}

template <std::size_t... C>
LEEWARD_INLINE void add_to(double* out, std::int64_t apart, std::int64_t count, const Vector8 (&a)[sizeof...(C)],
                           const Vector8 (&b)[sizeof...(C)], std::index_sequence<C...>) {
  const auto add = [count](double* to, const Vector8& low, const Vector8& high) {
    alignas(64) double both[16];
    store8(low, both);
    store8(high, both + 8);
    for (std::int64_t l = 0; l < count; ++l) to[l] += both[l];
  };
  (add(out + static_cast<std::int64_t>(C) * apart, a[C], b[C]), ...);
}

// Sixteen columns from j on (`count` of them are there) of C outputs, over all rows.
template <class T, std::size_t... C>
LEEWARD_INLINE void sum_columns(DenseView<T> x, Rows rows, std::int64_t j, std::int64_t count, const double* r, std::int64_t outputs,
                                double* out, std::index_sequence<C...> group) {
  Vector8 a[sizeof...(C)] = {}, b[sizeof...(C)] = {};
  for (std::int64_t k = 0; k < rows.count; ++k) {
    const T* const row = x.row(rows[k]) + j;
    LEEWARD_PREFETCH(row + kColumnsAhead);
    if constexpr (sizeof(T) == 8) LEEWARD_PREFETCH(row + kColumnsAhead + 8);
    Vector8 p, q;
    if (count == 16) {
      load8(row, p);
      load8(row + 8, q);
    } else {
      alignas(64) double tail[16];
      for (std::int64_t l = 0; l < 16; ++l) tail[l] = l < count ? static_cast<double>(row[l]) : 0.0;
      load8(tail, p);
      load8(tail + 8, q);
    }
    sum_step(r + k * outputs, p, q, a, b, group);
  }
  add_to(out + j, x.cols, count, a, b, group);
}

template <class Block, class T>
LEEWARD_INLINE void sums_body(DenseView<T> x, Rows rows, const double* r, std::int64_t outputs, double* out) {
  constexpr int C = Block::sums, kLess = Narrow::sums;
  for (std::int64_t j = 0; j < x.cols; j += 16) {
    const std::int64_t count = x.cols - j < 16 ? x.cols - j : 16;
    std::int64_t c = 0;
    for (; c + C <= outputs; c += C)
      sum_columns(x, rows, j, count, r + c, outputs, out + c * x.cols, std::make_index_sequence<C>{});
    for (; C > kLess && c + kLess <= outputs; c += kLess)
      sum_columns(x, rows, j, count, r + c, outputs, out + c * x.cols, std::make_index_sequence<kLess>{});
    for (; c < outputs; ++c) sum_columns(x, rows, j, count, r + c, outputs, out + c * x.cols, std::make_index_sequence<1>{});
  }
}

#define LEEWARD_OUTPUTS(Block, T)                                                                                     \
  LEEWARD_CLONES void dots_kernel(Block, DenseView<T> x, Rows rows, const double* w, std::int64_t outputs,               \
                                  const double* biases, double* out) {                                                   \
    dots_body<Block>(x, rows, w, outputs, biases, out);                                                                  \
  }                                                                                                                      \
  LEEWARD_CLONES void sums_kernel(Block, DenseView<T> x, Rows rows, const double* r, std::int64_t outputs, double* out) { \
    sums_body<Block>(x, rows, r, outputs, out);                                                                          \
  }

LEEWARD_OUTPUTS(Narrow, float)
LEEWARD_OUTPUTS(Narrow, double)
LEEWARD_OUTPUTS(Wide, float)
LEEWARD_OUTPUTS(Wide, double)

}  // namespace

template <class T>
void dense_output_dots(DenseView<T> x, Rows rows, const double* w, std::int64_t outputs, const double* biases, double* out) {
  if (wide_registers()) return dots_kernel(Wide{}, x, rows, w, outputs, biases, out);
  dots_kernel(Narrow{}, x, rows, w, outputs, biases, out);
}
template <class T>
void dense_output_sums(DenseView<T> x, Rows rows, const double* r, std::int64_t outputs, double* out) {
  if (wide_registers()) return sums_kernel(Wide{}, x, rows, r, outputs, out);
  sums_kernel(Narrow{}, x, rows, r, outputs, out);
}

template void dense_output_dots(DenseView<float>, Rows, const double*, std::int64_t, const double*, double*);
template void dense_output_dots(DenseView<double>, Rows, const double*, std::int64_t, const double*, double*);
template void dense_output_sums(DenseView<float>, Rows, const double*, std::int64_t, double*);
template void dense_output_sums(DenseView<double>, Rows, const double*, std::int64_t, double*);

}  // namespace leeward
