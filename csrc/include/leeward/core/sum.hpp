// Sums and dot products of long vectors: the lanes and the tree of lanes.hpp over parallel blocks, in double whatever is
// read. The bits depend on the data alone.
#pragma once

#include <cstdint>

#include "leeward/core/resources.hpp"

namespace leeward {

template <class T>
double sum(const T* x, std::int64_t n, Resources& use);

// sum_i x[i] y[i]
template <class T>
double dot(const T* x, const double* y, std::int64_t n, Resources& use);

}  // namespace leeward
