// Is every element finite? One pass at the speed of memory; the position of the first offender otherwise.
#pragma once

#include <cstdint>

#include "leeward/core/resources.hpp"

namespace leeward {

// The smallest i with x[i] infinite or NaN, or -1. T is float or double.
template <class T>
std::int64_t first_non_finite(const T* x, std::int64_t n, const Resources& use);

}  // namespace leeward
