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

constexpr int kWide = 5;                 // outputs of a group
constexpr std::int64_t kRowsAhead = 2;   // rows picked by number are fetched so far ahead
constexpr std::int64_t kStepBytes = 64;

template <class T>
LEEWARD_INLINE void fetch_row(DenseView<T> x, Rows rows, std::int64_t k) {
  if (rows.index == nullptr || k >= rows.count) return;
  const char* const from = reinterpret_cast<const char*>(x.row(rows.index[k]));
  for (std::int64_t b = 0; b < x.cols * static_cast<std::int64_t>(sizeof(T)); b += kStepBytes) LEEWARD_PREFETCH(from + b);
}

// The last cols mod 8 entries, filled up with zeros.
template <class T>
LEEWARD_INLINE void fill_tail(const T* x, std::int64_t count, double* tail) {
  for (std::int64_t l = 0; l < 8; ++l) tail[l] = l < count ? static_cast<double>(x[l]) : 0.0;
}

template <class T, std::size_t... C>
LEEWARD_INLINE void dot_step(const T* x, const T* y, const double* w, std::int64_t apart, Vector8 (&a)[sizeof...(C)],
                             Vector8 (&b)[sizeof...(C)], std::index_sequence<C...>) {
  Vector8 p, q, k;
  load8(x, p);
  load8(y, q);
  ((load8(w + static_cast<std::int64_t>(C) * apart, k), a[C] += p * k, b[C] += q * k), ...);
}

// Two rows against kWide (or fewer) outputs.
template <class T, std::size_t... C>
LEEWARD_INLINE void dot_pair(const T* x, const T* y, std::int64_t cols, const double* w, const double* w_tail, double* out_x,
                             double* out_y, std::index_sequence<C...> group) {
  Vector8 a[sizeof...(C)] = {}, b[sizeof...(C)] = {};
  const std::int64_t whole = cols / 8 * 8;
  for (std::int64_t j = 0; j < whole; j += 8) dot_step(x + j, y + j, w + j, cols, a, b, group);
  if (whole < cols) {
    alignas(64) double x_tail[8], y_tail[8];
    fill_tail(x + whole, cols - whole, x_tail);
    fill_tail(y + whole, cols - whole, y_tail);
    dot_step(x_tail, y_tail, w_tail, 8, a, b, group);
  }
  ((out_x[C] = fold8(a[C]), out_y[C] = fold8(b[C])), ...);
}

constexpr std::int64_t kTailed = 64;  // outputs whose ends are filled up at a time

template <class T>
LEEWARD_INLINE void dots_body(DenseView<T> x, Rows rows, const double* w, std::int64_t outputs, const double* biases, double* out) {
  const std::int64_t cols = x.cols, whole = cols / 8 * 8;
  alignas(64) double w_tail[kTailed * 8];
  for (std::int64_t part = 0; part < outputs; part += kTailed) {
    const std::int64_t count = outputs - part < kTailed ? outputs - part : kTailed;
    for (std::int64_t c = 0; c < count; ++c) fill_tail(w + (part + c) * cols + whole, cols - whole, w_tail + 8 * c);
    for (std::int64_t k = 0; k < rows.count; k += 2) {
      fetch_row(x, rows, k + kRowsAhead);
      fetch_row(x, rows, k + kRowsAhead + 1);
      const bool pair = k + 1 < rows.count;
      const T* const first = x.row(rows[k]);
      const T* const second = pair ? x.row(rows[k + 1]) : first;
      double spare[kTailed];
      double* const to = out + k * outputs + part;
      double* const next = pair ? to + outputs : spare;
      std::int64_t c = 0;
      for (; c + kWide <= count; c += kWide)
        dot_pair(first, second, cols, w + (part + c) * cols, w_tail + 8 * c, to + c, next + c, std::make_index_sequence<kWide>{});
      for (; c < count; ++c)
        dot_pair(first, second, cols, w + (part + c) * cols, w_tail + 8 * c, to + c, next + c, std::make_index_sequence<1>{});
      if (biases == nullptr) continue;
      for (c = 0; c < count; ++c) to[c] += biases[part + c];
      if (pair)
        for (c = 0; c < count; ++c) next[c] += biases[part + c];
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

// Sixteen columns from j on (`count` of them are there) of kWide or fewer outputs, over all rows.
template <class T, std::size_t... C>
LEEWARD_INLINE void sum_columns(DenseView<T> x, Rows rows, std::int64_t j, std::int64_t count, const double* r, std::int64_t outputs,
                                double* out, std::index_sequence<C...> group) {
  Vector8 a[sizeof...(C)] = {}, b[sizeof...(C)] = {};
  for (std::int64_t k = 0; k < rows.count; ++k) {
    const T* const row = x.row(rows[k]) + j;
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

template <class T>
LEEWARD_INLINE void sums_body(DenseView<T> x, Rows rows, const double* r, std::int64_t outputs, double* out) {
  for (std::int64_t j = 0; j < x.cols; j += 16) {
    const std::int64_t count = x.cols - j < 16 ? x.cols - j : 16;
    std::int64_t c = 0;
    for (; c + kWide <= outputs; c += kWide)
      sum_columns(x, rows, j, count, r + c, outputs, out + c * x.cols, std::make_index_sequence<kWide>{});
    for (; c < outputs; ++c) sum_columns(x, rows, j, count, r + c, outputs, out + c * x.cols, std::make_index_sequence<1>{});
  }
}

#define LEEWARD_OUTPUTS(T)                                                                                              \
  LEEWARD_CLONES void dots_kernel(DenseView<T> x, Rows rows, const double* w, std::int64_t outputs, const double* biases, \
                                  double* out) {                                                                          \
    dots_body(x, rows, w, outputs, biases, out);                                                                          \
  }                                                                                                                       \
  LEEWARD_CLONES void sums_kernel(DenseView<T> x, Rows rows, const double* r, std::int64_t outputs, double* out) {        \
    sums_body(x, rows, r, outputs, out);                                                                                  \
  }

LEEWARD_OUTPUTS(float)
LEEWARD_OUTPUTS(double)

}  // namespace

template <class T>
void dense_output_dots(DenseView<T> x, Rows rows, const double* w, std::int64_t outputs, const double* biases, double* out) {
  dots_kernel(x, rows, w, outputs, biases, out);
}
template <class T>
void dense_output_sums(DenseView<T> x, Rows rows, const double* r, std::int64_t outputs, double* out) {
  sums_kernel(x, rows, r, outputs, out);
}

template void dense_output_dots(DenseView<float>, Rows, const double*, std::int64_t, const double*, double*);
template void dense_output_dots(DenseView<double>, Rows, const double*, std::int64_t, const double*, double*);
template void dense_output_sums(DenseView<float>, Rows, const double*, std::int64_t, double*);
template void dense_output_sums(DenseView<double>, Rows, const double*, std::int64_t, double*);

}  // namespace leeward
