#include "leeward/oracle/portfolio_levels.hpp"

#include <algorithm>
#include <cmath>

#include "leeward/oracle/row_terms.hpp"

namespace leeward {
namespace {

struct Square {
  LEEWARD_INLINE void operator()(double e, double& phi, double& slope) const {
    phi = e * e;
    slope = 2.0 * e;
  }
};

LEEWARD_ROW_TERM(Square)

// Sums of rows, in registers.
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

// What the mean of the rows needs at each width of the registers; a function's level stands in its name.
template <class T>
struct MeanKernels {
  double (*dot)(const double* a, const double* x, std::int64_t n);
  void (*rows)(DenseView<T> r, Batch part, double* to);
};

#define LEEWARD_PORTFOLIO_DOT(at, level, W) \
  at double dot_##level(const double* a, const double* x, std::int64_t n) { return dot_vectors<W>(a, x, n); }
#define LEEWARD_PORTFOLIO(at, level, W, T) \
  at void rows_##level(DenseView<T> r, Batch part, double* to) { add_rows<W>(r, part, to); }

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
MeanKernels<T> mean_kernels() {
  switch (register_width()) {
    case 8: return {dot_at_avx512, rows_at_avx512};
    case 4: return {dot_at_avx2, rows_at_avx2};
    default: return {dot_at_baseline, rows_at_baseline};
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
    over_row_blocks(r_, batch, room, sums, use, [&](DenseView<T> r, Batch part, double* to) {
      if (r.cols >= 8) return kernels_.rows(r, part, to);
      for (std::int64_t k = 0; k < part.size; ++k) add_row(r.row(part[k]), 1.0, r.cols, to);
    });
    unfold(sums, r_.cols, 1.0 / static_cast<double>(batch.size), mean);
    for (int k = 0; k < count; ++k) {
      if (at[k].value != nullptr) at[k].value[0] = kernels_.dot(mean, at[k].point, r_.cols);
      if (at[k].jacobian != nullptr) std::copy(mean, mean + r_.cols, at[k].jacobian);
    }
  }

 private:
  DenseView<T> r_;
  MeanKernels<T> kernels_ = mean_kernels<T>();
};

template <class T>
class ReturnsDeviation final : public Level {
 public:
  explicit ReturnsDeviation(DenseView<T> r)
      : Level({.inputs = 1 + r.cols, .computed = 1, .keep = 0, .kept = 1, .size = r.rows, .population = r.rows}), r_(r) {}

  void expect(Batch batch) const override { fetch_rows(r_, batch); }

  void evaluate(const LevelPoint* at, int count, Batch batch, Resources& use) const override {
    for (int k = 0; k < count; k += 2) {
      RowPoint points[2];
      const int some = std::min(2, count - k);
      for (int p = 0; p < some; ++p) {
        const LevelPoint& a = at[k + p];
        points[p] = {.x = a.point + 1, .y = a.point[0], .slopes = a.jacobian != nullptr ? a.jacobian + 1 : nullptr};
      }
      row_means(r_, batch, Square{}, kernels_, points, some, use);
      for (int p = 0; p < some; ++p) {
        if (at[k + p].value != nullptr) at[k + p].value[0] = points[p].value;
        if (at[k + p].jacobian != nullptr) at[k + p].jacobian[0] = -points[p].slope;
      }
    }
  }

 private:
  DenseView<T> r_;
  RowKernels<T, Square> kernels_ = kernels_of(DenseView<T>{}, Square{});
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
