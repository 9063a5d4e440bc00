#include "leeward/estimator/storm.hpp"

#include <algorithm>
#include <stdexcept>

#include "leeward/core/check.hpp"

namespace leeward {

Storm::Storm(ComponentMean mean, const StormSettings& settings)
    : mean_(std::move(mean)), settings_(settings), fresh_(static_cast<std::size_t>(dim())) {
  if (settings_.batch < 1 || settings_.first < 1) throw std::invalid_argument("batches must hold at least 1 sample");
  if (!(settings_.beta > 0.0 && settings_.beta <= 1.0)) throw std::invalid_argument("beta must be in (0, 1]");
  settings_.batch = std::min(settings_.batch, mean_.count());
  settings_.first = std::min(settings_.first, mean_.count());
  mean_.reserve(settings_.first, settings_.batch, false);
  state_.assign(kHeader + 2 * fresh_.size(), 0.0);
}

Estimate Storm::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  double* const d = state_.data() + kHeader;
  double* const before = d + dim();
  const auto t = static_cast<std::int64_t>(state_[kCount]);
  Estimate e;
  if (t == 0) {
    mean_.draw_batch(1, settings_.first);
    mean_.at(w, d, use);
    e.gradients = e.samples = settings_.first;
  } else {
    const double beta = settings_.period > 0.0 ? settings_.beta / (1.0 + state_[kCount] / settings_.period) : settings_.beta;
    mean_.draw_inner(1, t - 1, step, settings_.batch);
    mean_.at(w, fresh_.data(), use);
    mean_.at(before, out, use);
    for (std::int64_t j = 0; j < dim(); ++j) d[j] = fresh_[static_cast<std::size_t>(j)] + (1.0 - beta) * (d[j] - out[j]);
    e.samples = mean_.batch().size;
    e.gradients = 2 * e.samples;
  }
  state_[kCount] += 1.0;
  std::copy(w, w + dim(), before);
  std::copy(d, d + dim(), out);
  e.finite = first_non_finite(out, dim(), use) < 0;
  return e;
}

}  // namespace leeward
