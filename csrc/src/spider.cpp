#include "leeward/estimator/spider.hpp"

#include <algorithm>

#include "leeward/core/check.hpp"

namespace leeward {

Spider::Spider(ComponentMean mean, const StageSettings& settings, std::uint64_t seed)
    : mean_(std::move(mean)), stages_(settings, mean_.count(), seed), fresh_(static_cast<std::size_t>(dim())) {
  mean_.reserve(stages_.largest_batch(), stages_.largest_inner(), stages_.slices());
  state_.assign(kHeader + 2 * fresh_.size(), 0.0);
}

Estimate Spider::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  double* const v = state_.data() + kHeader;
  double* const before = v + dim();
  auto number = static_cast<std::int64_t>(state_[kNumber]);
  Estimate e;
  if (state_[kDone] == state_[kLength]) {
    Stage next;
    do next = stages_.at(++number);
    while (next.length == 0);  // a stage without steps moves nothing
    mean_.draw_batch(number, next.batch);
    mean_.at(w, v, use);
    state_[kNumber] = static_cast<double>(number);
    state_[kDone] = 0.0;
    state_[kLength] = static_cast<double>(next.length);
    state_[kInner] = static_cast<double>(next.inner);
    e.gradients = e.samples = next.batch;
  } else {
    mean_.draw_inner(number, static_cast<std::int64_t>(state_[kDone]) - 1, step, static_cast<std::int64_t>(state_[kInner]));
    mean_.at(w, fresh_.data(), use);
    mean_.at(before, out, use);
    for (std::int64_t j = 0; j < dim(); ++j) v[j] = fresh_[static_cast<std::size_t>(j)] - out[j] + v[j];
    e.samples = mean_.batch().size;
    e.gradients = 2 * e.samples;
  }
  state_[kDone] += 1.0;
  std::copy(w, w + dim(), before);
  std::copy(v, v + dim(), out);
  e.finite = first_non_finite(out, dim(), use) < 0;
  return e;
}

}  // namespace leeward
