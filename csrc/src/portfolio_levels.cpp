#include "leeward/oracle/portfolio_levels.hpp"

#include <algorithm>
#include <cmath>

#include "leeward/core/eight.hpp"
#include "leeward/core/lanes.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kPoll = 4096;  // rows between two looks at the monitor

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

// to += sum of the rows, of at least eight numbers each, cut into vectors of eight; the last one ends with the row and overlaps the one
// before, so its sum has a place of its own: to[0 .. 8 vectors_of(cols)).
std::int64_t vectors_of(std::int64_t n) { return (n + 7) / 8; }

template <int W, int C, class T>
LEEWARD_INLINE void add_few(DenseView<T> r, Batch part, double* to) {  // rows of C vectors, their sums in registers
  Eight<W> all[C], v;
  for (int c = 0; c < C; ++c) load8(to + 8 * c, all[c]);
  for (std::int64_t k = 0; k < part.size; ++k) {
    const T* const row = r.row(part[k]);
    for (int c = 0; c < C; ++c) {
      load8(row + (c < C - 1 ? 8 * c : r.cols - 8), v);
      add8(v, all[c]);
    }
  }
  for (int c = 0; c < C; ++c) store8(all[c], to + 8 * c);
}

template <int W, class T>
LEEWARD_INLINE void add_rows(DenseView<T> r, Batch part, double* to) {
  const std::int64_t vectors = vectors_of(r.cols);
  if constexpr (W == 8) {  // registers enough
    if (vectors == 2) return add_few<W, 2>(r, part, to);
    if (vectors == 3) return add_few<W, 3>(r, part, to);
    if (vectors == 4) return add_few<W, 4>(r, part, to);
  }
  for (std::int64_t k = 0; k < part.size; ++k) {
    const T* const row = r.row(part[k]);
    for (std::int64_t c = 0; c < vectors; ++c) {
      Eight<W> v, all;
      load8(row + (8 * c + 8 <= r.cols ? 8 * c : r.cols - 8), v);
      load8(to + 8 * c, all);
      add8(v, all);
      store8(all, to + 8 * c);
    }
  }
}

// Sums over rows at one or two points (y, x): e^2, e and 2 e r, with e = <r, x> - y. Rows are cut in the same way; `last` holds x under
// the last vector, with zeros where it was counted already.
struct DeviationPoint {
  const double* u = nullptr;
  double last[8] = {};
  double* slopes = nullptr;  // 8 numbers a vector, or null: not wanted
  double square = 0, slope = 0;
};

// Rows of C vectors, points and sums in registers.
template <int W, int C, int Points, class T>
LEEWARD_INLINE void add_few_deviations(DenseView<T> r, Batch part, DeviationPoint* points) {
  Eight<W> x[Points][C], all[Points][C];
  double square[Points], slope[Points];
  for (int p = 0; p < Points; ++p) {
    square[p] = points[p].square;
    slope[p] = points[p].slope;
    for (int c = 0; c < C; ++c) load8(points[p].slopes + 8 * c, all[p][c]);
    for (int c = 0; c < C - 1; ++c) load8(points[p].u + 1 + 8 * c, x[p][c]);
    if (r.cols == 8 * C)
      load8(points[p].u + 1 + 8 * (C - 1), x[p][C - 1]);
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
      const double e = fold8(sum) - points[p].u[0];
      square[p] += e * e;
      slope[p] += e;
      for (int c = 0; c < C; ++c) add_scaled8(2.0 * e, v[c], all[p][c]);
    }
  }
  for (int p = 0; p < Points; ++p) {
    points[p].square = square[p];
    points[p].slope = slope[p];
    for (int c = 0; c < C; ++c) store8(all[p][c], points[p].slopes + 8 * c);
  }
}

template <int W, int Points, class T>
LEEWARD_INLINE void add_deviations(DenseView<T> r, Batch part, DeviationPoint* points) {
  const std::int64_t full = r.cols / 8, tail = r.cols - 8;
  if constexpr (W == 8) {  // registers enough
    if (points[0].slopes != nullptr) {
      if (vectors_of(r.cols) == 2) return add_few_deviations<W, 2, Points>(r, part, points);
      if (vectors_of(r.cols) == 3) return add_few_deviations<W, 3, Points>(r, part, points);
      if (vectors_of(r.cols) == 4) return add_few_deviations<W, 4, Points>(r, part, points);
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
        load8(points[p].u + 1 + 8 * c, x);
        add_product8(v, x, sum[p]);
      }
    }
    Eight<W> end;
    if (over) {
      load8(row + tail, end);
      for (int p = 0; p < Points; ++p) add_product8(end, last[p], sum[p]);
    }
    double twice[Points];
    for (int p = 0; p < Points; ++p) {
      const double e = fold8(sum[p]) - points[p].u[0];
      points[p].square += e * e;
      points[p].slope += e;
      twice[p] = 2.0 * e;
    }
    if (points[0].slopes == nullptr) continue;
    for (std::int64_t c = 0; c < full + (over ? 1 : 0); ++c) {
      Eight<W> v = end, all;
      if (c < full) load8(row + 8 * c, v);
      for (int p = 0; p < Points; ++p) {
        load8(points[p].slopes + 8 * c, all);
        add_scaled8(twice[p], v, all);
        store8(all, points[p].slopes + 8 * c);
      }
    }
  }
}

template <int W>
LEEWARD_INLINE double dot_vectors(const double* a, const double* x, std::int64_t n) {
  Eight<W> sum;
  std::int64_t j = 0;
  for (; j + 8 <= n; j += 8) {
    Eight<W> v, w;
    load8(a + j, v);
    load8(x + j, w);
    add_product8(v, w, sum);
  }
  double rest = 0.0;
  for (; j < n; ++j) rest += a[j] * x[j];
  return fold8(sum) + rest;
}

// What the levels do at each width of the registers; a function's level stands in its name.
template <class T>
struct Kernels {
  double (*dot)(const double* a, const double* x, std::int64_t n);
  void (*rows)(DenseView<T> r, Batch part, double* to);
  void (*one)(DenseView<T> r, Batch part, DeviationPoint* p);
  void (*two)(DenseView<T> r, Batch part, DeviationPoint* p);
};

#define LEEWARD_PORTFOLIO_DOT(at, level, W) \
  at double dot_##level(const double* a, const double* x, std::int64_t n) { return dot_vectors<W>(a, x, n); }
#define LEEWARD_PORTFOLIO(at, level, W, T)                                                                                   \
  at void rows_##level(DenseView<T> r, Batch part, double* to) { add_rows<W>(r, part, to); }                                 \
  at void one_##level(DenseView<T> r, Batch part, DeviationPoint* p) { add_deviations<W, 1>(r, part, p); }                   \
  at void two_##level(DenseView<T> r, Batch part, DeviationPoint* p) { add_deviations<W, 2>(r, part, p); }

LEEWARD_PORTFOLIO_DOT(, at_baseline, 2)
LEEWARD_PORTFOLIO_DOT(LEEWARD_AT_AVX2, at_avx2, 4)
LEEWARD_PORTFOLIO_DOT(LEEWARD_AT_AVX512, at_avx512, 8)
LEEWARD_PORTFOLIO(, at_baseline, 2, float)
LEEWARD_PORTFOLIO(, at_baseline, 2, double)
LEEWARD_PORTFOLIO(LEEWARD_AT_AVX2, at_avx2, 4, float)
LEEWARD_PORTFOLIO(LEEWARD_AT_AVX2, at_avx2, 4, double)
LEEWARD_PORTFOLIO(LEEWARD_AT_AVX512, at_avx512, 8, float)
LEEWARD_PORTFOLIO(LEEWARD_AT_AVX512, at_avx512, 8, double)

template <class T>
Kernels<T> kernels() {
  switch (register_width()) {
    case 8: return {dot_at_avx512, rows_at_avx512, one_at_avx512, two_at_avx512};
    case 4: return {dot_at_avx2, rows_at_avx2, one_at_avx2, two_at_avx2};
    default: return {dot_at_baseline, rows_at_baseline, one_at_baseline, two_at_baseline};
  }
}

// The sums of n columns, one a column, times a share.
void unfold(const double* sums, std::int64_t n, double share, double* out) {
  const std::int64_t straight = n < 8 ? n : n / 8 * 8;
  for (std::int64_t j = 0; j < straight; ++j) out[j] = sums[j] * share;
  for (std::int64_t j = straight; j < n; ++j) out[j] = sums[straight + j - (n - 8)] * share;
}

// The same for rows shorter than a vector.
template <class T>
void short_rows(DenseView<T> r, Batch part, DeviationPoint& p) {
  for (std::int64_t k = 0; k < part.size; ++k) {
    const T* const row = r.row(part[k]);
    const double e = dot_of(row, p.u + 1, r.cols) - p.u[0];
    p.square += e * e;
    p.slope += e;
    if (p.slopes != nullptr) add_row(row, 2.0 * e, r.cols, p.slopes);
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

// piece(part) for the parts of a batch, with looks at the monitor.
template <class T, class Piece>
void over_parts(DenseView<T> r, Batch batch, const Resources& use, const Piece& piece) {
  for (std::int64_t first = 0; first < batch.size; first += kPoll) {
    const std::int64_t count = std::min(kPoll, batch.size - first);
    if (batch.index != nullptr)
      piece(r, Batch{batch.index + first, count});
    else
      piece(DenseView<T>{r.data + first * r.stride, count, r.cols, r.stride}, Batch{nullptr, count});
    use.glance();
  }
}

template <class T>
class ReturnsMean final : public Level {
 public:
  explicit ReturnsMean(DenseView<T> r)
      : Level({.inputs = r.cols, .computed = 1, .keep = 0, .kept = r.cols, .size = r.rows, .population = r.rows}), r_(r) {}

  void expect(Batch batch) const override { fetch_rows(r_, batch); }

  void evaluate(const LevelPoint* at, int count, Batch batch, Resources& use) const override {
    const Workspace::Scope scope(use.workspace);
    const std::int64_t room = 8 * vectors_of(r_.cols);
    double* const sums = use.workspace.take<double>(room);
    double* const mean = use.workspace.take<double>(r_.cols);
    std::fill(sums, sums + room, 0.0);
    over_parts(r_, batch, use, [&](DenseView<T> r, Batch part) {
      if (r.cols >= 8) return kernels_.rows(r, part, sums);
      for (std::int64_t k = 0; k < part.size; ++k) add_row(r.row(part[k]), 1.0, r.cols, sums);
    });
    unfold(sums, r_.cols, 1.0 / static_cast<double>(batch.size), mean);
    for (int k = 0; k < count; ++k) {
      if (at[k].value != nullptr) at[k].value[0] = kernels_.dot(mean, at[k].point, r_.cols);
      if (at[k].jacobian != nullptr) std::copy(mean, mean + r_.cols, at[k].jacobian);
    }
  }

 private:
  DenseView<T> r_;
  Kernels<T> kernels_ = kernels<T>();
};

template <class T>
class ReturnsDeviation final : public Level {
 public:
  explicit ReturnsDeviation(DenseView<T> r)
      : Level({.inputs = 1 + r.cols, .computed = 1, .keep = 0, .kept = 1, .size = r.rows, .population = r.rows}), r_(r) {}

  void expect(Batch batch) const override { fetch_rows(r_, batch); }

  void evaluate(const LevelPoint* at, int count, Batch batch, Resources& use) const override {
    for (int k = 0; k < count; k += 2) pair(at + k, count - k > 1 ? 2 : 1, batch, use);
  }

 private:
  void pair(const LevelPoint* at, int count, Batch batch, Resources& use) const {
    const Workspace::Scope scope(use.workspace);
    const std::int64_t room = 8 * vectors_of(r_.cols), done = r_.cols / 8 * 8, tail = r_.cols - 8;
    DeviationPoint points[2];
    bool wanted = false;
    for (int p = 0; p < count; ++p) wanted = wanted || at[p].jacobian != nullptr;
    for (int p = 0; p < count; ++p) {
      points[p].u = at[p].point;
      if (wanted) {
        points[p].slopes = use.workspace.take<double>(room);
        std::fill(points[p].slopes, points[p].slopes + room, 0.0);
      }
      for (std::int64_t j = done; tail >= 0 && j < r_.cols; ++j) points[p].last[j - tail] = at[p].point[1 + j];
    }
    over_parts(r_, batch, use, [&](DenseView<T> r, Batch part) {
      if (tail < 0)
        for (int p = 0; p < count; ++p) short_rows(r, part, points[p]);
      else
        (count == 2 ? kernels_.two : kernels_.one)(r, part, points);
    });
    const double share = 1.0 / static_cast<double>(batch.size);
    for (int p = 0; p < count; ++p) {
      if (at[p].value != nullptr) at[p].value[0] = points[p].square * share;
      double* const jacobian = at[p].jacobian;
      if (jacobian == nullptr) continue;
      jacobian[0] = -2.0 * points[p].slope * share;
      unfold(points[p].slopes, r_.cols, share, jacobian + 1);
    }
  }

  DenseView<T> r_;
  Kernels<T> kernels_ = kernels<T>();
};

class DeviationPenalty final : public Level {
 public:
  DeviationPenalty(double lam, double floor) : Level({.inputs = 2, .computed = 1, .positive = 0, .positives = 1, .floor = floor}), lam_(lam) {}

  void evaluate(const LevelPoint* at, int count, Batch, Resources&) const override {
    for (int k = 0; k < count; ++k) {
      const double root = std::sqrt(at[k].point[0]);
      if (at[k].value != nullptr) at[k].value[0] = lam_ * root - at[k].point[1];
      if (at[k].jacobian == nullptr) continue;
      at[k].jacobian[0] = 0.5 * lam_ / root;
      at[k].jacobian[1] = -1.0;
    }
  }

 private:
  double lam_;
};

}  // namespace

template <class T>
std::shared_ptr<const Level> make_returns_mean(DenseView<T> returns) {
  return std::make_shared<ReturnsMean<T>>(returns);
}
template <class T>
std::shared_ptr<const Level> make_returns_deviation(DenseView<T> returns) {
  return std::make_shared<ReturnsDeviation<T>>(returns);
}
std::shared_ptr<const Level> make_deviation_penalty(double lam, double floor) {
  return std::make_shared<DeviationPenalty>(lam, floor);
}

template std::shared_ptr<const Level> make_returns_mean(DenseView<double>);
template std::shared_ptr<const Level> make_returns_mean(DenseView<float>);
template std::shared_ptr<const Level> make_returns_deviation(DenseView<double>);
template std::shared_ptr<const Level> make_returns_deviation(DenseView<float>);

}  // namespace leeward
