#include "leeward/oracle/shortfall_levels.hpp"

#include <algorithm>
#include <stdexcept>

#include "leeward/oracle/portfolio_levels.hpp"
#include "leeward/oracle/row_terms.hpp"

namespace leeward {
namespace {

// g(-e) and its derivative by e. A NaN stays one.
struct Below {
  bool square = false;
  double h = 1, inverse = 0.5;  // 1 / (2 h)

  LEEWARD_INLINE void operator()(double e, double& phi, double& slope) const {
    const double u = -e;
    if (square) {
      const double above = u < 0.0 ? 0.0 : u;
      phi = above * above;
      slope = -2.0 * above;
      return;
    }
    double share = (u + h) * inverse;
    share = share < 0.0 ? 0.0 : share;
    share = share > 1.0 ? 1.0 : share;
    const double above = u - h;
    phi = h * share * share + (above < 0.0 ? 0.0 : above);
    slope = -share;
  }
};

LEEWARD_ROW_TERM(Below)

Below term_of(Shortfall s) {
  if (!s.square && !(s.smoothing > 0.0)) throw std::invalid_argument("smoothing must be positive");
  return {.square = s.square, .h = s.smoothing, .inverse = 0.5 / s.smoothing};
}

template <class T>
class ReturnsShortfall final : public Level {
 public:
  ReturnsShortfall(DenseView<T> r, Shortfall shortfall)
      : Level({.inputs = 1 + r.cols, .computed = 1, .keep = 0, .kept = 1, .size = r.rows, .population = r.rows}), r_(r), term_(term_of(shortfall)) {}

  void expect(Batch batch) const override { fetch_rows(r_, batch); }

  void evaluate(const LevelPoint* at, int count, Batch batch, Resources& use) const override {
    for (int k = 0; k < count; k += 2) {
      RowPoint points[2];
      const int some = std::min(2, count - k);
      for (int p = 0; p < some; ++p) {
        const LevelPoint& a = at[k + p];
        points[p] = {.x = a.point + 1, .y = a.point[0], .slopes = a.jacobian != nullptr ? a.jacobian + 1 : nullptr};
      }
      row_means(r_, batch, term_, kernels_, points, some, use);
      for (int p = 0; p < some; ++p) {
        if (at[k + p].value != nullptr) at[k + p].value[0] = points[p].value;
        if (at[k + p].jacobian != nullptr) at[k + p].jacobian[0] = -points[p].slope;
      }
    }
  }

 private:
  DenseView<T> r_;
  Below term_;
  RowKernels<T, Below> kernels_ = kernels_of(DenseView<T>{}, Below{});
};

// The mean of the returns is the level ReturnsMean; its row of the Jacobian is the second one here.
template <class T>
class ReturnsTail final : public Level {
 public:
  ReturnsTail(DenseView<T> r, Shortfall shortfall, double unit)
      : Level({.inputs = r.cols + 1, .computed = 2, .keep = r.cols, .kept = 1, .size = r.rows, .population = r.rows}),
        r_(r),
        term_(term_of(shortfall)),
        unit_(unit),
        mean_(make_returns_mean(r)) {}

  void expect(Batch batch) const override { fetch_rows(r_, batch); }

  void evaluate(const LevelPoint* at, int count, Batch batch, Resources& use) const override {
    for (int k = 0; k < count; k += 2) {
      const int some = std::min(2, count - k);
      RowPoint points[2];
      LevelPoint means[2];
      for (int p = 0; p < some; ++p) {
        const LevelPoint& a = at[k + p];
        points[p] = {.x = a.point, .y = -unit_ * a.point[r_.cols], .slopes = a.jacobian};
        means[p] = {a.point, a.value != nullptr ? a.value + 1 : nullptr, a.jacobian != nullptr ? a.jacobian + r_.cols + 1 : nullptr};
      }
      mean_->evaluate(means, some, batch, use);
      row_means(r_, batch, term_, kernels_, points, some, use);
      for (int p = 0; p < some; ++p) {
        const LevelPoint& a = at[k + p];
        if (a.value != nullptr) a.value[0] = points[p].value;
        if (a.jacobian == nullptr) continue;
        a.jacobian[r_.cols] = unit_ * points[p].slope;
        a.jacobian[2 * r_.cols + 1] = 0.0;
      }
    }
  }

 private:
  DenseView<T> r_;
  Below term_;
  double unit_;
  std::shared_ptr<const Level> mean_;
  RowKernels<T, Below> kernels_ = kernels_of(DenseView<T>{}, Below{});
};

}  // namespace

template <class T>
std::shared_ptr<const Level> make_returns_shortfall(DenseView<T> returns, Shortfall shortfall) {
  return std::make_shared<ReturnsShortfall<T>>(returns, shortfall);
}
template <class T>
std::shared_ptr<const Level> make_returns_tail(DenseView<T> returns, Shortfall shortfall, double unit) {
  return std::make_shared<ReturnsTail<T>>(returns, shortfall, unit);
}

template std::shared_ptr<const Level> make_returns_shortfall(DenseView<double>, Shortfall);
template std::shared_ptr<const Level> make_returns_shortfall(DenseView<float>, Shortfall);
template std::shared_ptr<const Level> make_returns_tail(DenseView<double>, Shortfall, double);
template std::shared_ptr<const Level> make_returns_tail(DenseView<float>, Shortfall, double);

}  // namespace leeward
