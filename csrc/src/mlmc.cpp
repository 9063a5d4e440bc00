#include "leeward/estimator/mlmc.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "leeward/core/stream.hpp"

namespace leeward {

Mlmc::Mlmc(std::shared_ptr<const Oracle> oracle, std::shared_ptr<const Risk> risk, Population population, MlmcSettings settings)
    : oracle_(std::move(oracle)), risk_(std::move(risk)), population_(std::move(population)), settings_(settings) {
  if (settings_.n0 < 1) throw std::invalid_argument("n0 must be at least 1");
  if (settings_.levels < 1 || settings_.levels > 40) throw std::invalid_argument("levels must be in 1..40");
  if (settings_.n0 > (std::int64_t{1} << 40) >> settings_.levels) throw std::invalid_argument("n_max must be below 2**40");
  if (population_.groups() > 1) throw std::invalid_argument("MLMC draws samples, not groups");
  const auto most = static_cast<std::size_t>(settings_.n0 << settings_.levels);
  index_.resize(most);
  losses_.resize(most);
  weights_.resize(most);
  part_.resize(most);
  memory_.resize(most * static_cast<std::size_t>(oracle_->memory_per_sample()));
}

int Mlmc::level(std::uint64_t step) const { return Stream(settings_.seed, Purpose::level, step).level(0, settings_.levels); }

const std::int64_t* Mlmc::draw(std::uint64_t step) {
  const Stream stream(settings_.seed, Purpose::batch, step);
  const std::int64_t k = size(step);
  for (std::int64_t i = 0; i < k; ++i)
    index_[static_cast<std::size_t>(i)] = population_.sample(population_.draw(stream, static_cast<std::uint64_t>(i)));
  return index_.data();
}

void Mlmc::add_risk(std::int64_t first, std::int64_t count, double factor, Estimate* e, Resources& use) {
  const double* const l = losses_.data() + first;
  double* const to = weights_.data() + first;
  const double* const q = part_.data();
  const double value = risk_->solve(LossVector<double>{l, nullptr, count}, part_.data(), use).value;
  double mean = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] += factor * q[i];
    mean += q[i] * l[i];
  }
  e->value += factor * value;
  e->paid += factor * (mean - value);
}

Estimate Mlmc::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  const int j = level(step);
  const std::int64_t k = settings_.n0 << j, half = k / 2;
  const Batch batch{draw(step), k, memory_.data()};
  oracle_->losses(w, batch, losses_.data(), use);
  Estimate e;
  e.losses = k;
  e.samples = k;
  for (std::int64_t i = 0; i < k; ++i)
    if (!std::isfinite(losses_[static_cast<std::size_t>(i)])) {
      e.finite = false;
      return e;
    }
  const double rarity = std::ldexp(1.0, j < settings_.levels ? j : settings_.levels - 1);  // 1 / P(J = j)
  std::fill(weights_.begin(), weights_.begin() + k, 0.0);
  add_risk(0, settings_.n0, 1.0, &e, use);
  add_risk(0, k, rarity, &e, use);
  add_risk(0, half, -0.5 * rarity, &e, use);
  add_risk(half, half, -0.5 * rarity, &e, use);
  oracle_->gradient(w, batch, weights_.data(), out, use);
  e.gradients = k;
  return e;
}

}  // namespace leeward
