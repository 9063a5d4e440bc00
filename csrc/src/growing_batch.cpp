#include "leeward/estimator/growing_batch.hpp"

#include <cmath>
#include <stdexcept>

#include "leeward/core/stream.hpp"

namespace leeward {

GrowingBatch::GrowingBatch(std::shared_ptr<const Oracle> oracle, std::shared_ptr<const Risk> risk, Population population,
                           GrowingBatchSettings settings)
    : oracle_(std::move(oracle)), risk_(std::move(risk)), population_(std::move(population)), settings_(settings) {
  if (settings_.n0 < 1) throw std::invalid_argument("n0 must be at least 1");
  if (!(settings_.growth >= 1.0 && settings_.growth <= 1e6)) throw std::invalid_argument("growth must be in [1, 1e6]");
  if (population_.groups() > 1) throw std::invalid_argument("GrowingBatch draws samples, not groups");
  const auto most = static_cast<std::size_t>(population_.count());
  index_.resize(most);
  losses_.resize(most);
  weights_.resize(most);
  memory_.resize(most * static_cast<std::size_t>(oracle_->memory_per_sample()));
  if (population_.weighted()) base_.resize(most);
}

std::int64_t GrowingBatch::size(std::uint64_t step) const {
  const double wanted = std::ceil(static_cast<double>(settings_.n0) * std::pow(settings_.growth, static_cast<double>(step)));
  const std::int64_t most = population_.count();
  return wanted < static_cast<double>(most) ? static_cast<std::int64_t>(wanted) : most;
}

Estimate GrowingBatch::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  const std::int64_t n = size(step);
  const bool whole = n == population_.count();
  const Stream stream(settings_.seed, Purpose::batch, step);
  const bool in_order = whole && population_.everyone();
  for (std::int64_t k = in_order && !population_.weighted() ? n : 0; k < n; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const std::int64_t position = whole ? k : population_.draw(stream, i);
    index_[i] = population_.sample(position);
    if (whole && population_.weighted()) base_[i] = population_.weight(position);
  }
  const Batch batch{in_order ? nullptr : index_.data(), n, memory_.data()};
  oracle_->losses(w, batch, losses_.data(), use);
  Estimate e;
  e.losses = n;
  e.samples = n;
  for (std::int64_t k = 0; k < n; ++k)
    if (!std::isfinite(losses_[static_cast<std::size_t>(k)])) {
      e.finite = false;
      return e;
    }
  const double* const base = whole && population_.weighted() ? base_.data() : nullptr;
  e.value = risk_->solve(LossVector<double>{losses_.data(), base, n}, weights_.data(), use).value;
  oracle_->gradient(w, batch, weights_.data(), out, use);
  e.gradients = n;
  return e;
}

}  // namespace leeward
