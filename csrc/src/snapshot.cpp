#include "leeward/estimator/snapshot.hpp"

#include <algorithm>
#include <bit>

#include "leeward/core/check.hpp"

namespace leeward {
namespace {

// A positive whole number below 2^53 that differs, but for a chance of 2^-52, where the stage or the reference point does
// (the hash of Fowler, Noll and Vo over words, mixed at the end).
double mark_of(std::int64_t stage, const double* w, std::int64_t dim) {
  constexpr std::uint64_t kPrime = 0x100000001b3, kMix = 0x9e3779b97f4a7c15;
  std::uint64_t h = 0xcbf29ce484222325 ^ static_cast<std::uint64_t>(stage);
  for (std::int64_t j = 0; j < dim; ++j) {
    h = (h ^ std::bit_cast<std::uint64_t>(w[j])) * kPrime;
    h ^= h >> 32;
  }
  return static_cast<double>((h * kMix) >> 12) + 1.0;
}

}  // namespace

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
    double* const reference = state_.data() + kHeader;
    if (keeps(next)) {
      keep_slices(number() + 1, next, w, use);  // may throw; until then nothing has changed
    } else {
      mean_.draw_batch(number() + 1, next.batch);
      mean_.at(w, other_.data(), use);  // likewise
    }
    if (comparable && next.batch == mean_.count()) renew_step(w, other_.data());
    std::copy(other_.begin(), other_.end(), reference + dim());
    std::copy(w, w + dim(), reference);
    state_[kNumber] += 1.0;
    state_[kDone] = 0.0;
    state_[kMark] = kept_mark_;
    state_[kOwed] += static_cast<double>(next.batch);
    if (next.length == 0) state_[kBefore] += share();
  }
}

bool SnapshotDifference::keeps(const Stage& stage) const {
  return stages_.slices() && stage.length <= kept_bytes_ / static_cast<std::int64_t>(sizeof(double)) / dim();
}

// kept_ = the gradients at w of the slices of stage j, other_ = their mean over the batch.
void SnapshotDifference::keep_slices(std::int64_t j, const Stage& stage, const double* w, Resources& use) {
  kept_mark_ = 0.0;
  const auto room = static_cast<std::size_t>(stage.length * dim());
  if (kept_.size() < room) {
    std::vector<double>().swap(kept_);  // the old ones and the new ones together could be more than the bound
    kept_.resize(room);
  }
  std::fill(other_.begin(), other_.end(), 0.0);
  for (std::int64_t k = 0; k < stage.length; ++k) {
    double* const g = kept_.data() + k * dim();
    mean_.draw_slice(j, k, stage);
    mean_.at(w, g, use);
    const double share = static_cast<double>(mean_.batch().size) / static_cast<double>(stage.batch);
    for (std::int64_t i = 0; i < dim(); ++i) other_[static_cast<std::size_t>(i)] += share * g[i];
  }
  kept_mark_ = mark_of(j, w, dim());
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

Estimate SnapshotDifference::advance(std::int64_t steps, std::int64_t samples, std::int64_t points) {
  state_[kDone] += static_cast<double>(steps);
  return {.gradients = points * samples,
          .samples = samples,
          .scale = scale(),
          .after = left() == 0 ? share() : 0.0};
}

Estimate SnapshotDifference::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  begin(w, use);
  const bool kept = keeps(stage());
  if (kept && kept_mark_ != state_[kMark]) keep_slices(number(), stage(), reference(), use);  // taken up from a checkpoint
  if (stages_.slices())
    mean_.draw_slice(number(), done(), stage());
  else
    mean_.draw_inner(number(), done(), step, stage().inner);
  mean_.at(w, out, use);
  if (!kept) mean_.at(reference(), other_.data(), use);
  const double* const g = gradient();
  const double* const old = kept ? kept_.data() + done() * dim() : other_.data();
  for (std::int64_t j = 0; j < dim(); ++j) out[j] = out[j] - old[j] + g[j];
  const Estimate start = owed();
  Estimate e = advance(1, mean_.batch().size, kept ? 1 : 2);
  e.gradients += start.gradients;
  e.samples += start.samples;
  e.before = start.before;
  e.finite = first_non_finite(out, dim(), use) < 0;
  return e;
}

}  // namespace leeward
