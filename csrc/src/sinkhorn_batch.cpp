#include "leeward/estimator/sinkhorn_batch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "leeward/core/stream.hpp"

namespace leeward {

SinkhornBatch::SinkhornBatch(std::shared_ptr<const SinkhornOracle> oracle, Population population, SinkhornBatchSettings settings)
    : oracle_(std::move(oracle)), population_(std::move(population)), settings_(settings) {
  if (settings_.n < 1) throw std::invalid_argument("n must be at least 1");
  if (settings_.inner_steps < 1) throw std::invalid_argument("inner_steps must be at least 1");
  if (!(settings_.inner_step > 0.0 && settings_.reach > 0.0)) throw std::invalid_argument("inner_step and lam eps must be positive");
  if (population_.groups() > 1) throw std::invalid_argument("SinkhornBatch draws samples, not groups");
  const std::int64_t m = oracle_->points().draws();
  const auto points = static_cast<std::size_t>(settings_.n * m);
  index_.resize(static_cast<std::size_t>(settings_.n));
  points_.resize(points);
  shifted_.resize(points);
  weights_.resize(points);
  state_.assign(static_cast<std::size_t>(oracle_->size()), settings_.start);
}

double SinkhornBatch::improve(const double* shifted, double eta, double* room) const {
  const std::int64_t m = oracle_->points().draws();
  const double top = *std::max_element(shifted, shifted + m);
  double best = eta, least = std::numeric_limits<double>::infinity();
  for (std::int64_t d = 0; d <= settings_.inner_steps; ++d) {
    const double v = 1.0 - dual_means(settings_.form, shifted, m, eta, settings_.reach, room).ratio;
    if (std::fabs(v) <= least) {  // of equal ones the last: where all r are 0, eta must come down
      best = eta;
      least = std::fabs(v);
    }
    // Where exponentials overflow a step up would leave the range: to the largest loss instead, where no r is above (f*)'(0) = 1.
    const double next = eta - settings_.inner_step * v;
    eta = std::isfinite(next) && next <= std::max(eta, top + settings_.reach) ? next : top;
  }
  return best;
}

Estimate SinkhornBatch::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  const std::int64_t m = oracle_->points().draws(), n = oracle_->size();
  const Stream stream(settings_.seed, Purpose::batch, step);
  const std::int64_t set = settings_.fresh ? n * static_cast<std::int64_t>(step) : 0;
  for (std::size_t k = 0; k < index_.size(); ++k) {
    index_[k] = population_.sample(population_.draw(stream, k)) + set;
    for (std::int64_t j = 0; j < m; ++j) points_[k * static_cast<std::size_t>(m) + static_cast<std::size_t>(j)] = index_[k] * m + j;
  }
  oracle_->shifted(w, Batch{index_.data(), settings_.n}, shifted_.data(), use);
  Estimate e{.losses = settings_.n, .samples = settings_.n};
  for (const double l : shifted_)
    if (!std::isfinite(l)) {
      e.finite = false;
      return e;
    }
  const double share = 1.0 / static_cast<double>(settings_.n);
  for (std::size_t k = 0; k < index_.size(); ++k) {
    const std::size_t first = k * static_cast<std::size_t>(m);
    const double* const l = shifted_.data() + first;
    double* const r = weights_.data() + first;
    double& kept = state_[static_cast<std::size_t>(index_[k] - set)];
    if (std::isnan(kept)) {
      kept = 0.0;
      for (std::int64_t j = 0; j < m; ++j) kept += l[j] / static_cast<double>(m);
    }
    kept = improve(l, kept, r);
    const DualMeans means = dual_means(settings_.form, l, m, kept, settings_.reach, r);
    e.value += share * (settings_.reach * means.conjugate + kept);
    for (std::int64_t j = 0; j < m; ++j) r[j] *= share;
  }
  oracle_->points().gradient(w, Batch{points_.data(), settings_.n * m}, weights_.data(), out, use);
  e.gradients = settings_.n;
  return e;
}

}  // namespace leeward
