#include "leeward/estimator/component_mean.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace leeward {

ComponentMean::ComponentMean(std::shared_ptr<const Oracle> oracle, const double* base, const double* chances, std::uint64_t seed)
    : oracle_(std::move(oracle)), population_(oracle_->population(), base, nullptr), seed_(seed) {
  each_ = 1.0 / static_cast<double>(count());
  if (base == nullptr && chances == nullptr) return;
  std::vector<double> by_position(static_cast<std::size_t>(count()));
  double total = 0.0;
  for (std::int64_t k = 0; k < count(); ++k) {
    const double c = chances != nullptr ? chances[population_.sample(k)] : population_.weight(k);
    if (!(c > 0.0)) throw std::invalid_argument("chances must be positive where the weight is");
    by_position[static_cast<std::size_t>(k)] = c;
    total += c;
  }
  unequal_.emplace(by_position.data(), count());
  if (chances == nullptr) return;
  importance_.resize(by_position.size());
  for (std::int64_t k = 0; k < count(); ++k) {
    const double p = population_.weighted() ? population_.weight(k) : each_;
    importance_[static_cast<std::size_t>(k)] = p * total / by_position[static_cast<std::size_t>(k)];
  }
}

void ComponentMean::reserve(std::int64_t batch, std::int64_t inner, bool slices) {
  const std::int64_t n = oracle_->size();  // batches larger than this find their memory when they are drawn
  make_room(std::min(n, std::max(batch, inner)));
  if (slices) order_.resize(static_cast<std::size_t>(std::min(n, batch)));
}

void ComponentMean::make_room(std::int64_t size) {
  if (size <= static_cast<std::int64_t>(index_.size())) return;
  weights_.resize(static_cast<std::size_t>(size));
  index_.resize(static_cast<std::size_t>(size));
}

// The samples at these positions with weights p_i share.
void ComponentMean::take(const std::int64_t* positions, std::int64_t size, double share) {
  everyone_ = false;
  size_ = size;
  for (std::int64_t k = 0; k < size; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const std::int64_t position = positions[k];
    weights_[i] = (population_.weighted() ? population_.weight(position) : each_) * share;
    index_[i] = population_.sample(position);
  }
}

void ComponentMean::draw_batch(std::int64_t j, std::int64_t batch) {
  make_room(batch);
  if (batch == count()) {
    std::iota(index_.begin(), index_.begin() + batch, std::int64_t{0});
    take(index_.data(), batch, 1.0);
    everyone_ = population_.everyone() && batch == oracle_->size();
    return;
  }
  const Stream stream(seed_, Purpose::order, static_cast<std::uint64_t>(j));
  sample_without_replacement(stream, count(), 0, batch, index_.data());
  take(index_.data(), batch, static_cast<double>(count()) / static_cast<double>(batch));
}

void ComponentMean::draw_inner(std::int64_t j, std::int64_t k, std::uint64_t t, std::int64_t inner) {
  make_room(inner);
  const Stream stream(seed_, Purpose::batch, static_cast<std::uint64_t>(j));
  if (!unequal_) {
    if (inner == 1)
      sample_with_replacement(stream, count(), k, 1, index_.data());
    else
      sample_without_replacement(Stream(seed_, Purpose::subset, t), count(), 0, inner, index_.data());
    take(index_.data(), inner, static_cast<double>(count()) / static_cast<double>(inner));
    return;
  }
  everyone_ = false;
  size_ = inner;
  unequal_->sample(stream, k * inner, inner, index_.data());
  for (std::int64_t i = 0; i < inner; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double ratio = importance_.empty() ? 1.0 : importance_[static_cast<std::size_t>(index_[at])];
    weights_[at] = ratio / static_cast<double>(inner);
    index_[at] = population_.sample(index_[at]);
  }
}

void ComponentMean::take_order(std::int64_t j, std::int64_t batch) {
  if (order_of_ == j) return;
  if (batch > static_cast<std::int64_t>(order_.size())) order_.resize(static_cast<std::size_t>(batch));
  sample_without_replacement(Stream(seed_, Purpose::order, static_cast<std::uint64_t>(j)), count(), 0, batch, order_.data());
  order_of_ = j;
}

void ComponentMean::draw_slice(std::int64_t j, std::int64_t k, const Stage& stage) {
  take_order(j, stage.batch);
  const std::int64_t first = k * stage.inner, size = std::min(stage.inner, stage.batch - first);
  take(order_.data() + first, size, static_cast<double>(count()) / static_cast<double>(size));
}

void ComponentMean::draw_steps(std::int64_t j, std::int64_t k, std::uint64_t t, const Stage& stage, std::int64_t steps,
                               bool slices, std::int64_t* index, double* weights) {
  if (!slices && stage.inner == 1 && !unequal_) {
    const Stream stream(seed_, Purpose::batch, static_cast<std::uint64_t>(j));
    sample_with_replacement(stream, count(), k, steps, index);
    for (std::int64_t i = 0; i < steps; ++i) {
      index[i] = population_.sample(index[i]);
      weights[i] = each_ * static_cast<double>(count());
    }
    return;
  }
  for (std::int64_t i = 0; i < steps; ++i) {
    if (slices)
      draw_slice(j, k + i, stage);
    else
      draw_inner(j, k + i, t + static_cast<std::uint64_t>(i), stage.inner);
    index = std::copy(index_.begin(), index_.begin() + size_, index);
    weights = std::copy(weights_.begin(), weights_.begin() + size_, weights);
  }
}

void ComponentMean::at(const double* w, double* out, Resources& use) const {
  oracle_->gradient(w, batch(), weights_.data(), out, use);
}

}  // namespace leeward
