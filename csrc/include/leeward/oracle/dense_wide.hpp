// Dense rows in registers of eight doubles, where the processor has thirty-two of them (AVX-512): w, or the sums, of a short row stay in
// registers, so a pass loads and converts its rows and does little else. Bits are those of the kernels in linear_dense.cpp.
#pragma once

#include <cstdint>

#include "leeward/core/simd.hpp"
#include "leeward/core/views.hpp"
#include "leeward/oracle/prefetch.hpp"

namespace leeward {

struct Rows;

inline constexpr std::int64_t kShort = 16;  // rows below this length have no lanes
inline constexpr std::int64_t kRowsAhead = 2;

// The last entries of a row, which fill no step of 16, are taken as the row's last 8 or 16 entries, of which those already
// seen count 0. So no row is taken entry by entry at its end, and none is read beyond it.
struct Tail {
  std::int64_t whole;  // columns before this one are taken 16 at a time
  std::int64_t width;  // 0, 8 or 16
  std::int64_t first;  // column where the tail begins

  LEEWARD_INLINE explicit Tail(std::int64_t cols)
      : whole(cols / 16 * 16), width((cols - whole + 7) / 8 * 8), first(cols - width) {}
  LEEWARD_INLINE bool fresh(std::int64_t l) const { return first + l >= whole; }
};

// The sum of eight lanes.
LEEWARD_INLINE double fold(const double* lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

// The row that will be read kRowsAhead after the k-th, to be fetched step by step while that one is read.
template <class T, class R>
LEEWARD_INLINE const T* row_ahead(DenseView<T> x, const R& rows, std::int64_t k) {
  return x.row(rows.index[k + kRowsAhead < rows.count ? k + kRowsAhead : rows.count - 1]);
}

// Fetches the 16 entries from x on.
template <class T>
LEEWARD_INLINE void prefetch_step(const T* x) {
  LEEWARD_PREFETCH(x);
  if constexpr (sizeof(T) == 8) LEEWARD_PREFETCH(x + 8);
}

// out[k] = x_{rows[k]} . w + bias. False, and nothing done, where rows are too long or registers too few.
template <class T>
bool wide_dots(DenseView<T> x, const Rows& rows, const double* w, double bias, double* out);

// out[0..cols) += sum_k r[k * stride] x_{rows[k]}; false as above.
template <class T>
bool wide_sums(DenseView<T> x, const Rows& rows, const double* r, std::int64_t stride, double* out);

}  // namespace leeward
