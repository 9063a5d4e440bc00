// The upper tail of a loss vector under its base weights, exact, by selection instead of sorting.
#pragma once

#include "leeward/risk/frame.hpp"

namespace leeward {

// The tail of a given mass: it starts at the greatest place v with P(x >= v) * total >= mass.
struct UpperTail {
  double threshold = 0;  // v
  double above = 0;      // sum of b over x > v
  double on = 0;         // sum of b over x = v
  double excess = 0;     // sum of b (x - v) over x > v
};

// 0 < mass <= total
template <class T>
UpperTail upper_tail(const Frame<T>& f, double mass, Resources& use);

}  // namespace leeward
