#include "leeward/descent/linear_loop.hpp"

#include <algorithm>

namespace leeward {
namespace {

constexpr std::int64_t kWork = std::int64_t{1} << 18;  // entries of rows between two stops, and
constexpr std::int64_t kDense = 8;                     // at least so many for each coordinate, all of which a stop touches
constexpr std::int64_t kPages = std::int64_t{1} << 16;  // rows read of a mapped matrix until their pages are given back

// Inner steps from one stop to the next.
std::int64_t steps_between(const LinearOracle& oracle, std::int64_t batch) {
  const LinearMatrix& x = oracle.matrix();
  const std::int64_t row = 1 + x.entries() / std::max<std::int64_t>(x.rows(), 1);
  return std::max<std::int64_t>(1, std::max(kWork, kDense * x.cols()) / (row * batch));
}

}  // namespace

LinearLoop::LinearLoop(std::shared_ptr<SnapshotDifference> estimator, const LinearOracle& oracle)
    : estimator_(std::move(estimator)), oracle_(oracle), stage_(oracle), moved_(static_cast<std::size_t>(oracle.dim())) {
  estimator_->keep_at_most(0);  // slopes are kept here, a number a score
}

Estimate LinearLoop::begin(const double* w, Resources& use) {
  estimator_->begin(w, use);
  return estimator_->owed();
}

const double* LinearLoop::kept_slopes(Resources& use) {
  SnapshotDifference& e = *estimator_;
  const std::int64_t n = oracle_.size(), outputs = oracle_.outputs();
  const bool whole = e.stage().batch == n;
  if (!whole && !e.stages().slices()) return nullptr;
  const double* const at = e.reference();
  if (std::equal(slopes_at_.begin(), slopes_at_.end(), at, at + oracle_.dim()) && (whole || slopes_of_ == e.number()))
    return slopes_.data();
  slopes_.resize(static_cast<std::size_t>(n * outputs));
  slopes_at_.clear();
  if (whole) {
    oracle_.slopes(at, {nullptr, n}, slopes_.data(), use);
  } else {
    e.mean().draw_batch(e.number(), e.stage().batch);
    const Batch batch = e.mean().batch();
    drawn_.resize(static_cast<std::size_t>(batch.size * outputs));
    oracle_.slopes(at, batch, drawn_.data(), use);
    for (std::int64_t k = 0; k < batch.size; ++k)
      std::copy(drawn_.data() + k * outputs, drawn_.data() + (k + 1) * outputs, slopes_.data() + batch[k] * outputs);
  }
  slopes_at_.assign(at, at + oracle_.dim());
  slopes_of_ = e.number();
  return slopes_.data();
}

StretchDone LinearLoop::run(const Stretch& stretch, Resources& use) {
  SnapshotDifference& e = *estimator_;
  const Stage stage = e.stage();
  const bool slices = e.stages().slices();
  const std::int64_t points = slices ? 1 : 2;  // at which the samples of a step are evaluated
  const std::int64_t between = steps_between(oracle_, stage.inner);
  const std::int64_t payable = std::max<std::int64_t>(0, stretch.evaluations - 1) / (points * stage.inner) + 1;
  std::int64_t steps = std::min({stretch.most, e.left(), between - e.done() % between, payable}), batch = stage.inner;
  if (slices && e.done() + steps == stage.length && stage.batch % batch != 0) {  // the last slice is shorter
    if (steps > 1)
      --steps;
    else
      batch = stage.batch % batch;
  }
  index_.resize(static_cast<std::size_t>(steps * batch));
  weights_.resize(index_.size());
  e.mean().draw_steps(e.number(), e.done(), stretch.first, stage, steps, slices, index_.data(), weights_.data());
  stage_.begin({.step = stretch.step * e.scale(), .l2 = stretch.l2, .metric = stretch.metric, .domain = stretch.domain},
               {.w = e.reference(), .gradient = e.gradient(), .slopes = kept_slopes(use)}, stretch.w);
  stage_.steps(index_.data(), weights_.data(), steps, batch, 0, use);
  StretchDone done;
  if (!stage_.end(moved_.data())) {
    done.estimate.gradients = points * steps * batch;
    done.estimate.samples = steps * batch;
    done.estimate.finite = false;
    return done;
  }
  std::copy(moved_.begin(), moved_.end(), stretch.w);
  read_ += steps * batch;
  if (oracle_.matrix().stretch() > 0 && read_ >= kPages) {  // of a mapped file, each row may have brought in a page
    oracle_.matrix().give_back(0, oracle_.size());
    read_ = 0;
  }
  done.steps = steps;
  done.estimate = e.advance(steps, steps * batch, points);
  return done;
}

}  // namespace leeward
