// Is every element finite? One pass at the speed of memory; the position of the first offender otherwise.
// Answers of user code are copied and checked in the same pass.
#pragma once

#include <cstdint>

#include "leeward/core/resources.hpp"

namespace leeward {

// The smallest i with x[i] infinite or NaN, or -1. T is float or double.
template <class T>
std::int64_t first_non_finite(const T* x, std::int64_t n, const Resources& use);

bool all_finite(const double* x, std::int64_t n);

// Copies x[0..n) to out (which may be x itself) and returns whether all of it is finite.
bool copy_and_check(const double* x, std::int64_t n, double* out);

}  // namespace leeward
