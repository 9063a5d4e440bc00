// Levels of portfolio problems over rows r_1, ..., r_T of returns, read as float32 or float64 where they lie:
//
//   ReturnsMean        x      -> (mean <r, x>, x)
//   ReturnsDeviation   (y, x) -> (mean (<r, x> - y)^2, y)
//   DeviationPenalty   (z, y) -> -y + lam sqrt(z),  z > 0
#pragma once

#include <memory>

#include "leeward/oracle/level.hpp"

namespace leeward {

template <class T>
std::shared_ptr<const Level> make_returns_mean(DenseView<T> returns);
template <class T>
std::shared_ptr<const Level> make_returns_deviation(DenseView<T> returns);
// floor: the least z that is taken for a variance.
std::shared_ptr<const Level> make_deviation_penalty(double lam, double floor);

}  // namespace leeward
