#include "leeward/oracle/perturbed.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "leeward/core/parallel.hpp"
#include "leeward/oracle/dense_outputs.hpp"
#include "leeward/oracle/loss_passes.hpp"
#include "leeward/oracle/partial_sums.hpp"
#include "leeward/oracle/point_maker.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kMostTasks = 64;
constexpr std::int64_t kTaskNumbers = 8192;   // coordinates of points worth a task of their own
constexpr std::int64_t kPartialWork = 16;     // coordinates made for each number of a task's own vector, at least

// How a call is cut: tiles of points, and runs of tiles for the threads. Sizes decide, never the number of threads.
struct Cut {
  std::int64_t count = 0, tile = 8, tiles = 0, tasks = 0;

  static Cut make(std::int64_t count, std::int64_t cols, std::int64_t partial) {
    Cut c;
    c.count = count;
    c.tile = PointMaker::tile(cols);
    c.tiles = (count + c.tile - 1) / c.tile;
    const std::int64_t work = count * (cols + 8);
    c.tasks = std::min({c.tiles, kMostTasks, work / kTaskNumbers});
    if (partial > 0) c.tasks = std::min(c.tasks, work / (kPartialWork * partial));
    c.tasks = std::max<std::int64_t>(c.tasks, count > 0 ? 1 : 0);
    return c;
  }
  std::int64_t first_tile(std::int64_t task) const { return task * tiles / tasks; }
};

// Memory of one task.
struct Scratch {
  double *points, *z, *r, *weights;
  std::int64_t* index;

  static std::int64_t doubles(const PerturbedLinear& oracle) {
    const std::int64_t tile = PointMaker::tile(oracle.model().matrix().cols());
    return PointMaker::doubles(oracle) + tile * (2 * oracle.model().outputs() + 2);
  }
  static Scratch at(double* memory, const PerturbedLinear& oracle) {
    const std::int64_t tile = PointMaker::tile(oracle.model().matrix().cols()), outs = oracle.model().outputs();
    Scratch s{};
    s.points = memory;
    s.z = s.points + PointMaker::doubles(oracle);
    s.r = s.z + tile * outs;
    s.weights = s.r + tile * outs;
    s.index = reinterpret_cast<std::int64_t*>(s.weights + tile);
    return s;
  }
};

// Calls f(task, scratch, maker, first, count) for all tiles of a batch.
template <class F>
void for_tiles(const PerturbedLinear& oracle, const Cut& cut, Resources& use, const F& f) {
  const Workspace::Scope scope(use.workspace);
  const std::int64_t own = (Scratch::doubles(oracle) + 7) / 8 * 8;
  double* const memory = use.workspace.take<double>(cut.tasks * own);
  parallel_blocks(cut.tasks, use.threads, [&](std::int64_t task) {
    const Scratch s = Scratch::at(memory + task * own, oracle);
    PointMaker maker(oracle, s.points);
    for (std::int64_t j = cut.first_tile(task); j < cut.first_tile(task + 1); ++j) {
      use.poll();
      f(task, s, maker, j * cut.tile, std::min(cut.tile, cut.count - j * cut.tile));
    }
  });
}

// The numbers of points [first, first + count) of a batch.
const std::int64_t* numbers(Batch batch, std::int64_t first, std::int64_t count, std::int64_t* room) {
  if (batch.index != nullptr) return batch.index + first;
  for (std::int64_t k = 0; k < count; ++k) room[k] = first + k;
  return room;
}

void scores_of(const PerturbedLinear& oracle, const double* w, const double* x, std::int64_t count, double* z) {
  const std::int64_t cols = oracle.model().matrix().cols(), outs = oracle.model().outputs();
  const double* const biases = oracle.model().settings().intercept ? w + outs * cols : nullptr;
  dense_output_dots(DenseView<double>{x, count, cols, cols}, Rows{nullptr, 0, count}, w, outs, biases, z);
}

}  // namespace

PerturbedLinear::PerturbedLinear(std::shared_ptr<const LinearOracle> model, Reference reference, TransportCost cost,
                                 std::int64_t draws, std::uint64_t seed)
    : model_(std::move(model)), reference_(std::move(reference)), cost_(cost), draws_(draws), seed_(seed) {
  const auto cols = static_cast<std::size_t>(model_->matrix().cols());
  const std::size_t scales = reference_.scale.size();
  const bool fits = reference_.kind == ReferenceKind::empirical
                        ? reference_.rows.rows > 0 && reference_.rows.cols == model_->matrix().cols()
                        : reference_.kind == ReferenceKind::factor ? scales == cols * cols : scales == 1 || scales == cols;
  if (!fits) throw std::invalid_argument("the reference does not fit the number of features");
  if (reference_.lower.size() != reference_.upper.size() || (!reference_.lower.empty() && reference_.lower.size() != cols))
    throw std::invalid_argument("bounds must hold one number a feature");
  if (draws_ < 1) throw std::invalid_argument("draws must be at least 1");
}

void PerturbedLinear::losses_and_costs(const double* w, Batch batch, double* losses_out, double* costs_out, Resources& use) const {
  const std::int64_t outs = model_->outputs();
  const hd::LossSpec& loss = model_->settings().loss;
  for_tiles(*this, Cut::make(batch.size, model_->matrix().cols(), 0), use,
            [&](std::int64_t, const Scratch& s, PointMaker& maker, std::int64_t first, std::int64_t count) {
              maker.make(numbers(batch, first, count, s.index), count, costs_out != nullptr ? costs_out + first : nullptr);
              double* const kept = batch.memory != nullptr ? batch.memory + first * outs : nullptr;
              double* const z = kept != nullptr && outs > 1 ? kept : s.z;
              scores_of(*this, w, maker.x(), count, z);
              const LossInputs in{z, maker.labels(), count, outs};
              if (kept != nullptr && outs == 1)
                loss_values_and_slopes(loss, in, losses_out + first, kept);
              else
                loss_values(loss, in, losses_out + first);
            });
}

void PerturbedLinear::costs(Batch batch, double* out, Resources& use) const {
  for_tiles(*this, Cut::make(batch.size, model_->matrix().cols(), 0), use,
            [&](std::int64_t, const Scratch& s, PointMaker& maker, std::int64_t first, std::int64_t count) {
              maker.make(numbers(batch, first, count, s.index), count, out + first);
            });
}

void PerturbedLinear::points(Batch batch, double* x, double* labels, Resources& use) const {
  const std::int64_t cols = model_->matrix().cols();
  for_tiles(*this, Cut::make(batch.size, cols, 0), use,
            [&](std::int64_t, const Scratch& s, PointMaker& maker, std::int64_t first, std::int64_t count) {
              maker.make(numbers(batch, first, count, s.index), count, nullptr);
              if (x != nullptr) std::copy(maker.x(), maker.x() + count * cols, x + first * cols);
              if (labels != nullptr) std::copy(maker.labels(), maker.labels() + count, labels + first);
            });
}

// Points of weight 0 are not made.
void PerturbedLinear::gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const {
  const std::int64_t outs = model_->outputs(), cols = model_->matrix().cols(), dim = this->dim();
  const Cut cut = Cut::make(batch.size, cols, dim);
  if (cut.tasks == 0) {
    std::fill(out, out + dim, 0.0);
    return;
  }
  const Workspace::Scope scope(use.workspace);
  const std::int64_t apart = (dim + 7) / 8 * 8;  // each begins a cache line
  double* const partial = cut.tasks == 1 ? out : use.workspace.take<double>(cut.tasks * apart);
  std::fill(partial, partial + (cut.tasks == 1 ? dim : cut.tasks * apart), 0.0);
  const bool intercept = model_->settings().intercept;
  for_tiles(*this, cut, use, [&](std::int64_t task, const Scratch& s, PointMaker& maker, std::int64_t first, std::int64_t count) {
    double* const g = partial + task * apart;
    const double* const memory = batch.memory != nullptr ? batch.memory + first * outs : nullptr;
    std::int64_t kept = 0;
    for (std::int64_t k = 0; k < count; ++k) {  // without a branch: a slot is overwritten until it is kept
      s.index[kept] = batch[first + k];
      s.weights[kept] = weights[first + k];
      if (memory != nullptr) std::copy(memory + k * outs, memory + (k + 1) * outs, s.z + kept * outs);
      kept += weights[first + k] != 0.0 ? 1 : 0;
    }
    if (kept == 0) return;
    maker.make(s.index, kept, nullptr);
    if (memory == nullptr) scores_of(*this, w, maker.x(), kept, s.z);
    if (memory != nullptr && outs == 1) {
      for (std::int64_t k = 0; k < kept; ++k) s.r[k] = s.weights[k] * s.z[k];
    } else {
      weighted_slopes(model_->settings().loss, {s.z, maker.labels(), kept, outs}, s.weights, s.r);
    }
    dense_output_sums(DenseView<double>{maker.x(), kept, cols, cols}, Rows{nullptr, 0, kept}, s.r, outs, g);
    if (!intercept) return;
    for (std::int64_t k = 0; k < kept; ++k)
      for (std::int64_t c = 0; c < outs; ++c) g[outs * cols + c] += s.r[k * outs + c];
  });
  if (cut.tasks > 1) add_partial_sums(partial, cut.tasks, apart, dim, out, use.threads);
}

}  // namespace leeward
