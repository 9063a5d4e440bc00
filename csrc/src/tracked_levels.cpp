#include "leeward/estimator/tracked_levels.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace leeward {
namespace {

std::int64_t kept_entries(const std::vector<std::shared_ptr<const Level>>& levels, const TrackedSettings& tracked) {
  std::int64_t all = 0;
  for (const auto& level : levels) all += level->shape().entries();
  return tracked.rule == JacobianRule::tracked ? all : 0;
}

std::int64_t kept_product(const std::vector<std::shared_ptr<const Level>>& levels, const TrackedSettings& tracked) {
  const bool kept = tracked.rule == JacobianRule::product || tracked.rule == JacobianRule::average;
  return kept && !levels.empty() ? levels[0]->shape().inputs : 0;
}

// out = fresh + (1 - beta) (before - stale)
LEEWARD_CLONES void follow(const double* fresh, double beta, const double* before, const double* stale, std::int64_t n, double* out) {
  const double keep = 1.0 - beta;
  LEEWARD_LANES
  for (std::int64_t j = 0; j < n; ++j) out[j] = fresh[j] + keep * (before[j] - stale[j]);
}

}  // namespace

TrackedLevels::TrackedLevels(std::vector<std::shared_ptr<const Level>> levels, NestedSettings settings, TrackedSettings tracked)
    : NestedEstimator(levels, std::move(settings), kept_entries(levels, tracked), kept_product(levels, tracked)),
      tracked_(std::move(tracked)),
      fresh_(static_cast<std::size_t>(chain_.widest())),
      stale_(fresh_.size()),
      jacobians_(static_cast<std::size_t>(chain_.entries())),
      old_jacobians_(pairs() ? jacobians_.size() : 0),
      product_(static_cast<std::size_t>(chain_.dim())) {
  if (keeps() && !chain_.jacobians()) throw std::invalid_argument("a level answers products only, and its Jacobian cannot be tracked");
  if (tracked_.norm != BallNorm::none && tracked_.radius.size() != chain_.depth()) throw std::invalid_argument("radius: one a level");
  std::int64_t most = 0;
  for (std::size_t i = 0; i < chain_.depth(); ++i) {
    most = std::max(most, spectral_scratch(chain_.shape(i).computed, chain_.shape(i).inputs));
    points_before_.push_back(before(i));
  }
  if (tracked_.norm == BallNorm::spectral) scratch_.resize(static_cast<std::size_t>(most));
}

void TrackedLevels::project(std::size_t i, double* jacobian) {
  const LevelShape& s = chain_.shape(i);
  if (tracked_.norm == BallNorm::spectral) clip_spectral(jacobian, s.computed, s.inputs, tracked_.radius[i], scratch_.data());
  if (tracked_.norm == BallNorm::frobenius) clip_frobenius(jacobian, s.entries(), tracked_.radius[i]);
}

void TrackedLevels::advance(const Turn& turn, double* out, Resources& use) {
  const bool restart = turn.t == 0 || (tracked_.period > 0 && turn.t % tracked_.period == 0);
  if (!restart) return difference(turn, out, use);
  double* const entries = keeps() ? entries_now() : jacobians_.data();
  start(turn, settings_.first, entries, out, use);
  if (keeps() && tracked_.norm != BallNorm::none) {
    for (std::size_t i = 0; i < chain_.depth(); ++i) project(i, entries + chain_.rows(i));
    chain_.pull_back(points_now(), entries, out, use);
  }
  if (remembers()) std::copy(out, out + dim(), extra_now());
}

void TrackedLevels::difference(const Turn& turn, double* out, Resources& use) {
  for (std::size_t i = 0; i < chain_.depth(); ++i) chain_.draw(i, turn.step, 0, settings_.batch);
  chain_.guard(0, now(0), nullptr, 0.0);
  double b = 0.0;
  for (std::size_t i = 0; i < chain_.depth(); ++i) {
    const LevelShape& s = chain_.shape(i);
    const bool wanted = s.jacobians;
    double* const fresh = jacobians_.data() + chain_.rows(i);
    double* const stale = pairs() ? old_jacobians_.data() + chain_.rows(i) : nullptr;
    const LevelPoint at[2] = {{now(i), fresh_.data(), wanted ? fresh : nullptr}, {before(i), stale_.data(), wanted ? stale : nullptr}};
    chain_.evaluate(i, at, 2, use);
    if (tracked_.period == 0 && (i == 0 || settings_.beta.size() > 1)) b = beta(i, turn.t);
    follow(fresh_.data(), b, before(i + 1), stale_.data(), s.outputs(), now(i + 1));
    if (i + 1 < chain_.depth()) chain_.guard(i + 1, now(i + 1), before(i + 1), settings_.guard);
    if (!keeps()) continue;
    double* const v = entries_now() + chain_.rows(i);
    follow(fresh, b, entries_before() + chain_.rows(i), stale, s.entries(), v);
    if (tracked_.norm != BallNorm::none) project(i, v);
  }
  chain_.pull_back(points_now(), keeps() ? entries_now() : jacobians_.data(), out, use);
  if (!remembers()) return;
  if (pairs()) {
    chain_.pull_back(points_before_.data(), old_jacobians_.data(), product_.data(), use);
    follow(out, b, extra_before(), product_.data(), dim(), extra_now());
  } else {
    for (std::int64_t j = 0; j < dim(); ++j) extra_now()[j] = (1.0 - b) * extra_before()[j] + b * out[j];
  }
  std::copy(extra_now(), extra_now() + dim(), out);
}

double TrackedLevels::scale(std::int64_t t, const double* v) const {
  const double size = size_at(t);
  if (!(tracked_.reach > 0.0)) return size;
  double square = 0.0;
  for (std::int64_t j = 0; j < dim(); ++j) square += v[j] * v[j];
  const double length = std::sqrt(square);
  return length * size > tracked_.reach ? tracked_.reach / length : size;
}

}  // namespace leeward
