// Levels without samples: a linear map, and one scalar function at each of n numbers,
//
//   LinearLevel        u -> A u + b
//   ElementwiseLevel   u_j -> scale m(u_j) + shift,   m(u) = u, log u, sqrt u, u^p, e^u
//
// log, sqrt and powers that need it ask for positive numbers (LevelShape::floor).
#pragma once

#include <memory>
#include <vector>

#include "leeward/oracle/level.hpp"

namespace leeward {

enum class ScalarMap : int { identity = 0, log = 1, sqrt = 2, power = 3, exp = 4 };

struct ElementwiseSettings {
  std::int64_t count = 1;
  ScalarMap map = ScalarMap::identity;
  double exponent = 1;
  double scale = 1, shift = 0;
  double floor = 0;  // the least number that log, sqrt and such powers are taken of
};

std::shared_ptr<const Level> make_elementwise(const ElementwiseSettings& settings);
// a (rows, cols) row-major, b (rows).
std::shared_ptr<const Level> make_linear_level(std::vector<double> a, std::vector<double> b, std::int64_t cols);

}  // namespace leeward
