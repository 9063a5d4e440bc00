#include "leeward/oracle/portfolio_levels.hpp"

#include <algorithm>
#include <cmath>

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

// to += sum of the rows.
template <class T>
LEEWARD_INLINE void add_rows(DenseView<T> r, Batch part, double* to) {
  for (std::int64_t k = 0; k < part.size; ++k) add_row(r.row(part[k]), 1.0, r.cols, to);
}

// What a point has of the deviations of some rows.
struct Deviation {
  double square = 0, slope = 0;  // sum e^2 and sum e, e = <r, x> - y
};

// jacobian (null: not wanted) += 2 sum e r
template <class T>
LEEWARD_INLINE Deviation add_deviations(DenseView<T> r, Batch part, const double* u, double* jacobian) {
  Deviation d;
  for (std::int64_t k = 0; k < part.size; ++k) {
    const T* const row = r.row(part[k]);
    const double e = dot_of(row, u + 1, r.cols) - u[0];
    d.square += e * e;
    d.slope += e;
    if (jacobian != nullptr) add_row(row, 2.0 * e, r.cols, jacobian);
  }
  return d;
}

LEEWARD_CLONES double dot_clones(const double* row, const double* x, std::int64_t n) { return dot_of(row, x, n); }
LEEWARD_CLONES void rows_sum(DenseView<double> r, Batch part, double* to) { add_rows(r, part, to); }
LEEWARD_CLONES void rows_sum(DenseView<float> r, Batch part, double* to) { add_rows(r, part, to); }
LEEWARD_CLONES Deviation deviations(DenseView<double> r, Batch part, const double* u, double* jacobian) {
  return add_deviations(r, part, u, jacobian);
}
LEEWARD_CLONES Deviation deviations(DenseView<float> r, Batch part, const double* u, double* jacobian) {
  return add_deviations(r, part, u, jacobian);
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

  void evaluate(const LevelPoint* at, int count, Batch batch, Resources& use) const override {
    const Workspace::Scope scope(use.workspace);
    double* mean = nullptr;
    for (int k = 0; k < count && mean == nullptr; ++k) mean = at[k].jacobian;
    if (mean == nullptr) mean = use.workspace.take<double>(r_.cols);
    std::fill(mean, mean + r_.cols, 0.0);
    over_parts(r_, batch, use, [mean](DenseView<T> r, Batch part) { rows_sum(r, part, mean); });
    for (std::int64_t j = 0; j < r_.cols; ++j) mean[j] /= static_cast<double>(batch.size);
    for (int k = 0; k < count; ++k) {
      if (at[k].value != nullptr) at[k].value[0] = dot_clones(mean, at[k].point, r_.cols);
      if (at[k].jacobian != nullptr && at[k].jacobian != mean) std::copy(mean, mean + r_.cols, at[k].jacobian);
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

  void evaluate(const LevelPoint* at, int count, Batch batch, Resources& use) const override {
    const auto n = static_cast<double>(batch.size);
    for (int k = 0; k < count; ++k) {
      double* const jacobian = at[k].jacobian != nullptr ? at[k].jacobian + 1 : nullptr;
      if (jacobian != nullptr) std::fill(jacobian, jacobian + r_.cols, 0.0);
      Deviation all;
      over_parts(r_, batch, use, [&](DenseView<T> r, Batch part) {
        const Deviation d = deviations(r, part, at[k].point, jacobian);
        all.square += d.square;
        all.slope += d.slope;
      });
      if (at[k].value != nullptr) at[k].value[0] = all.square / n;
      if (jacobian == nullptr) continue;
      at[k].jacobian[0] = -2.0 * all.slope / n;
      for (std::int64_t j = 0; j < r_.cols; ++j) jacobian[j] /= n;
    }
  }

 private:
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
