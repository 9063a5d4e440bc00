#include "leeward/oracle/level.hpp"

#include <algorithm>
#include <stdexcept>

#include "leeward/core/lanes.hpp"

namespace leeward {

Level::Level(const LevelShape& shape) : shape_(shape) {
  if (shape.inputs < 1 || shape.computed < 0 || shape.outputs() < 1) throw std::invalid_argument("a level needs inputs and outputs");
  if (shape.keep < 0 || shape.kept < 0 || shape.keep + shape.kept > shape.inputs)
    throw std::invalid_argument("a level can keep only inputs that it has");
  if (shape.size < 1 || shape.population < shape.size) throw std::invalid_argument("a level needs at least one sample");
  if (shape.positive < 0 || shape.positives < 0 || shape.positive + shape.positives > shape.inputs || shape.floor < 0.0)
    throw std::invalid_argument("a level can ask for positive inputs only among those that it has");
}

void Level::pull(const double* u, Batch batch, const double* weights, double* out, Resources& use) const {
  const Workspace::Scope scope(use.workspace);
  auto* const jacobian = use.workspace.take<double>(shape_.computed * shape_.inputs);
  const LevelPoint at{u, nullptr, jacobian};
  evaluate(&at, 1, batch, use);
  multiply_transposed(jacobian, shape_.computed, shape_.inputs, weights, out);
}

void Level::push(const double* u, Batch batch, const double* direction, double* out, Resources& use) const {
  const Workspace::Scope scope(use.workspace);
  auto* const jacobian = use.workspace.take<double>(shape_.computed * shape_.inputs);
  const LevelPoint at{u, nullptr, jacobian};
  evaluate(&at, 1, batch, use);
  multiply(jacobian, shape_.computed, shape_.inputs, direction, out);
}

LEEWARD_CLONES void multiply_transposed(const double* a, std::int64_t rows, std::int64_t cols, const double* weights, double* out) {
  std::fill(out, out + cols, 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    const double* LEEWARD_RESTRICT row = a + i * cols;
    double* LEEWARD_RESTRICT to = out;
    const double by = weights[i];
    LEEWARD_LANES
    for (std::int64_t j = 0; j < cols; ++j) to[j] += by * row[j];
  }
}

LEEWARD_CLONES void multiply(const double* a, std::int64_t rows, std::int64_t cols, const double* direction, double* out) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const double* const row = a + i * cols;
    Lanes acc;
    std::int64_t j = 0;
    for (; j + kLanes <= cols; j += kLanes) {
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) acc.lane[l] += row[j + l] * direction[j + l];
    }
    for (int l = 0; j < cols; ++j, ++l) acc.lane[l] += row[j] * direction[j];
    out[i] = acc.fold();
  }
}

}  // namespace leeward
