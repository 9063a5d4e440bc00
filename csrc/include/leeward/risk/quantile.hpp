// The upper quantile of a loss vector under its base weights, exact, by selection instead of sorting.
#pragma once

#include "leeward/risk/frame.hpp"

namespace leeward {

// The greatest place v with P(x >= v) * total >= mass, for 0 < mass <= total.
template <class T>
double upper_quantile(const Frame<T>& f, double mass, Resources& use);

}  // namespace leeward
