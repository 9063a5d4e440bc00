#include "leeward/descent/linear_stage.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace leeward {
namespace {

constexpr std::int64_t kRows = 256;  // rows gathered at a time

CoordinateProx coordinate_prox(const Domain* domain) {
  if (domain == nullptr) return {};
  switch (domain->kind()) {
    case DomainKind::free:
      return {};
    case DomainKind::box:
      return {CoordinateProx::box, domain->first(), domain->second(), 0.0, 0.0};
    case DomainKind::l1:
      return {CoordinateProx::shrink, nullptr, nullptr, domain->first()[0], 0.0};
    case DomainKind::elastic_net:
      return {CoordinateProx::shrink, nullptr, nullptr, domain->first()[0], domain->second()[0]};
    default:
      throw std::invalid_argument("a stage on rows takes separable domains only");
  }
}

}  // namespace

LinearStage::LinearStage(const LinearOracle& oracle) : oracle_(oracle) {
  const LinearSettings& s = oracle.settings();
  rows_ = oracle.matrix().steps({.loss = s.loss, .outputs = s.outputs, .intercept = s.intercept});
}

void LinearStage::begin(const StageRule& rule, const StagePoint& snapshot, const double* w) {
  snapshot_ = snapshot;
  rows_->begin({.step = rule.step,
                .l2 = rule.l2,
                .metric = rule.metric,
                .prox = coordinate_prox(rule.domain),
                .base = snapshot.gradient,
                .snapshot = snapshot.slopes != nullptr ? nullptr : snapshot.w},
               w);
}

void LinearStage::steps(const std::int64_t* index, const double* factors, std::int64_t count, std::int64_t batch,
                        std::int64_t more, const Resources& use) {
  const std::int64_t outputs = oracle_.outputs(), total = count * batch;
  const std::int64_t block = std::max<std::int64_t>(1, kRows / batch) * batch;
  labels_.resize(static_cast<std::size_t>(block));
  if (snapshot_.slopes != nullptr) slopes_.resize(static_cast<std::size_t>(block * outputs));
  const double* const labels = oracle_.settings().labels;
  for (std::int64_t first = 0; first < total; first += block) {
    use.poll();
    const std::int64_t rows = std::min(block, total - first);
    const std::int64_t* const at = index + first;
    for (std::int64_t k = 0; k < rows; ++k) labels_[static_cast<std::size_t>(k)] = labels[at[k]];
    if (snapshot_.slopes != nullptr)
      for (std::int64_t k = 0; k < rows; ++k)
        for (std::int64_t c = 0; c < outputs; ++c)
          slopes_[static_cast<std::size_t>(k * outputs + c)] = snapshot_.slopes[at[k] * outputs + c];
    rows_->run({.index = at,
                .steps = rows / batch,
                .batch = batch,
                .more = std::min(kAhead, total + more - first - rows),
                .labels = labels_.data(),
                .factors = factors != nullptr ? factors + first : nullptr,
                .slopes = snapshot_.slopes != nullptr ? slopes_.data() : nullptr});
  }
}

bool LinearStage::end(double* w) {
  rows_->finish(w);
  return std::all_of(w, w + oracle_.dim(), [](double v) { return std::isfinite(v); });
}

}  // namespace leeward
