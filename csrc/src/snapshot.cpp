#include "leeward/estimator/snapshot.hpp"

#include <algorithm>

#include "leeward/core/check.hpp"

namespace leeward {

SnapshotDifference::SnapshotDifference(ComponentMean mean, const StageSettings& settings, std::uint64_t seed)
    : mean_(std::move(mean)), stages_(settings, mean_.count(), seed), other_(static_cast<std::size_t>(dim())) {
  mean_.reserve(stages_.largest_batch(), stages_.largest_inner(), stages_.slices());
  state_.assign(kHeader + 2 * other_.size(), 0.0);
  state_[kScale] = 1.0;
}

const Stage& SnapshotDifference::stage_of(std::int64_t j) const {
  if (j != known_) {
    stage_ = j > 0 ? stages_.at(j) : Stage{};
    known_ = j;
  }
  return stage_;
}

void SnapshotDifference::begin(const double* w, Resources& use) {
  while (left() == 0) {
    const bool comparable = steps_.first > 0.0 && done() > 0 && stage().batch == mean_.count();
    const Stage& next = stage_of(number() + 1);
    mean_.draw_batch(number() + 1, next.batch);
    double* const reference = state_.data() + kHeader;
    mean_.at(w, other_.data(), use);  // may throw; until then nothing has changed
    if (comparable && next.batch == mean_.count()) renew_step(w, other_.data());
    std::copy(other_.begin(), other_.end(), reference + dim());
    std::copy(w, w + dim(), reference);
    state_[kNumber] += 1.0;
    state_[kDone] = 0.0;
    state_[kOwed] += static_cast<double>(next.batch);
    if (next.length == 0) state_[kBefore] += share();
  }
}

// Before the reference point moves to w, where f has this gradient.
void SnapshotDifference::renew_step(const double* w, const double* new_gradient) {
  double square = 0.0, bend = 0.0;
  for (std::int64_t j = 0; j < dim(); ++j) {
    const double d = w[j] - reference()[j];
    const double change = new_gradient[j] - gradient()[j] + (j < steps_.penalised ? steps_.l2 * d : 0.0);
    square += d * d / (steps_.metric.empty() ? 1.0 : steps_.metric[static_cast<std::size_t>(j)]);
    bend += d * change;
  }
  if (!(square > 0.0 && bend > 0.0)) return;
  const double step = square / (bend * static_cast<double>(done()));
  state_[kScale] = std::clamp(step / steps_.first, 1.0 / steps_.range, steps_.range);
}

Estimate SnapshotDifference::owed() {
  const auto batches = static_cast<std::int64_t>(state_[kOwed]);
  const Estimate e{.gradients = batches, .samples = batches, .before = state_[kBefore], .after = 0.0};
  state_[kOwed] = state_[kBefore] = 0.0;
  return e;
}

Estimate SnapshotDifference::advance(std::int64_t steps, std::int64_t samples) {
  state_[kDone] += static_cast<double>(steps);
  return {.gradients = 2 * samples,
          .samples = samples,
          .scale = scale(),
          .after = left() == 0 ? share() : 0.0};
}

Estimate SnapshotDifference::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  begin(w, use);
  if (stages_.slices())
    mean_.draw_slice(number(), done(), stage());
  else
    mean_.draw_inner(number(), done(), step, stage().inner);
  mean_.at(w, out, use);
  mean_.at(reference(), other_.data(), use);
  const double* const g = gradient();
  for (std::int64_t j = 0; j < dim(); ++j) out[j] = out[j] - other_[static_cast<std::size_t>(j)] + g[j];
  const Estimate start = owed();
  Estimate e = advance(1, mean_.batch().size);
  e.gradients += start.gradients;
  e.samples += start.samples;
  e.before = start.before;
  e.finite = first_non_finite(out, dim(), use) < 0;
  return e;
}

}  // namespace leeward
