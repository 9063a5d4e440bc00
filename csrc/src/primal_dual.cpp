#include "leeward/estimator/primal_dual.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace leeward {
namespace {

constexpr double kForget = 0.01;  // share of a step's mean loss in the baseline, from the hundredth step on

}  // namespace

// The memory: the scores, those of the adversary's numbers, the baseline, and the steps made.
PrimalDual::PrimalDual(std::shared_ptr<const Oracle> oracle, Population population, PrimalDualSettings settings)
    : oracle_(std::move(oracle)),
      population_(std::move(population)),
      settings_(settings),
      adversary_(settings.kind, settings.parameter, population_) {
  if (settings_.n < 1) throw std::invalid_argument("n must be at least 1");
  if (!(settings_.dual_step >= 0.0 && std::isfinite(settings_.dual_step)))
    throw std::invalid_argument("dual_step must be finite and at least 0");
  const auto n = static_cast<std::size_t>(settings_.n);
  index_.resize(n);
  position_.resize(n);
  losses_.resize(n);
  weights_.assign(n, 1.0 / static_cast<double>(settings_.n));
  state_.assign(static_cast<std::size_t>(adversary_.size()) + Adversary::kNumbers + 2, std::numeric_limits<double>::quiet_NaN());
  double* const rest = state_.data() + adversary_.size();
  adversary_.save(rest);
  rest[Adversary::kNumbers] = rest[Adversary::kNumbers + 1] = 0.0;
}

void PrimalDual::follow_state() {
  const double* const rest = state_.data() + adversary_.size();
  if (rest[Adversary::kNumbers + 1] == version_) return;
  adversary_.restore(state_.data(), rest);
  version_ = rest[Adversary::kNumbers + 1];
}

Estimate PrimalDual::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  follow_state();
  const Stream from_q(settings_.seed, Purpose::order, step), from_p(settings_.seed, Purpose::batch, step);
  for (std::size_t k = 0; k < index_.size(); ++k) index_[k] = population_.sample(adversary_.draw(from_q, k));
  const Batch batch{index_.data(), settings_.n};
  oracle_->gradient(w, batch, weights_.data(), out, use);
  for (std::size_t k = 0; k < position_.size(); ++k) {
    position_[k] = population_.draw(from_p, k);
    index_[k] = population_.sample(position_[k]);
  }
  oracle_->losses(w, batch, losses_.data(), use);
  Estimate e;
  e.losses = e.gradients = settings_.n;
  e.samples = settings_.n;
  double mean = 0.0;
  for (const double l : losses_) mean += l / static_cast<double>(settings_.n);
  e.finite = std::isfinite(mean);
  if (!e.finite) return e;
  e.value = mean;
  double* const rest = state_.data() + adversary_.size();
  double& base = rest[Adversary::kNumbers];
  double& made = rest[Adversary::kNumbers + 1];
  if (made == 0.0) base = mean;
  for (std::size_t k = 0; k < position_.size(); ++k) {
    const std::int64_t j = position_[k];
    const double share = static_cast<double>(settings_.n) * adversary_.mass(j);
    adversary_.add(j, settings_.dual_step * (losses_[k] - base) / share);
    state_[static_cast<std::size_t>(j)] = adversary_.score(j);
  }
  adversary_.solve();
  const double share = 1.0 / (made + 1.0);
  base += (share > kForget ? share : kForget) * (mean - base);
  adversary_.save(rest);
  version_ = made += 1.0;
  return e;
}

}  // namespace leeward
