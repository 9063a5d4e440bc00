#include "leeward/estimator/minibatch.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "leeward/core/sampler.hpp"

namespace leeward {

Minibatch::Minibatch(std::shared_ptr<const Oracle> oracle, std::shared_ptr<const Risk> risk, Population population,
                     MinibatchSettings settings, bool grouped)
    : oracle_(std::move(oracle)),
      risk_(std::move(risk)),
      population_(std::move(population)),
      settings_(settings),
      grouped_(grouped) {
  if (settings_.n < 1) throw std::invalid_argument("n must be at least 1");
  if (grouped_ && !settings_.replace) throw std::invalid_argument("Minibatch(replace=False) is not supported with groups");
  std::int64_t size = settings_.n;
  if (grouped_) {
    drawn_ = std::min(settings_.n, population_.groups());
    per_group_ = (settings_.n + drawn_ - 1) / drawn_;
    size = drawn_ * per_group_;
    means_.resize(static_cast<std::size_t>(drawn_));
    shares_.resize(static_cast<std::size_t>(drawn_));
  } else if (!settings_.replace) {
    size = std::min(settings_.n, population_.count());
    whole_ = size == population_.count();
    if (population_.weighted()) base_.resize(static_cast<std::size_t>(size));
  }
  index_.resize(static_cast<std::size_t>(size));
  losses_.resize(static_cast<std::size_t>(size));
  weights_.resize(static_cast<std::size_t>(size));
  memory_.resize(static_cast<std::size_t>(size * oracle_->memory_per_sample()));
  if (whole_) draw_all();
}

void Minibatch::draw_all() {
  for (std::int64_t k = 0; k < size(); ++k) {
    index_[static_cast<std::size_t>(k)] = population_.sample(k);
    if (!base_.empty()) base_[static_cast<std::size_t>(k)] = population_.weight(k);
  }
}

const std::int64_t* Minibatch::draw(std::uint64_t step) {
  if (!whole_)
    grouped_ ? draw_groups(step) : draw_plain(step);
  else if (settings_.fresh > 0)
    draw_all();
  if (settings_.fresh > 0)
    for (std::int64_t& i : index_) i += settings_.fresh * static_cast<std::int64_t>(step);
  return whole_ && settings_.fresh == 0 && population_.everyone() && size() == oracle_->size() ? nullptr : index_.data();
}

void Minibatch::draw_plain(std::uint64_t step) {
  if (!settings_.replace) return draw_distinct(step);
  const Stream stream(settings_.seed, Purpose::batch, step);
  for (std::size_t k = 0; k < index_.size(); ++k)
    index_[k] = population_.sample(population_.draw(stream, k));
}

// Reshuffled, the batches are consecutive parts of the orders of sweep 0, 1, ...; a batch may end one and begin the next.
void Minibatch::draw_distinct(std::uint64_t step) {
  const auto count = static_cast<std::uint64_t>(population_.count()), n = static_cast<std::uint64_t>(size());
  const auto part = [&](std::uint64_t key, std::uint64_t first, std::uint64_t done, std::uint64_t length) {
    sample_without_replacement(Stream(settings_.seed, Purpose::order, key), static_cast<std::int64_t>(count),
                               static_cast<std::int64_t>(first), static_cast<std::int64_t>(length), index_.data() + done);
  };
  if (settings_.reshuffle) {
    const std::uint64_t sweep = step * n / count, first = step * n % count, left = std::min(n, count - first);
    part(sweep, first, 0, left);
    if (left < n) part(sweep + 1, 0, left, n - left);
  } else {
    part(step, 0, 0, n);
  }
  for (std::size_t k = 0; k < index_.size(); ++k) {
    const std::int64_t position = index_[k];
    index_[k] = population_.sample(position);
    if (!base_.empty()) base_[k] = population_.weight(position);
  }
}

void Minibatch::draw_groups(std::uint64_t step) {
  const Stream stream(settings_.seed, Purpose::batch, step);
  const hd::Permutation order =
      Stream(settings_.seed, Purpose::order, step).permutation(static_cast<std::uint64_t>(population_.groups()));
  const bool all = drawn_ == population_.groups();
  for (std::int64_t g = 0; g < drawn_; ++g) {
    const std::int64_t group = all ? g : static_cast<std::int64_t>(order[static_cast<std::uint64_t>(g)]);
    const auto count = static_cast<std::uint64_t>(population_.last(group) - population_.first(group));
    for (std::int64_t k = g * per_group_; k < (g + 1) * per_group_; ++k) {
      const auto i = static_cast<std::uint64_t>(k);
      const std::int64_t position = population_.weighted()
                                        ? population_.position(group, stream.uniform(i))
                                        : population_.first(group) + static_cast<std::int64_t>(stream.below(i, count));
      index_[static_cast<std::size_t>(k)] = population_.sample(position);
    }
  }
}

Estimate Minibatch::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  const Batch batch{draw(step), size(), memory_.data()};
  oracle_->losses(w, batch, losses_.data(), use);
  Estimate e{.losses = size(), .samples = size()};
  for (const double l : losses_)
    if (!std::isfinite(l)) {
      e.finite = false;
      return e;
    }
  if (grouped_) {
    const double share = 1.0 / static_cast<double>(per_group_);
    for (std::int64_t g = 0; g < drawn_; ++g) {
      double sum = 0.0;
      for (std::int64_t k = g * per_group_; k < (g + 1) * per_group_; ++k) sum += losses_[static_cast<std::size_t>(k)];
      means_[static_cast<std::size_t>(g)] = sum * share;
    }
    e.value = risk_->solve(LossVector<double>{means_.data(), nullptr, drawn_}, shares_.data(), use).value;
    for (std::int64_t k = 0; k < size(); ++k)
      weights_[static_cast<std::size_t>(k)] = shares_[static_cast<std::size_t>(k / per_group_)] * share;
  } else {
    const double* base = base_.empty() ? nullptr : base_.data();
    e.value = risk_->solve(LossVector<double>{losses_.data(), base, size()}, weights_.data(), use).value;
  }
  oracle_->gradient(w, batch, weights_.data(), out, use);
  e.gradients = size();
  return e;
}

}  // namespace leeward
