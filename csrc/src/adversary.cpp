#include "leeward/estimator/adversary.hpp"

#include <cmath>
#include <stdexcept>

namespace leeward {
namespace {

constexpr double kHalf = 0.5;  // from this mass down, those never seen are all met at once
constexpr std::uint64_t kTries = 255;  // of a draw among those never seen; each has a chance of one half at least

}  // namespace

Adversary::Adversary(AdversaryKind kind, double parameter, const Population& population)
    : kind_(kind), parameter_(parameter), population_(population), size_(population.count()), tree_(population.count() + 1) {
  if (population.groups() > 1) throw std::invalid_argument("PrimalDual weighs samples, not groups");
  if (kind != AdversaryKind::worst && !(parameter > 0.0)) throw std::invalid_argument("alpha or the radius must be positive");
  for (std::int64_t k = 0; k < size_; ++k) total_ += population.weight(k);
  tree_.set(strangers(), 0.0, unmet_);
  solve();
}

void Adversary::meet(std::int64_t k, double score) {
  if (tree_.inside(k)) return;
  const double m = mass(k);
  unmet_ = unmet_ > m ? unmet_ - m : 0.0;
  tree_.set(k, score, m);
  ++met_;
  fewer_ = true;
}

void Adversary::add(std::int64_t k, double change) {
  if (tree_.inside(k)) {
    tree_.set(k, tree_.score(k) + change, mass(k));
  } else {
    meet(k, change);
  }
  if (met_ < size_ && unmet_ < kHalf)
    for (std::int64_t other = 0; other < size_; ++other) meet(other, 0.0);
}

void Adversary::save(double* numbers) const {
  numbers[0] = unmet_;
}

void Adversary::restore(const double* scores, const double* numbers) {
  tree_.clear();
  unmet_ = numbers[0];
  met_ = 0;
  const bool everyone = unmet_ < kHalf;
  for (std::int64_t k = 0; k < size_; ++k)
    if (everyone || !std::isnan(scores[k])) {
      tree_.set(k, std::isnan(scores[k]) ? 0.0 : scores[k], mass(k));
      ++met_;
    }
  if (met_ < size_) tree_.set(strangers(), 0.0, unmet_);
  solve();
}

void Adversary::solve() {
  using Sums = ScoreTree::Sums;
  if (fewer_ && met_ < size_) tree_.set(strangers(), 0.0, unmet_);
  if (fewer_ && met_ == size_) tree_.remove(strangers());
  fewer_ = false;
  if (kind_ == AdversaryKind::worst) {
    const Sums all = tree_.all();
    scale_ = 1.0 / all.power;
    reference_ = all.top;
    return;
  }
  if (kind_ == AdversaryKind::cvar) {
    const double cap = 1.0 / parameter_;
    parts_ = tree_.split_where([&](std::int64_t v, const Sums& above, const Sums& below) {
      const double rest = tree_.mass(v) + below.power_from(tree_.score(v));  // in units of this item's own
      return 1.0 - cap * above.mass > cap * rest;
    });
    const double left = 1.0 - cap * parts_.upper.mass;
    scale_ = left > 0.0 && parts_.lower.power > 0.0 ? left / parts_.lower.power : 0.0;
    reference_ = parts_.lower.top;
    return;
  }
  const double ball = 1.0 + 2.0 * parameter_;
  const auto eta_free = [](const Sums& a) { return (a.first - 1.0) / a.mass; };
  parts_ = tree_.split_where(
      [&](std::int64_t v, const Sums& above, const Sums&) { return above.mass == 0.0 || tree_.score(v) > eta_free(above); });
  const Sums& a = parts_.upper;
  eta_ = eta_free(a);
  lam_ = 1.0;
  if (a.second - 2.0 * eta_ * a.first + eta_ * eta_ * a.mass <= ball) return;
  const auto eta_ball = [ball](const Sums& s) {
    const double mean = s.first / s.mass, spread = s.second / s.mass - mean * mean;
    const double root = spread > 0.0 ? std::sqrt(spread / (ball * s.mass - 1.0)) : 0.0, least = 1e-9 * (1.0 + std::fabs(mean));
    return mean - (root > least ? root : least);
  };
  parts_ = tree_.split_where([&](std::int64_t v, const Sums& above, const Sums&) {
    return ball * above.mass <= 1.0 || tree_.score(v) > eta_ball(above);
  });
  eta_ = eta_ball(parts_.upper);
  lam_ = parts_.upper.first - eta_ * parts_.upper.mass;
}

double Adversary::ratio(double score) const {
  switch (kind_) {
    case AdversaryKind::worst:
      return scale_ * std::exp(score - reference_);
    case AdversaryKind::cvar: {
      const double cap = 1.0 / parameter_;
      const double free = scale_ > 0.0 ? scale_ * std::exp(score - reference_) : (score > reference_ ? cap : 0.0);
      return free < cap ? free : cap;
    }
    case AdversaryKind::chi_square:
      break;
  }
  return score > eta_ ? (score - eta_) / lam_ : 0.0;
}

double Adversary::weight(std::int64_t k) const { return mass(k) * ratio(score(k)); }

std::int64_t Adversary::draw(const Stream& stream, std::uint64_t word) const {
  using Sums = ScoreTree::Sums;
  const std::uint64_t first = word * (kTries + 1);
  const double u = stream.uniform(first);
  const auto power = [this](const Sums& s) { return s.power_from(reference_); };
  std::int64_t k = 0;
  if (kind_ == AdversaryKind::worst) {
    k = tree_.find_from_bottom(u / scale_, power);
  } else if (kind_ == AdversaryKind::cvar) {
    const double cap = 1.0 / parameter_, capped = cap * parts_.upper.mass;
    k = u < capped || scale_ == 0.0 ? tree_.find_from_top(u / cap, [](const Sums& s) { return s.mass; },
                                                        [](std::int64_t) { return true; })
                                    : tree_.find_from_bottom((u - capped) / scale_, power);
  } else {
    k = tree_.find_from_top(
        u * lam_, [this](const Sums& s) { return s.first - eta_ * s.mass; },
        [this](std::int64_t v) { return tree_.score(v) > eta_; });
  }
  if (k != strangers()) return k;
  for (std::uint64_t t = 1; t <= kTries; ++t) {
    k = population_.draw(stream, first + t);
    if (!tree_.inside(k)) return k;
  }
  for (k = 0; tree_.inside(k);) ++k;
  return k;
}

}  // namespace leeward
