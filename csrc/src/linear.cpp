#include "leeward/oracle/linear.hpp"

#include <atomic>
#include <utility>

#include "leeward/core/lanes.hpp"
#include "leeward/core/parallel.hpp"
#include "leeward/core/simd.hpp"
#include "leeward/oracle/loss_passes.hpp"
#include "leeward/oracle/page_run.hpp"
#include "leeward/oracle/partial_sums.hpp"
#include "leeward/oracle/row_tiles.hpp"

namespace leeward {
namespace {

// Rows [first, first + count) of a batch.
Rows rows_of(Batch batch, std::int64_t first, std::int64_t count) {
  return batch.index != nullptr ? Rows{batch.index + first, 0, count} : Rows{nullptr, first, count};
}

// sum_k r[k * stride], in lanes.
LEEWARD_INLINE double sum_in_lanes(const double* r, std::int64_t count, std::int64_t stride) {
  Lanes sum;
  std::int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) sum.lane[l] += r[(k + l) * stride];
  }
  for (int l = 0; k < count; ++k, ++l) sum.lane[l] += r[k * stride];
  return sum.fold();
}
LEEWARD_CLONES double contiguous_sum(const double* r, std::int64_t count) { return sum_in_lanes(r, count, 1); }
double strided_sum(const double* r, std::int64_t count, std::int64_t stride) {
  return stride == 1 ? contiguous_sum(r, count) : sum_in_lanes(r, count, stride);
}

LEEWARD_CLONES void multiply(const double* LEEWARD_RESTRICT a, const double* LEEWARD_RESTRICT b, std::int64_t count,
                             double* LEEWARD_RESTRICT out) {
  for (std::int64_t k = 0; k < count; ++k) out[k] = a[k] * b[k];
}

void scores_of_rows(const LinearMatrix& matrix, const double* w, std::int64_t outputs, bool intercept, Rows rows,
                    double* out) {
  matrix.output_dots(rows, w, outputs, intercept ? w + outputs * matrix.cols() : nullptr, out);
}

// Memory of one task; every pointer holds one tile.
struct Scratch {
  double *z, *r, *y, *weights;
  std::int64_t* index;

  static std::int64_t doubles(std::int64_t tile, std::int64_t outputs) { return tile * (2 * outputs + 3); }
  static Scratch at(double* memory, std::int64_t tile, std::int64_t outputs) {
    Scratch s{};
    s.z = memory;
    s.r = s.z + tile * outputs;
    s.y = s.r + tile * outputs;
    s.weights = s.y + tile;
    s.index = reinterpret_cast<std::int64_t*>(s.weights + tile);
    return s;
  }
};

// The weighted rows of one tile: sum_k r[k * outputs + c] x_{rows[k]} is to be added to the gradient of output c.
struct WeightedRows {
  Rows rows;
  const double* r;
};

// out = sum over tiles of the rows that make(first, count, scratch) returns for each. Tasks start from the end of the batch, whose
// rows a preceding pass left in the cache.
template <class Make>
void sum_weighted(const LinearMatrix& matrix, std::int64_t outputs, bool intercept, Batch batch,
                  const Make& make, double* out, Resources& use) {
  const std::int64_t cols = matrix.cols(), dim = outputs * (cols + (intercept ? 1 : 0));
  const RowTiles t = RowTiles::make(batch.size, matrix, outputs, dim);
  if (t.tasks == 0) {
    std::fill(out, out + dim, 0.0);
    return;
  }
  const Workspace::Scope scope(use.workspace);
  const std::int64_t own = Scratch::doubles(t.tile, outputs);
  double* const scratch = use.workspace.take<double>(t.tasks * own);
  const std::int64_t apart = (dim + 7) / 8 * 8;  // each begins a cache line
  double* const partial = t.tasks == 1 ? out : use.workspace.take<double>(t.tasks * apart);
  parallel_blocks(t.tasks, use.threads, [&](std::int64_t reversed) {
    const std::int64_t task = t.tasks - 1 - reversed;
    const Scratch s = Scratch::at(scratch + task * own, t.tile, outputs);
    double* const g = partial + task * apart;
    std::fill(g, g + dim, 0.0);
    PageRun pages(matrix, batch, t.first_row(t.first_tile(task + 1)));
    for (std::int64_t j = t.first_tile(task); j < t.first_tile(task + 1); ++j) {
      use.poll();
      pages.read(t.first_row(j), t.rows_of(j));
      const WeightedRows tile = make(t.first_row(j), t.rows_of(j), s);
      matrix.add_output_rows(tile.rows, tile.r, outputs, g);
      if (intercept)
        for (std::int64_t c = 0; c < outputs; ++c)
          g[outputs * cols + c] += strided_sum(tile.r + c, tile.rows.count, outputs);
    }
  });
  if (t.tasks > 1) add_partial_sums(partial, t.tasks, apart, dim, out, use.threads);
}

// The samples of a tile whose weight is not 0, with their weights and what goes with each sample: its label or its slope.
struct Chosen {
  Rows rows;
  const double *weights, *own;
};

LEEWARD_CLONES std::int64_t count_zeros(const double* x, std::int64_t count) {
  std::int64_t zeros = 0;
  for (std::int64_t k = 0; k < count; ++k) zeros += x[k] == 0.0 ? 1 : 0;
  return zeros;
}

Chosen choose(Batch batch, std::int64_t first, std::int64_t count, const double* weights, const double* own,
              const Scratch& s) {
  if (count_zeros(weights, count) == 0 && batch.index == nullptr) return {{nullptr, first, count}, weights, own + first};
  std::int64_t kept = 0;
  for (std::int64_t k = 0; k < count; ++k) {  // without a branch: a slot is overwritten until it is kept
    const std::int64_t i = batch[first + k];
    s.index[kept] = i;
    s.weights[kept] = weights[k];
    s.y[kept] = own[i];
    kept += weights[k] != 0.0 ? 1 : 0;
  }
  return {{s.index, 0, kept}, s.weights, s.y};
}

// The weighted rows of a tile of samples picked by number, whose slopes or scores the batch remembers.
WeightedRows remembered_rows(const LinearSettings& settings, Batch batch, std::int64_t first, std::int64_t count,
                             const double* weights, const Scratch& s) {
  const std::int64_t outs = settings.outputs;
  const double* const memory = batch.memory + first * outs;
  std::int64_t kept = 0;
  for (std::int64_t k = 0; k < count; ++k) {  // without a branch: a slot is overwritten until it is kept
    const std::int64_t i = batch[first + k];
    s.index[kept] = i;
    if (outs == 1) {
      s.r[kept] = weights[k] * memory[k];
    } else {
      s.weights[kept] = weights[k];
      s.y[kept] = settings.labels[i];
      std::copy(memory + k * outs, memory + (k + 1) * outs, s.z + kept * outs);
    }
    kept += weights[k] != 0.0 ? 1 : 0;
  }
  if (outs > 1) weighted_slopes(settings.loss, {s.z, s.y, kept, outs}, s.weights, s.r);
  return {{s.index, 0, kept}, s.r};
}

void losses_pass(const hd::LossSpec& loss, LossInputs in, double* out, double* slopes) {
  if (slopes == nullptr) return loss_values(loss, in, out);
  loss_values_and_slopes(loss, in, out, slopes);
}

// Calls f(task, first, count) for the tiles of a pass over the rows of a batch that writes to its own rows only.
template <class F>
void for_tiles(const RowTiles& t, const LinearMatrix& matrix, Batch batch, const Resources& use, const F& f) {
  parallel_blocks(t.tasks, use.threads, [&](std::int64_t task) {
    PageRun pages(matrix, batch, t.first_row(t.first_tile(task + 1)));
    for (std::int64_t j = t.first_tile(task); j < t.first_tile(task + 1); ++j) {
      use.poll();
      pages.read(t.first_row(j), t.rows_of(j));
      f(task, t.first_row(j), t.rows_of(j));
    }
  });
}

}  // namespace

void linear_scores(const LinearMatrix& matrix, const double* w, std::int64_t outputs, bool intercept, Batch batch,
                   double* out, Resources& use) {
  const RowTiles t = RowTiles::make(batch.size, matrix, outputs, 0);
  for_tiles(t, matrix, batch, use, [&](std::int64_t, std::int64_t first, std::int64_t count) {
    scores_of_rows(matrix, w, outputs, intercept, rows_of(batch, first, count), out + first * outputs);
  });
}

LinearOracle::LinearOracle(std::shared_ptr<const LinearMatrix> matrix, LinearSettings settings)
    : matrix_(std::move(matrix)), settings_(settings) {}

// out[k * width ..) = pass(scores of sample batch[k], its label).
void LinearOracle::from_scores(const double* w, Batch batch, std::int64_t width, Pass pass, double* out,
                               Resources& use) const {
  const ScoreMemo::Hold memo(batch.index == nullptr ? settings_.memo : nullptr);
  const double* const known = memo.find(w, dim());
  double* const remembered = batch.index != nullptr && pass == losses_pass ? batch.memory : nullptr;
  double* kept = known != nullptr ? nullptr : memo.begin(batch.size * outputs());
  // A gradient is likely to follow at the same w.
  double* slopes = kept != nullptr && outputs() == 1 && pass == losses_pass
                       ? memo.begin_slopes(batch.size, settings_.loss, settings_.labels) : nullptr;
  if (remembered != nullptr) (outputs() == 1 ? slopes : kept) = remembered;
  const RowTiles t = outputs() == 1 ? RowTiles::once(batch.size, *matrix_) : RowTiles::make(batch.size, *matrix_, outputs(), 0);
  const Workspace::Scope scope(use.workspace);
  const std::int64_t own = Scratch::doubles(t.tile, outputs());
  double* const scratch = use.workspace.take<double>(t.tasks * own);
  const Batch read = known == nullptr ? batch : Batch{nullptr, 0};  // known scores need no row
  for_tiles(t, *matrix_, read, use, [&](std::int64_t task, std::int64_t first, std::int64_t count) {
    const Scratch s = Scratch::at(scratch + task * own, t.tile, outputs());
    const Rows rows = rows_of(batch, first, count);
    const double* z = known != nullptr ? known + first * outputs() : nullptr;
    if (z == nullptr) {
      double* const fresh = kept != nullptr ? kept + first * outputs() : s.z;
      scores_of_rows(*matrix_, w, outputs(), settings_.intercept, rows, fresh);
      z = fresh;
    }
    const double* y = settings_.labels + rows.first;
    if (rows.index != nullptr) {
      for (std::int64_t k = 0; k < count; ++k) s.y[k] = settings_.labels[rows.index[k]];
      y = s.y;
    }
    pass(settings_.loss, {z, y, count, outputs()}, out + first * width, slopes != nullptr ? slopes + first : nullptr);
  });
  if (kept != nullptr && remembered == nullptr) memo.commit(w, dim());
}

void LinearOracle::losses(const double* w, Batch batch, double* out, Resources& use) const {
  from_scores(w, batch, 1, losses_pass, out, use);
}

void LinearOracle::slopes(const double* w, Batch batch, double* out, Resources& use) const {
  from_scores(
      w, batch, outputs(), [](const hd::LossSpec& loss, LossInputs in, double* to, double*) { loss_slopes(loss, in, to); },
      out, use);
}

void LinearOracle::curvatures(const double* w, Batch batch, double* out, Resources& use) const {
  from_scores(
      w, batch, outputs(),
      [](const hd::LossSpec& loss, LossInputs in, double* to, double*) { loss_curvatures(loss, in, to); }, out, use);
}

// Samples of weight 0 are left out, so that a gradient of CVaR reads the rows of the tail only. Where there are none, the
// scores of a full batch are kept.
void LinearOracle::gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const {
  const ScoreMemo::Hold memo(batch.index == nullptr ? settings_.memo : nullptr);
  const double* const known = memo.find(w, dim());
  const double* const slopes = memo.find_slopes(w, dim(), settings_.loss, settings_.labels);
  const std::int64_t outs = outputs();
  double* const fresh = known == nullptr ? memo.begin(batch.size * outs) : nullptr;
  std::atomic<bool> whole{fresh != nullptr};
  sum_weighted(
      *matrix_, outs, settings_.intercept, batch,
      [&](std::int64_t first, std::int64_t count, const Scratch& s) {
        if (batch.index != nullptr && batch.memory != nullptr)
          return remembered_rows(settings_, batch, first, count, weights + first, s);
        const Chosen chosen = choose(batch, first, count, weights + first, slopes != nullptr ? slopes : settings_.labels, s);
        if (slopes != nullptr) {
          multiply(chosen.weights, chosen.own, chosen.rows.count, s.r);
          return WeightedRows{chosen.rows, s.r};
        }
        const std::int64_t kept = chosen.rows.count;
        const double* z = s.z;
        if (known == nullptr) {
          const bool keep = fresh != nullptr && chosen.rows.index == nullptr;
          if (!keep) whole.store(false, std::memory_order_relaxed);
          double* const to = keep ? fresh + first * outs : s.z;
          scores_of_rows(*matrix_, w, outs, settings_.intercept, chosen.rows, to);
          z = to;
        } else if (chosen.rows.index == nullptr)
          z = known + first * outs;
        else
          for (std::int64_t k = 0; k < kept; ++k)
            for (std::int64_t c = 0; c < outs; ++c) s.z[k * outs + c] = known[chosen.rows.index[k] * outs + c];
        weighted_slopes(settings_.loss, {z, chosen.own, kept, outs}, chosen.weights, s.r);
        return WeightedRows{chosen.rows, s.r};
      },
      out, use);
  if (whole.load()) memo.commit(w, dim());
}

void LinearOracle::adjoint(const double* v, double* out, Resources& use) const {
  sum_weighted(
      *matrix_, outputs(), settings_.intercept, Batch{nullptr, size()},
      [&](std::int64_t first, std::int64_t count, const Scratch&) {
        return WeightedRows{Rows{nullptr, first, count}, v + first * outputs()};
      },
      out, use);
}

void LinearOracle::conjugate(const double* s, double* out, Resources& use) const {
  parallel_blocks(block_count(size()), use.threads, [&](std::int64_t b) {
    use.poll();
    const std::int64_t first = b * kBlock, count = std::min(kBlock, size() - first);
    loss_conjugates(settings_.loss, {s + first * outputs(), settings_.labels + first, count, outputs()}, out + first);
  });
}

// L_i = sup l'' (|x_i|^2 + 1 with an intercept).
void LinearOracle::smoothness(double* out, Resources& use) const {
  const double slope_constant = hd::score_smoothness(settings_.loss);
  const RowTiles t = RowTiles::make(size(), *matrix_, 1, matrix_->cols());
  const Workspace::Scope scope(use.workspace);
  double* const scratch = use.workspace.take<double>(t.tasks * matrix_->cols());
  std::fill(scratch, scratch + t.tasks * matrix_->cols(), 0.0);
  for_tiles(t, *matrix_, Batch{nullptr, size()}, use, [&](std::int64_t task, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = first; i < first + count; ++i) {
      const double square = matrix_->squared_norm(i, scratch + task * matrix_->cols()) + (settings_.intercept ? 1.0 : 0.0);
      out[i] = square > 0.0 ? slope_constant * square : 0.0;
    }
  });
}

}  // namespace leeward
