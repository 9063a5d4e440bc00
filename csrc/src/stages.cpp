#include "leeward/estimator/stages.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "leeward/core/stream.hpp"

namespace leeward {

Stages::Stages(StageSettings settings, std::int64_t count, std::uint64_t seed) : settings_(settings), count_(count), seed_(seed) {
  if (settings_.batch < 1 || settings_.inner < 1) throw std::invalid_argument("batches must hold at least 1 sample");
  if (!(settings_.fraction >= 0.0 && settings_.fraction <= 1.0)) throw std::invalid_argument("fraction must be in [0, 1]");
  if (settings_.length < 1) throw std::invalid_argument("a stage must have at least 1 step");
  if (!(settings_.chance > 0.0 && settings_.chance <= 1.0)) throw std::invalid_argument("chance must be in (0, 1]");
  if (!(settings_.exponent >= 0.0 && settings_.exponent <= 1.0)) throw std::invalid_argument("exponent must be in [0, 1]");
}

std::int64_t Stages::batch_of(std::int64_t j) const {
  const auto most = static_cast<double>(count_), number = static_cast<double>(j);
  double wanted = static_cast<double>(settings_.batch);
  if (settings_.batch_rule == BatchRule::growing) wanted = std::ceil(number * std::sqrt(number));
  if (settings_.batch_rule == BatchRule::doubling) wanted = std::ldexp(wanted, static_cast<int>(std::min<std::int64_t>(j - 1, 50)));
  return wanted >= most ? count_ : static_cast<std::int64_t>(wanted);
}

std::int64_t Stages::inner_of(std::int64_t batch) const {
  std::int64_t inner = settings_.inner;
  if (settings_.fraction > 0.0) inner = static_cast<std::int64_t>(std::ceil(settings_.fraction * static_cast<double>(batch)));
  return std::clamp<std::int64_t>(inner, 1, batch);
}

std::int64_t Stages::length_of(std::int64_t j, std::int64_t batch, std::int64_t inner) const {
  const double mean = static_cast<double>(batch) / static_cast<double>(inner);
  const Stream stream(seed_, Purpose::length, static_cast<std::uint64_t>(j));
  switch (settings_.length_rule) {
    case LengthRule::geometric:
      return stream.geometric(0, mean);
    case LengthRule::mean:
      return std::max<std::int64_t>(1, static_cast<std::int64_t>(mean + 0.5));
    case LengthRule::slices:
      return (batch + inner - 1) / inner;
    case LengthRule::loopless:
      return settings_.chance < 1.0 ? 1 + stream.geometric(0, 1.0 / settings_.chance - 1.0) : 1;
    case LengthRule::fixed:
      break;
  }
  return settings_.length;
}

Stage Stages::at(std::int64_t j) const {
  Stage s;
  s.batch = batch_of(j);
  s.inner = inner_of(s.batch);
  s.length = length_of(j, s.batch, s.inner);
  if (settings_.exponent > 0.0)
    s.scale = std::pow(static_cast<double>(s.inner) / static_cast<double>(s.batch), settings_.exponent);
  return s;
}

std::int64_t Stages::largest_batch() const {
  return settings_.batch_rule == BatchRule::fixed ? std::min(settings_.batch, count_) : count_;
}

std::int64_t Stages::largest_inner() const { return inner_of(largest_batch()); }

}  // namespace leeward
