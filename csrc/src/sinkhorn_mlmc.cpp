#include "leeward/estimator/sinkhorn_mlmc.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "leeward/core/stream.hpp"

namespace leeward {
namespace {

constexpr double kRate = 0x1.6a09e667f3bcdp-2;  // 2^-1.5

int level_of(double u, int levels) {
  int level = 1;
  for (double chance = kRate; level < levels && u < chance; chance *= kRate) ++level;
  return level;
}

// 1 / P(L = level)
double rarity(int level, int levels) {
  double chance = level < levels ? 1.0 - kRate : 1.0;
  for (int j = 1; j < level; ++j) chance *= kRate;
  return 1.0 / chance;
}

}  // namespace

SinkhornMlmc::SinkhornMlmc(std::shared_ptr<const SinkhornOracle> oracle, Population population, SinkhornMlmcSettings settings)
    : oracle_(std::move(oracle)), population_(std::move(population)), settings_(settings) {
  if (settings_.n < 1 || settings_.m0 < 1 || settings_.unit < 1) throw std::invalid_argument("n, m0 and unit must be at least 1");
  if (settings_.levels < 1 || settings_.levels > 30 || settings_.m0 > (std::int64_t{1} << 31) >> settings_.levels)
    throw std::invalid_argument("levels must be in 1..30, and 2^levels m0 at most 2^31");
  if (oracle_->points().draws() != settings_.m0 << settings_.levels)
    throw std::invalid_argument("the oracle must have 2^levels m0 draws a sample");
  if (population_.groups() > 1) throw std::invalid_argument("SinkhornMlmc draws samples, not groups");
  drawn_.set.resize(static_cast<std::size_t>(settings_.n));
  drawn_.level.resize(static_cast<std::size_t>(settings_.n));
}

const SinkhornMlmc::Drawn& SinkhornMlmc::draw(std::uint64_t step) {
  const Stream samples(settings_.seed, Purpose::batch, step), levels(settings_.seed, Purpose::level, step);
  for (std::size_t k = 0; k < drawn_.set.size(); ++k) {
    drawn_.set[k] = population_.sample(population_.draw(samples, k)) + oracle_->size() * static_cast<std::int64_t>(step);
    drawn_.level[k] = level_of(levels.uniform(k), settings_.levels);
  }
  return drawn_;
}

double SinkhornMlmc::add(std::int64_t first, std::int64_t count, double factor, Resources& use) {
  const double value = oracle_->inner().solve(LossVector<double>{losses_.data() + first, nullptr, count}, part_.data(), use).value;
  double* const to = weights_.data() + first;
  for (std::int64_t j = 0; j < count; ++j) to[j] += factor * part_[static_cast<std::size_t>(j)];
  return factor * (value + oracle_->settings().constant);
}

Estimate SinkhornMlmc::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  draw(step);
  const std::int64_t draws = oracle_->points().draws(), m0 = settings_.m0;
  points_.clear();
  for (std::size_t k = 0; k < drawn_.set.size(); ++k)
    for (std::int64_t j = 0; j < m0 << drawn_.level[k]; ++j) points_.push_back(drawn_.set[k] * draws + j);
  const std::size_t total = points_.size();
  losses_.resize(total);
  costs_.resize(total);
  weights_.assign(total, 0.0);
  part_.resize(total);
  memory_.resize(total * static_cast<std::size_t>(oracle_->points().memory_per_sample()));
  const Batch batch{points_.data(), static_cast<std::int64_t>(total), memory_.empty() ? nullptr : memory_.data()};
  const double lam = oracle_->settings().lam;
  if (lam > 0.0) {
    oracle_->points().losses_and_costs(w, batch, losses_.data(), costs_.data(), use);
    for (std::size_t k = 0; k < total; ++k) losses_[k] -= lam * costs_[k];
  } else {
    oracle_->points().losses(w, batch, losses_.data(), use);
  }
  Estimate e;
  e.losses = e.samples = std::max<std::int64_t>(1, (batch.size + settings_.unit / 2) / settings_.unit);
  for (const double l : losses_)
    if (!std::isfinite(l)) {
      e.finite = false;
      return e;
    }
  const double share = 1.0 / static_cast<double>(settings_.n);
  std::int64_t first = 0;
  for (const int level : drawn_.level) {
    const std::int64_t count = m0 << level, half = count / 2;
    const double factor = share * rarity(level, settings_.levels);
    e.value += add(first, m0, share, use);
    e.value += add(first, count, factor, use);
    e.value += add(first, half, -0.5 * factor, use);
    e.value += add(first + half, half, -0.5 * factor, use);
    first += count;
  }
  oracle_->points().gradient(w, batch, weights_.data(), out, use);
  e.gradients = e.losses;
  return e;
}

}  // namespace leeward
