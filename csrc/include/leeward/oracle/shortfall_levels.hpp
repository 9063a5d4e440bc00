// Levels of portfolio problems that look at bad returns only, over rows r_1, ..., r_T read as float32 or float64 where they lie:
//
//   ReturnsShortfall   (y, x) -> (mean g(y - <r, x>), y)                              how far returns fall below y
//   ReturnsTail        (x, v) -> (mean g(-<r, x> - unit v), mean <r, x>, v)           how far losses exceed eta = unit v
//
// with g(u) = max(u, 0)^2, or max(u, 0) made smooth on [-h, h]:  g(u) = (u + h)^2 / (4 h) there.
#pragma once

#include <memory>

#include "leeward/oracle/level.hpp"

namespace leeward {

struct Shortfall {
  bool square = false;
  double smoothing = 1;  // h > 0, not used by the square
};

template <class T>
std::shared_ptr<const Level> make_returns_shortfall(DenseView<T> returns, Shortfall shortfall);
template <class T>
std::shared_ptr<const Level> make_returns_tail(DenseView<T> returns, Shortfall shortfall, double unit);

}  // namespace leeward
