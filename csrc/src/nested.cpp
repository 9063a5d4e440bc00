#include "leeward/estimator/nested.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "leeward/core/check.hpp"

namespace leeward {

NestedEstimator::NestedEstimator(std::vector<std::shared_ptr<const Level>> levels, NestedSettings settings, std::int64_t entries,
                                 std::int64_t extra)
    : chain_(std::move(levels), settings.seed), settings_(std::move(settings)), entries_(entries) {
  if (settings_.batch < 1 || settings_.first < 1) throw std::invalid_argument("batches must hold at least 1 sample");
  if (settings_.beta.size() != 1 && settings_.beta.size() != chain_.depth()) throw std::invalid_argument("beta: one, or one a level");
  chain_.reserve(std::max(settings_.batch, settings_.first));
  const auto body = static_cast<std::size_t>(chain_.numbers() + entries + extra);
  state_.assign(kHeader + body, 0.0);
  next_.assign(body, 0.0);
  for (std::size_t i = 0; i <= chain_.depth(); ++i) points_.push_back(next_.data() + chain_.at(i));
}

const double* const* NestedEstimator::points_now() { return points_.data(); }

Estimate NestedEstimator::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  const auto t = static_cast<std::int64_t>(state_[kSteps]);
  chain_.counts() = {};
  std::copy(w, w + dim(), next_.data());
  advance({t, step}, out, use);
  const LevelCounts& c = chain_.counts();
  Estimate e;
  e.value = *now(chain_.depth());
  e.losses = c.values;
  e.gradients = c.jacobians + c.products;
  e.samples = c.samples;
  e.scale = scale(t, out);
  e.finite = all_finite(out, dim()) && all_finite(next_.data(), static_cast<std::int64_t>(next_.size()));
  const std::int64_t done[5] = {c.values, c.jacobians, c.products, c.samples, c.guards};
  for (std::size_t k = 0; k < 5; ++k) state_[kCounts + k] += static_cast<double>(done[k]);
  state_[kSteps] += 1.0;
  std::copy(next_.begin(), next_.end(), state_.begin() + static_cast<std::ptrdiff_t>(kHeader));
  return e;
}

LevelCounts NestedEstimator::counts() const {
  const auto count = [this](std::size_t k) { return static_cast<std::int64_t>(state_[kCounts + k]); };
  return {count(0), count(1), count(2), count(3), count(4)};
}

void NestedEstimator::start(const Turn& turn, std::int64_t batch, double* entries, double* out, Resources& use) {
  for (std::size_t i = 0; i < chain_.depth(); ++i) chain_.draw(i, turn.step, 0, batch);
  chain_.forward(next_.data(), entries, use);
  chain_.pull_back(points_now(), entries, out, use);
}

double NestedEstimator::stage_of(std::int64_t t) const {
  if (t < stage_from_) stage_ = static_cast<double>(stage_from_ = stage_to_ = 0);
  while (t >= stage_to_) {
    if (stage_to_ > 0) stage_ += 1.0;
    const double length = std::max(settings_.stages.first * std::exp2(stage_), settings_.stages.second * std::exp2(0.5 * stage_));
    stage_from_ = stage_to_;
    stage_to_ += static_cast<std::int64_t>(std::ceil(std::min(length, 0x1p60)));
  }
  return stage_;
}

double NestedEstimator::beta(std::size_t level, std::int64_t t) const {
  const PowerLaw& law = settings_.beta.size() == 1 ? settings_.beta[0] : settings_.beta[level];
  const double b = settings_.stages.active() ? law.first * std::exp2(-stage_of(t)) : law.at(t - 1);
  return std::min(b, 1.0);
}

double NestedEstimator::size_at(std::int64_t t) const {
  return settings_.stages.active() ? std::exp2(-0.5 * stage_of(t)) : settings_.size.at(t);
}

}  // namespace leeward
