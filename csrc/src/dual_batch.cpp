#include "leeward/estimator/dual_batch.hpp"

#include <cmath>
#include <stdexcept>

#include "leeward/core/stream.hpp"

namespace leeward {

DualBatch::DualBatch(std::shared_ptr<const Oracle> oracle, Population population, DualSettings settings)
    : oracle_(std::move(oracle)), population_(std::move(population)), settings_(settings) {
  if (settings_.n < 1) throw std::invalid_argument("n must be at least 1");
  if (population_.groups() > 1) throw std::invalid_argument("DualSGM draws samples, not groups");
  settings_.eta.check("eta");
  settings_.lam.check("lam");
  if (!(settings_.lam.low > 0.0)) throw std::invalid_argument("lam must stay above 0");
  const auto n = static_cast<std::size_t>(settings_.n);
  index_.resize(n);
  losses_.resize(n);
  weights_.resize(n);
  memory_.resize(n * static_cast<std::size_t>(oracle_->memory_per_sample()));
  state_ = {settings_.eta.start, settings_.lam.start, 1.0};
}

Estimate DualBatch::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  const Stream stream(settings_.seed, Purpose::batch, step);
  for (std::size_t k = 0; k < index_.size(); ++k) index_[k] = population_.sample(population_.draw(stream, k));
  const Batch batch{index_.data(), settings_.n, memory_.data()};
  oracle_->losses(w, batch, losses_.data(), use);
  Estimate e;
  e.losses = e.samples = settings_.n;
  for (const double l : losses_)
    if (!std::isfinite(l)) {
      e.finite = false;
      return e;
    }
  const double at = eta(), lam = this->lam(), radius = settings_.form.radius;
  const DualMeans means = dual_means(settings_.form, losses_.data(), settings_.n, at, lam, weights_.data());
  oracle_->gradient(w, batch, weights_.data(), out, use);
  e.gradients = settings_.n;
  e.value = lam * means.conjugate + at + lam * radius;
  e.finite = std::isfinite(e.value) && std::isfinite(means.paired);
  double fall = state_[2];
  if (settings_.decaying) fall /= std::sqrt(1.0 + static_cast<double>(step) / settings_.period);
  state_[0] = settings_.eta.next(at, 1.0 - means.ratio, fall);
  state_[1] = settings_.lam.next(lam, radius - (means.paired - means.conjugate), fall);
  return e;
}

}  // namespace leeward
