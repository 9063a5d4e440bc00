#include "leeward/oracle/portfolio_levels.hpp"

#include <algorithm>
#include <cmath>

#include "leeward/core/lanes.hpp"
#include "leeward/core/vector8.hpp"

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
inline std::int64_t vectors_of(std::int64_t n) { return (n + 7) / 8; }

template <class T>
LEEWARD_INLINE void add_rows(DenseView<T> r, Batch part, double* to) {
  const std::int64_t vectors = vectors_of(r.cols);
  for (std::int64_t k = 0; k < part.size; ++k) {
    const T* const row = r.row(part[k]);
    for (std::int64_t c = 0; c < vectors; ++c) {
      Vector8 v, all;
      load8(row + (8 * c + 8 <= r.cols ? 8 * c : r.cols - 8), v);
      load8(to + 8 * c, all);
      all += v;
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

template <int Points, class T>
LEEWARD_INLINE void add_deviations(DenseView<T> r, Batch part, DeviationPoint* points) {
  const std::int64_t full = r.cols / 8, tail = r.cols - 8;
  const bool over = r.cols % 8 != 0;
  Vector8 last[Points];
  for (int p = 0; p < Points; ++p) load8(points[p].last, last[p]);
  for (std::int64_t k = 0; k < part.size; ++k) {
    const T* const row = r.row(part[k]);
    Vector8 sum[Points] = {};
    for (std::int64_t c = 0; c < full; ++c) {
      Vector8 v;
      load8(row + 8 * c, v);
      for (int p = 0; p < Points; ++p) {
        Vector8 x;
        load8(points[p].u + 1 + 8 * c, x);
        sum[p] += v * x;
      }
    }
    Vector8 end = {};
    if (over) {
      load8(row + tail, end);
      for (int p = 0; p < Points; ++p) sum[p] += end * last[p];
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
      Vector8 v = end;
      if (c < full) load8(row + 8 * c, v);
      for (int p = 0; p < Points; ++p) {
        Vector8 all;
        load8(points[p].slopes + 8 * c, all);
        all += twice[p] * v;
        store8(all, points[p].slopes + 8 * c);
      }
    }
  }
}

LEEWARD_CLONES double dot_clones(const double* a, const double* x, std::int64_t n) {
  Vector8 sum = {};
  std::int64_t j = 0;
  for (; j + 8 <= n; j += 8) {
    Vector8 v, w;
    load8(a + j, v);
    load8(x + j, w);
    sum += v * w;
  }
  double rest = 0.0;
  for (; j < n; ++j) rest += a[j] * x[j];
  return fold8(sum) + rest;
}
LEEWARD_CLONES void rows_sum(DenseView<double> r, Batch part, double* to) { add_rows(r, part, to); }
LEEWARD_CLONES void rows_sum(DenseView<float> r, Batch part, double* to) { add_rows(r, part, to); }
LEEWARD_CLONES void one_point(DenseView<double> r, Batch part, DeviationPoint* p) { add_deviations<1>(r, part, p); }
LEEWARD_CLONES void one_point(DenseView<float> r, Batch part, DeviationPoint* p) { add_deviations<1>(r, part, p); }
LEEWARD_CLONES void two_points(DenseView<double> r, Batch part, DeviationPoint* p) { add_deviations<2>(r, part, p); }
LEEWARD_CLONES void two_points(DenseView<float> r, Batch part, DeviationPoint* p) { add_deviations<2>(r, part, p); }

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
      if (r.cols >= 8) return rows_sum(r, part, sums);
      for (std::int64_t k = 0; k < part.size; ++k) add_row(r.row(part[k]), 1.0, r.cols, sums);
    });
    unfold(sums, r_.cols, 1.0 / static_cast<double>(batch.size), mean);
    for (int k = 0; k < count; ++k) {
      if (at[k].value != nullptr) at[k].value[0] = dot_clones(mean, at[k].point, r_.cols);
      if (at[k].jacobian != nullptr) std::copy(mean, mean + r_.cols, at[k].jacobian);
    }
  }

 private:
  DenseView<T> r_;
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
        count == 2 ? two_points(r, part, points) : one_point(r, part, points);
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
