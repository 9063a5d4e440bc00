// Sums over rows r of a function of e = <r, x> - y, at one or two points (y, x) at once: phi(e), phi'(e) and phi'(e) r. The rows are cut
// into vectors of eight numbers, sums stay in registers where those are enough, and blocks of rows go to threads; the bits depend on the
// rows alone. A term is a struct with  void operator()(double e, double& phi, double& slope)  that sets both.
#pragma once

#include <algorithm>
#include <cstdint>

#include "leeward/core/eight.hpp"
#include "leeward/core/lanes.hpp"
#include "leeward/core/resources.hpp"
#include "leeward/core/views.hpp"
#include "leeward/oracle/partial_sums.hpp"

namespace leeward {

inline constexpr std::int64_t kRowBlock = 4096;  // rows of a task, and between two looks at the monitor

template <class T>
LEEWARD_INLINE double dot_of(const T* LEEWARD_RESTRICT row, const double* LEEWARD_RESTRICT x, std::int64_t n) {
  Lanes acc;
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) acc.lane[l] += static_cast<double>(row[j + l]) * x[j + l];
  }
  for (int l = 0; j < n; ++j, ++l) acc.lane[l] += static_cast<double>(row[j]) * x[j];
  return acc.fold();
}

template <class T>
LEEWARD_INLINE void add_row(const T* LEEWARD_RESTRICT row, double by, std::int64_t n, double* LEEWARD_RESTRICT to) {
  LEEWARD_LANES
  for (std::int64_t j = 0; j < n; ++j) to[j] += by * static_cast<double>(row[j]);
}

// A row of at least eight numbers is cut into vectors of eight; the last one ends with the row and overlaps the one before, so its sum
// has a place of its own: sums of rows are 8 vectors_of(cols) numbers, and unfold puts them together.
inline std::int64_t vectors_of(std::int64_t n) { return (n + 7) / 8; }

// out[n] = the sums of n columns times a share.
inline void unfold(const double* sums, std::int64_t n, double share, double* out) {
  const std::int64_t straight = n < 8 ? n : n / 8 * 8;
  for (std::int64_t j = 0; j < straight; ++j) out[j] = sums[j] * share;
  for (std::int64_t j = straight; j < n; ++j) out[j] = sums[straight + j - (n - 8)] * share;
}

// out[size] = the sum over the batch's blocks of what add(rows, part, to) adds to zeros, one thread a block.
template <class T, class Add>
void over_row_blocks(DenseView<T> r, Batch batch, std::int64_t size, double* out, Resources& use, const Add& add) {
  const auto one = [&](std::int64_t first, double* to) {
    const std::int64_t count = std::min(kRowBlock, batch.size - first);
    std::fill(to, to + size, 0.0);
    if (batch.index != nullptr)
      add(r, Batch{batch.index + first, count}, to);
    else
      add(DenseView<T>{r.data + first * r.stride, count, r.cols, r.stride}, Batch{nullptr, count}, to);
    use.glance();
  };
  const std::int64_t blocks = block_count(batch.size, kRowBlock);
  if (blocks <= 1) return one(0, out);
  const Workspace::Scope scope(use.workspace);
  const std::int64_t apart = (size + 7) / 8 * 8;
  double* const partial = use.workspace.take<double>(blocks * apart);
  parallel_blocks(blocks, use.threads, [&](std::int64_t b) { one(b * kRowBlock, partial + b * apart); });
  add_partial_sums(partial, blocks, apart, size, out, use.threads);
}

// A point, and its answers: means of phi(e), phi'(e) and, unless null, phi'(e) r.
struct RowPoint {
  const double* x = nullptr;  // (cols)
  double y = 0;
  double* slopes = nullptr;   // (cols)
  double value = 0, slope = 0;
};

// A point within a block. `last` holds x under the last vector, with zeros where it was counted already.
struct RowPiece {
  const double* x = nullptr;
  double y = 0;
  double last[8] = {};
  double* slopes = nullptr;  // 8 numbers a vector, or null: not wanted
  double value = 0, slope = 0;
};

// Rows of C vectors, points and sums in registers.
template <int W, int C, int Points, class T, class Term>
LEEWARD_INLINE void add_few_terms(DenseView<T> r, Batch part, Term term, RowPiece* points) {
  Eight<W> x[Points][C], all[Points][C];
  double value[Points], slope[Points];
  for (int p = 0; p < Points; ++p) {
    value[p] = points[p].value;
    slope[p] = points[p].slope;
    for (int c = 0; c < C; ++c) load8(points[p].slopes + 8 * c, all[p][c]);
    for (int c = 0; c < C - 1; ++c) load8(points[p].x + 8 * c, x[p][c]);
    if (r.cols == 8 * C)
      load8(points[p].x + 8 * (C - 1), x[p][C - 1]);
    else
      load8(points[p].last, x[p][C - 1]);
  }
  for (std::int64_t k = 0; k < part.size; ++k) {
    const T* const row = r.row(part[k]);
    Eight<W> v[C];
    for (int c = 0; c < C; ++c) load8(row + (c < C - 1 ? 8 * c : r.cols - 8), v[c]);
    for (int p = 0; p < Points; ++p) {
      Eight<W> sum;
      for (int c = 0; c < C; ++c) add_product8(v[c], x[p][c], sum);
      const double e = fold8(sum) - points[p].y;
      double phi, by;
      term(e, phi, by);
      value[p] += phi;
      slope[p] += by;
      for (int c = 0; c < C; ++c) add_scaled8(by, v[c], all[p][c]);
    }
  }
  for (int p = 0; p < Points; ++p) {
    points[p].value = value[p];
    points[p].slope = slope[p];
    for (int c = 0; c < C; ++c) store8(all[p][c], points[p].slopes + 8 * c);
  }
}

template <int W, int Points, class T, class Term>
LEEWARD_INLINE void add_terms(DenseView<T> r, Batch part, Term term, RowPiece* points) {
  const std::int64_t full = r.cols / 8, tail = r.cols - 8;
  if constexpr (W == 8) {  // registers enough
    if (points[0].slopes != nullptr) {
      if (vectors_of(r.cols) == 2) return add_few_terms<W, 2, Points>(r, part, term, points);
      if (vectors_of(r.cols) == 3) return add_few_terms<W, 3, Points>(r, part, term, points);
      if (vectors_of(r.cols) == 4) return add_few_terms<W, 4, Points>(r, part, term, points);
    }
  }
  const bool over = r.cols % 8 != 0;
  Eight<W> last[Points];
  for (int p = 0; p < Points; ++p) load8(points[p].last, last[p]);
  for (std::int64_t k = 0; k < part.size; ++k) {
    const T* const row = r.row(part[k]);
    Eight<W> sum[Points];
    for (std::int64_t c = 0; c < full; ++c) {
      Eight<W> v, x;
      load8(row + 8 * c, v);
      for (int p = 0; p < Points; ++p) {
        load8(points[p].x + 8 * c, x);
        add_product8(v, x, sum[p]);
      }
    }
    Eight<W> end;
    if (over) {
      load8(row + tail, end);
      for (int p = 0; p < Points; ++p) add_product8(end, last[p], sum[p]);
    }
    double by[Points];
    for (int p = 0; p < Points; ++p) {
      const double e = fold8(sum[p]) - points[p].y;
      double phi;
      term(e, phi, by[p]);
      points[p].value += phi;
      points[p].slope += by[p];
    }
    if (points[0].slopes == nullptr) continue;
    for (std::int64_t c = 0; c < full + (over ? 1 : 0); ++c) {
      Eight<W> v = end, all;
      if (c < full) load8(row + 8 * c, v);
      for (int p = 0; p < Points; ++p) {
        load8(points[p].slopes + 8 * c, all);
        add_scaled8(by[p], v, all);
        store8(all, points[p].slopes + 8 * c);
      }
    }
  }
}

// The same for rows shorter than a vector.
template <class T, class Term>
void add_short_terms(DenseView<T> r, Batch part, Term term, RowPiece& p) {
  for (std::int64_t k = 0; k < part.size; ++k) {
    const T* const row = r.row(part[k]);
    double phi, by;
    term(dot_of(row, p.x, r.cols) - p.y, phi, by);
    p.value += phi;
    p.slope += by;
    if (p.slopes != nullptr) add_row(row, by, r.cols, p.slopes);
  }
}

// What is done at each width of the registers.
template <class T, class Term>
struct RowKernels {
  void (*one)(DenseView<T> r, Batch part, Term term, RowPiece* p);
  void (*two)(DenseView<T> r, Batch part, Term term, RowPiece* p);
};

// Means over the batch at one or two points.
template <class T, class Term>
void row_means(DenseView<T> r, Batch batch, Term term, const RowKernels<T, Term>& kernels, RowPoint* points, int count, Resources& use) {
  const Workspace::Scope scope(use.workspace);
  const bool wanted = points[0].slopes != nullptr || (count == 2 && points[1].slopes != nullptr);
  const std::int64_t room = wanted ? 8 * vectors_of(r.cols) : 0, size = room + 8;  // value and slope lie behind the sums
  const std::int64_t done = r.cols / 8 * 8, tail = r.cols - 8;
  RowPiece pieces[2];
  for (int p = 0; p < count; ++p) {
    pieces[p].x = points[p].x;
    pieces[p].y = points[p].y;
    for (std::int64_t j = done; tail >= 0 && j < r.cols; ++j) pieces[p].last[j - tail] = points[p].x[j];
  }
  double* const sums = use.workspace.take<double>(count * size);
  over_row_blocks(r, batch, count * size, sums, use, [&](DenseView<T> rows, Batch part, double* to) {
    RowPiece mine[2] = {pieces[0], pieces[1]};
    for (int p = 0; wanted && p < count; ++p) mine[p].slopes = to + p * size;
    if (tail < 0)
      for (int p = 0; p < count; ++p) add_short_terms(rows, part, term, mine[p]);
    else
      (count == 2 ? kernels.two : kernels.one)(rows, part, term, mine);
    for (int p = 0; p < count; ++p) {
      to[p * size + room] = mine[p].value;
      to[p * size + room + 1] = mine[p].slope;
    }
  });
  const double share = 1.0 / static_cast<double>(batch.size);
  for (int p = 0; p < count; ++p) {
    points[p].value = sums[p * size + room] * share;
    points[p].slope = sums[p * size + room + 1] * share;
    if (points[p].slopes != nullptr) unfold(sums + p * size, r.cols, share, points[p].slopes);
  }
}

template <class T>
void fetch_rows(DenseView<T> r, Batch batch) {
#if defined(__GNUC__)
  constexpr std::int64_t kMost = 256;  // lines that a first-level cache has room for
  const std::int64_t bytes = r.cols * static_cast<std::int64_t>(sizeof(T));
  if (batch.index == nullptr || batch.size * (bytes / 64 + 2) > kMost) return;
  for (std::int64_t k = 0; k < batch.size; ++k) {
    const char* const row = reinterpret_cast<const char*>(r.row(batch.index[k]));
    for (std::int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(row + b);
    __builtin_prefetch(row + bytes - 1);
  }
#else
  (void)r, (void)batch;
#endif
}

// The kernels of a term, and kernels_of(DenseView<T>, Term), which chooses among them; a function's level stands in its name.
#define LEEWARD_ROW_TERM_AT(at, level, W, T, Term)                                                                             \
  at void one_##level(DenseView<T> r, Batch part, Term term, RowPiece* p) { add_terms<W, 1>(r, part, term, p); }              \
  at void two_##level(DenseView<T> r, Batch part, Term term, RowPiece* p) { add_terms<W, 2>(r, part, term, p); }
#define LEEWARD_ROW_TERM_OF(T, Term)                                                                                           \
  LEEWARD_ROW_TERM_AT(, at_baseline, 2, T, Term)                                                                               \
  LEEWARD_ROW_TERM_AT(LEEWARD_AT_AVX2, at_avx2, 4, T, Term)                                                                    \
  LEEWARD_ROW_TERM_AT(LEEWARD_AT_AVX512, at_avx512, 8, T, Term)                                                                \
  RowKernels<T, Term> kernels_of(DenseView<T>, Term) {                                                                         \
    switch (register_width()) {                                                                                                \
      case 8: return {one_at_avx512, two_at_avx512};                                                                           \
      case 4: return {one_at_avx2, two_at_avx2};                                                                               \
      default: return {one_at_baseline, two_at_baseline};                                                                      \
    }                                                                                                                          \
  }
#define LEEWARD_ROW_TERM(Term)      \
  LEEWARD_ROW_TERM_OF(float, Term)  \
  LEEWARD_ROW_TERM_OF(double, Term)

}  // namespace leeward
