#include "leeward/oracle/scalar_levels.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "leeward/hd/real_math.hpp"

namespace leeward {
namespace {

struct MapPoint {
  double value, slope;
};

MapPoint mapped(ScalarMap map, double exponent, double u) {
  switch (map) {
    case ScalarMap::log:
      return {hd::log(u), 1.0 / u};
    case ScalarMap::sqrt: {
      const double root = std::sqrt(u);
      return {root, 0.5 / root};
    }
    case ScalarMap::power:
      return {std::pow(u, exponent), exponent * std::pow(u, exponent - 1.0)};
    case ScalarMap::exp: {
      const double e = hd::exp(u);
      return {e, e};
    }
    case ScalarMap::identity:
      break;
  }
  return {u, 1.0};
}

// Whether a map is only for positive numbers: a power is for all of them when its exponent is a natural number.
bool needs_positive(ScalarMap map, double exponent) {
  if (map == ScalarMap::power) return exponent < 0.0 || exponent != std::floor(exponent);
  return map == ScalarMap::log || map == ScalarMap::sqrt;
}

class ElementwiseLevel final : public Level {
 public:
  explicit ElementwiseLevel(const ElementwiseSettings& s)
      : Level({.inputs = s.count,
               .computed = s.count,
               .positive = 0,
               .positives = needs_positive(s.map, s.exponent) ? s.count : 0,
               .floor = s.floor}),
        settings_(s) {}

  void evaluate(const LevelPoint* at, int count, Batch, Resources&) const override {
    const std::int64_t n = settings_.count;
    for (int k = 0; k < count; ++k) {
      if (at[k].jacobian != nullptr) std::fill(at[k].jacobian, at[k].jacobian + n * n, 0.0);
      for (std::int64_t j = 0; j < n; ++j) {
        const MapPoint m = mapped(settings_.map, settings_.exponent, at[k].point[j]);
        if (at[k].value != nullptr) at[k].value[j] = settings_.scale * m.value + settings_.shift;
        if (at[k].jacobian != nullptr) at[k].jacobian[j * n + j] = settings_.scale * m.slope;
      }
    }
  }

 private:
  ElementwiseSettings settings_;
};

class LinearLevel final : public Level {
 public:
  LinearLevel(std::vector<double> a, std::vector<double> b, std::int64_t cols)
      : Level({.inputs = cols, .computed = static_cast<std::int64_t>(b.size())}), a_(std::move(a)), b_(std::move(b)) {}

  void evaluate(const LevelPoint* at, int count, Batch, Resources&) const override {
    const std::int64_t rows = shape().computed;
    for (int k = 0; k < count; ++k) {
      if (at[k].jacobian != nullptr) std::copy(a_.begin(), a_.end(), at[k].jacobian);
      if (at[k].value == nullptr) continue;
      multiply(a_.data(), rows, shape().inputs, at[k].point, at[k].value);
      for (std::int64_t i = 0; i < rows; ++i) at[k].value[i] += b_[static_cast<std::size_t>(i)];
    }
  }

 private:
  std::vector<double> a_, b_;
};

}  // namespace

std::shared_ptr<const Level> make_elementwise(const ElementwiseSettings& settings) {
  if (settings.count < 1) throw std::invalid_argument("a level needs inputs and outputs");
  return std::make_shared<ElementwiseLevel>(settings);
}

std::shared_ptr<const Level> make_linear_level(std::vector<double> a, std::vector<double> b, std::int64_t cols) {
  if (b.empty() || cols < 1 || a.size() != b.size() * static_cast<std::size_t>(cols)) throw std::invalid_argument("A must have a row for each number of b");
  return std::make_shared<LinearLevel>(std::move(a), std::move(b), cols);
}

}  // namespace leeward
