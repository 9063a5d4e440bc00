#include "leeward/oracle/point_maker.hpp"

#include <cmath>

#include "leeward/core/lanes.hpp"
#include "leeward/core/simd.hpp"
#include "leeward/core/stream.hpp"
#include "leeward/hd/real_math.hpp"
#include "leeward/hd/scalar_loss.hpp"

namespace leeward {
namespace points {
namespace {

LEEWARD_INLINE double scale_of(const double* scale, bool single, std::int64_t j) { return single ? scale[0] : scale[j]; }

// By inversion: u in (0, 1) goes to -sign(t) log(1 - 2 |t|), t = u - 1/2.
LEEWARD_INLINE double laplace(double u) {
  const double t = u - 0.5;
  const double size = -hd::log(1.0 - 2.0 * hd::magnitude(t));
  return t < 0.0 ? -size : size;
}

template <class Term>
LEEWARD_INLINE double sum_of(std::int64_t cols, const Term& term) {
  Lanes sum;
  std::int64_t j = 0;
  for (; j + kLanes <= cols; j += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) sum.lane[l] += term(j + l);
  }
  for (int l = 0; j < cols; ++j, ++l) sum.lane[l] += term(j);
  return sum.fold();
}

LEEWARD_CLONES double sum_of_squares(const double* a, const double* x, std::int64_t cols) {
  return sum_of(cols, [=](std::int64_t j) {
    const double move = x[j] - a[j];
    return move * move;
  });
}

LEEWARD_CLONES double sum_of_moves(const double* a, const double* x, std::int64_t cols) {
  return sum_of(cols, [=](std::int64_t j) { return hd::magnitude(x[j] - a[j]); });
}

LEEWARD_CLONES double largest_move(const double* a, const double* x, std::int64_t cols) {
  double top = 0.0;
  for (std::int64_t j = 0; j < cols; ++j) {
    const double move = hd::magnitude(x[j] - a[j]);
    top = move > top ? move : top;
  }
  return top;
}

LEEWARD_CLONES double squares(const double* z, std::int64_t count) {
  return sum_of(count, [=](std::int64_t j) { return z[j] * z[j]; });
}

LEEWARD_CLONES double product(const double* a, const double* b, std::int64_t count) {
  return sum_of(count, [=](std::int64_t j) { return a[j] * b[j]; });
}

}  // namespace

LEEWARD_CLONES void add_scaled(const double* LEEWARD_RESTRICT a, const double* LEEWARD_RESTRICT z, const double* LEEWARD_RESTRICT scale,
                               bool single, std::int64_t cols, double* LEEWARD_RESTRICT x) {
  if (single) {
    const double s = scale[0];
    for (std::int64_t j = 0; j < cols; ++j) x[j] = a[j] + s * z[j];
  } else {
    for (std::int64_t j = 0; j < cols; ++j) x[j] = a[j] + scale[j] * z[j];
  }
}

void add_factored(const double* a, const double* z, const double* factor, std::int64_t cols, double* x) {
  for (std::int64_t j = 0; j < cols; ++j) x[j] = a[j] + product(factor + j * cols, z, j + 1);
}

LEEWARD_CLONES void add_laplace(const double* LEEWARD_RESTRICT a, const double* LEEWARD_RESTRICT u, const double* LEEWARD_RESTRICT scale,
                                bool single, std::int64_t cols, double* LEEWARD_RESTRICT x) {
  for (std::int64_t j = 0; j < cols; ++j) x[j] = a[j] + scale_of(scale, single, j) * laplace(u[j]);
}

// The first d coordinates of a point of the unit sphere in d + 2 dimensions are uniform in the unit ball.
void add_ball(const double* a, const double* z, const double* scale, bool single, std::int64_t cols, double* x) {
  const double norm = std::sqrt(squares(z, cols + 2));
  for (std::int64_t j = 0; j < cols; ++j) x[j] = a[j] + scale_of(scale, single, j) * (z[j] / norm);
}

LEEWARD_CLONES void add(const double* LEEWARD_RESTRICT a, const double* LEEWARD_RESTRICT b, std::int64_t cols, double* LEEWARD_RESTRICT x) {
  for (std::int64_t j = 0; j < cols; ++j) x[j] = a[j] + b[j];
}

LEEWARD_CLONES void clip(const double* LEEWARD_RESTRICT lower, const double* LEEWARD_RESTRICT upper, std::int64_t cols,
                         double* LEEWARD_RESTRICT x) {
  for (std::int64_t j = 0; j < cols; ++j) {
    const double low = x[j] < lower[j] ? lower[j] : x[j];
    x[j] = low > upper[j] ? upper[j] : low;
  }
}

double cost(CostKind kind, const double* a, const double* x, std::int64_t cols) {
  switch (kind) {
    case CostKind::manhattan: return sum_of_moves(a, x, cols);
    case CostKind::chebyshev: return largest_move(a, x, cols);
    case CostKind::euclidean: return std::sqrt(sum_of_squares(a, x, cols));
    case CostKind::squared: break;
  }
  return sum_of_squares(a, x, cols);
}

}  // namespace points

std::int64_t PointMaker::features(const PerturbedLinear& oracle) {
  const std::int64_t cols = oracle.model().matrix().cols();
  switch (oracle.reference_.kind) {
    case ReferenceKind::ball: return (cols + 3) / 2 * 2;
    case ReferenceKind::empirical: return 2;
    default: return (cols + 1) / 2 * 2;
  }
}

std::int64_t PointMaker::width(const PerturbedLinear& oracle) {
  return features(oracle) + (oracle.reference_.label_noise > 0.0 ? 2 : 0);
}

std::int64_t PointMaker::doubles(const PerturbedLinear& oracle) {
  const std::int64_t cols = oracle.model().matrix().cols(), rows = tile(cols);
  return cols + rows * (cols + width(oracle) + 2);
}

PointMaker::PointMaker(const PerturbedLinear& oracle, double* memory)
    : oracle_(oracle), matrix_(oracle.model().matrix()), cols_(matrix_.cols()), features_(features(oracle)), width_(width(oracle)) {
  const std::int64_t rows = tile(cols_);
  a_ = memory;
  x_ = a_ + cols_;
  z_ = x_ + rows * cols_;
  labels_ = z_ + rows * width_;
  label_z_ = labels_ + rows;
}

void PointMaker::make(const std::int64_t* v, std::int64_t count, double* costs) {
  const Reference& reference = oracle_.reference_;
  const TransportCost& cost = oracle_.cost_;
  const std::int64_t n = oracle_.model().size(), m = oracle_.draws_;
  for (std::int64_t first = 0; first < count;) {
    const std::int64_t set = v[first] / m, draw = v[first] % m;
    std::int64_t run = 1;
    while (first + run < count && draw + run < m && v[first + run] == v[first] + run) ++run;
    const Stream stream(oracle_.seed_, Purpose::noise, static_cast<std::uint64_t>(set));
    const auto word = static_cast<std::uint64_t>(draw * width_);
    if (reference.kind == ReferenceKind::laplace)
      fill_open_uniform(stream, word, run * width_, z_);
    else if (reference.kind != ReferenceKind::empirical)
      fill_normal(stream, word, run * width_, z_);
    const std::int64_t i = set % n;
    if (i != at_) matrix_.copy_row(i, a_);
    at_ = i;
    for (std::int64_t r = 0; r < run; ++r) {
      const std::int64_t k = first + r;
      const std::uint64_t at = word + static_cast<std::uint64_t>(r * width_);
      const double label_z =
          reference.label_noise > 0.0 ? stream.normal(at + static_cast<std::uint64_t>(features_)) : 0.0;
      const double* z = z_ + r * width_;
      if (reference.kind == ReferenceKind::empirical)
        z = reference.rows.row(static_cast<std::int64_t>(stream.below(at, static_cast<std::uint64_t>(reference.rows.rows))));
      one(z, label_z, k);
      if (costs == nullptr) continue;
      costs[k] = cost.scale * points::cost(cost.kind, a_, x_ + k * cols_, cols_);
      if (cost.label_scale > 0.0) {
        const double move = labels_[k] - oracle_.model().settings().labels[i];
        costs[k] += cost.label_scale * (move * move);
      }
    }
    first += run;
  }
}

// The point from its random numbers, around the row in a_.
void PointMaker::one(const double* z, double label_z, std::int64_t k) {
  const Reference& reference = oracle_.reference_;
  double* const x = x_ + k * cols_;
  const double* const scale = reference.scale.data();
  const bool single = reference.scale.size() == 1;
  switch (reference.kind) {
    case ReferenceKind::gaussian: points::add_scaled(a_, z, scale, single, cols_, x); break;
    case ReferenceKind::factor: points::add_factored(a_, z, scale, cols_, x); break;
    case ReferenceKind::laplace: points::add_laplace(a_, z, scale, single, cols_, x); break;
    case ReferenceKind::ball: points::add_ball(a_, z, scale, single, cols_, x); break;
    case ReferenceKind::empirical: points::add(a_, z, cols_, x); break;
  }
  if (!reference.lower.empty()) points::clip(reference.lower.data(), reference.upper.data(), cols_, x);
  labels_[k] = oracle_.model().settings().labels[at_] + reference.label_noise * label_z;
}

}  // namespace leeward
