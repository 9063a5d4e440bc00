#include "leeward/estimator/averaged_levels.hpp"

#include <algorithm>
#include <stdexcept>

namespace leeward {
namespace {

std::int64_t average_size(const std::vector<std::shared_ptr<const Level>>& levels, AverageRule rule) {
  return (rule == AverageRule::nasa || rule == AverageRule::nlasg) && !levels.empty() ? levels[0]->shape().inputs : 0;
}

// out = (1 - b) before + b fresh
void mix(const double* before, double b, const double* fresh, std::int64_t n, double* out) {
  for (std::int64_t j = 0; j < n; ++j) out[j] = (1.0 - b) * before[j] + b * fresh[j];
}

}  // namespace

AveragedLevels::AveragedLevels(std::vector<std::shared_ptr<const Level>> levels, NestedSettings settings, AverageRule rule)
    : NestedEstimator(levels, std::move(settings), 0, average_size(levels, rule)),
      rule_(rule),
      fresh_(static_cast<std::size_t>(chain_.widest())),
      point_(fresh_.size()),
      moved_(fresh_.size()),
      jacobians_(static_cast<std::size_t>(chain_.entries())),
      asked_(chain_.depth()) {
  if (rule_ == AverageRule::nasa && chain_.depth() > 2) throw std::invalid_argument("NASA is for at most 2 levels");
  for (std::size_t i = 0; rule_ == AverageRule::nlasg && i < chain_.depth(); ++i)
    if (!chain_.shape(i).jacobians && !chain_.shape(i).pushes)
      throw std::invalid_argument("NLASG needs products J v with the Jacobian, which a level does not answer");
}

void AveragedLevels::advance(const Turn& turn, double* out, Resources& use) {
  if (turn.t == 0 || rule_ == AverageRule::plain) {
    start(turn, turn.t == 0 && rule_ != AverageRule::plain ? settings_.first : settings_.batch, jacobians_.data(), out, use);
    if (averages()) std::copy(out, out + dim(), extra_now());
    return;
  }
  chain_.guard(0, now(0), nullptr, 0.0);
  if (rule_ == AverageRule::atscgd)
    extrapolated(turn, use);
  else
    followed(turn, use);
  chain_.pull_back(asked_.data(), jacobians_.data(), out, use);
  if (!averages()) return;
  mix(extra_before(), beta(0, turn.t), out, dim(), extra_now());
  std::copy(extra_now(), extra_now() + dim(), out);
}

// Trackers at extrapolated points and draws of their own, then Jacobians at the trackers.
void AveragedLevels::extrapolated(const Turn& turn, Resources& use) {
  for (std::size_t i = 0; i + 1 < chain_.depth(); ++i) {
    const LevelShape& s = chain_.shape(i);
    const double b = beta(i, turn.t);
    for (std::int64_t j = 0; j < s.inputs; ++j) point_[static_cast<std::size_t>(j)] = (1.0 - 1.0 / b) * before(i)[j] + (1.0 / b) * now(i)[j];
    chain_.guard(i, point_.data(), before(i), settings_.guard);
    chain_.draw(i, turn.step, 1, settings_.batch);
    const LevelPoint at{point_.data(), fresh_.data(), nullptr};
    chain_.evaluate(i, &at, 1, use);
    mix(before(i + 1), b, fresh_.data(), s.outputs(), now(i + 1));
    chain_.guard(i + 1, now(i + 1), before(i + 1), settings_.guard);
  }
  *now(chain_.depth()) = *before(chain_.depth());  // the last level's value is not followed
  for (std::size_t i = 0; i < chain_.depth(); ++i) {
    chain_.draw(i, turn.step, 0, settings_.batch);
    asked_[i] = now(i);
    const LevelPoint at{now(i), nullptr, jacobians_.data() + chain_.rows(i)};
    if (chain_.shape(i).jacobians) chain_.evaluate(i, &at, 1, use);
  }
}

// One draw of each level for its value and its Jacobian.
void AveragedLevels::followed(const Turn& turn, Resources& use) {
  for (std::size_t i = 0; i < chain_.depth(); ++i) {
    const LevelShape& s = chain_.shape(i);
    const double b = beta(i, turn.t);
    const bool old = rule_ == AverageRule::nlasg || (rule_ == AverageRule::nasa && i > 0);
    double* const jacobian = s.jacobians ? jacobians_.data() + chain_.rows(i) : nullptr;
    asked_[i] = old ? before(i) : now(i);
    chain_.draw(i, turn.step, 0, settings_.batch);
    const LevelPoint at{asked_[i], fresh_.data(), jacobian};
    chain_.evaluate(i, &at, 1, use);
    double* const u = now(i + 1);
    mix(before(i + 1), b, fresh_.data(), s.outputs(), u);
    if (rule_ == AverageRule::nlasg) {
      for (std::int64_t j = 0; j < s.inputs; ++j) point_[static_cast<std::size_t>(j)] = now(i)[j] - before(i)[j];
      chain_.push(i, asked_[i], jacobian, point_.data(), moved_.data(), use);
      for (std::int64_t j = 0; j < s.outputs(); ++j) u[j] += moved_[static_cast<std::size_t>(j)];
    }
    if (i + 1 < chain_.depth()) chain_.guard(i + 1, u, before(i + 1), settings_.guard);
  }
}

}  // namespace leeward
