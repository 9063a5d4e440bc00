// Is every element finite? One pass at the speed of memory; the position of the first offender otherwise.
#pragma once

#include <cstdint>

namespace leeward {

// The smallest i with x[i] infinite or NaN, or -1. T is float or double.
template <class T>
std::int64_t first_non_finite(const T* x, std::int64_t n, int threads);

}  // namespace leeward
