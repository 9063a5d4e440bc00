#include "leeward/estimator/level_chain.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "leeward/core/sampler.hpp"

namespace leeward {
namespace {

constexpr std::size_t kFirstPurpose = 256;  // streams 256 + 2 i + turn are those of level i

Purpose purpose_of(std::size_t i, int turn) { return static_cast<Purpose>(kFirstPurpose + 2 * i + static_cast<std::size_t>(turn)); }

}  // namespace

LevelChain::LevelChain(std::vector<std::shared_ptr<const Level>> levels, std::uint64_t seed) : levels_(std::move(levels)), seed_(seed) {
  if (levels_.empty() || levels_.size() > kMaxDepth) throw std::invalid_argument("a composition has 1 to 128 levels");
  at_ = {0, shape(0).inputs};
  rows_ = {0};
  widest_ = shape(0).inputs;
  for (std::size_t i = 0; i < depth(); ++i) {
    const LevelShape& s = shape(i);
    if (i > 0 && s.inputs != shape(i - 1).outputs())
      throw std::invalid_argument("level " + std::to_string(i + 1) + " takes " + std::to_string(s.inputs) + " numbers, but level " +
                                  std::to_string(i) + " gives " + std::to_string(shape(i - 1).outputs()));
    at_.push_back(at_.back() + s.outputs());
    rows_.push_back(rows_.back() + s.entries());
    widest_ = std::max(widest_, s.outputs());
    batches_.push_back({nullptr, s.size});
  }
  if (shape(depth() - 1).outputs() != 1)
    throw std::invalid_argument("the last level must give 1 number, got " + std::to_string(shape(depth() - 1).outputs()));
  index_.resize(depth());
  above_.resize(static_cast<std::size_t>(widest_));
  below_.resize(static_cast<std::size_t>(widest_));
}

bool LevelChain::jacobians() const {
  return std::all_of(levels_.begin(), levels_.end(), [](const auto& level) { return level->shape().jacobians; });
}

void LevelChain::reserve(std::int64_t batch) {
  for (std::size_t i = 0; i < depth(); ++i) {
    const bool drawn = shape(i).population > shape(i).size || batch < shape(i).size;
    if (drawn && static_cast<std::int64_t>(index_[i].size()) < batch) index_[i].resize(static_cast<std::size_t>(batch));
  }
}

void LevelChain::draw(std::size_t i, std::uint64_t step, int turn, std::int64_t batch) {
  const LevelShape& s = shape(i);
  if (s.population == 1) return;  // batches_[i] is that sample
  counts_.samples += std::min(batch, s.population > s.size ? batch : s.size);
  if (s.population == s.size && batch >= s.size) return take_all(i);
  auto& index = index_[i];
  if (static_cast<std::int64_t>(index.size()) < batch) index.resize(static_cast<std::size_t>(batch));
  const Stream stream(seed_, purpose_of(i, turn), step);
  if (batch == 1)
    index[0] = static_cast<std::int64_t>(stream.below(0, static_cast<std::uint64_t>(s.population)));
  else
    sample_with_replacement(stream, s.population, 0, batch, index.data());
  batches_[i] = {index.data(), batch};
  levels_[i]->expect(batches_[i]);
}

void LevelChain::evaluate(std::size_t i, const LevelPoint* at, int count, Resources& use) {
  const LevelShape& s = shape(i);
  if (s.computed > 0) levels_[i]->evaluate(at, count, batches_[i], use);
  for (int k = 0; k < count; ++k) {
    if (at[k].value != nullptr) {
      const double* const from = at[k].point + s.keep;
      std::copy(from, from + s.kept, at[k].value + s.computed);
      counts_.values += batches_[i].size;
    }
    if (at[k].jacobian != nullptr) counts_.jacobians += batches_[i].size;
  }
}

void LevelChain::forward(double* numbers, double* entries, Resources& use) {
  guard(0, numbers, nullptr, 0.0);
  for (std::size_t i = 0; i < depth(); ++i) {
    const bool wanted = entries != nullptr && shape(i).jacobians;
    const LevelPoint at{numbers + at_[i], numbers + at_[i + 1], wanted ? entries + rows_[i] : nullptr};
    evaluate(i, &at, 1, use);
    if (i + 1 < depth()) guard(i + 1, numbers + at_[i + 1], nullptr, 0.0);
  }
}

void LevelChain::pull_back(const double* const* points, const double* entries, double* out, Resources& use) {
  double *g = above_.data(), *next = below_.data();
  g[0] = 1.0;
  for (std::size_t i = depth(); i-- > 0;) {
    const LevelShape& s = shape(i);
    double* const to = i == 0 ? out : next;
    if (s.jacobians) {
      multiply_transposed(entries + rows_[i], s.computed, s.inputs, g, to);
    } else {
      levels_[i]->pull(points[i], batches_[i], g, to, use);
      counts_.products += batches_[i].size;
    }
    for (std::int64_t j = 0; j < s.kept; ++j) to[s.keep + j] += g[s.computed + j];
    std::swap(g, next);
  }
}

void LevelChain::push(std::size_t i, const double* point, const double* jacobian, const double* direction, double* out, Resources& use) {
  const LevelShape& s = shape(i);
  if (s.jacobians) {
    multiply(jacobian, s.computed, s.inputs, direction, out);
  } else {
    levels_[i]->push(point, batches_[i], direction, out, use);
    counts_.products += batches_[i].size;
  }
  std::copy(direction + s.keep, direction + s.keep + s.kept, out + s.computed);
}

void LevelChain::guard(std::size_t i, double* u, const double* before, double share) {
  const LevelShape& s = shape(i);
  for (std::int64_t j = s.positive; j < s.positive + s.positives; ++j) {
    const double least = before != nullptr ? std::max(s.floor, share * before[j]) : s.floor;
    if (!(u[j] < least)) continue;  // a NaN stays one
    u[j] = least;
    ++counts_.guards;
  }
}

}  // namespace leeward
