// The vectors that tasks own, added by a fixed tree, so that the bits do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "leeward/core/lanes.hpp"
#include "leeward/core/parallel.hpp"
#include "leeward/core/simd.hpp"

namespace leeward {

// out = the sum of the tasks' vectors, `apart` numbers from one to the next, by the fixed tree of halves.
inline void add_partial_sums(double* partial, std::int64_t tasks, std::int64_t apart, std::int64_t dim, double* out,
                             int threads) {
  constexpr std::int64_t kColumns = 4096;
  parallel_blocks(block_count(dim, kColumns), tasks * dim < (1 << 16) ? 1 : threads, [&](std::int64_t b) {
    const std::int64_t first = b * kColumns, last = std::min(dim, first + kColumns);
    for (std::int64_t width = 1; width < tasks; width *= 2)
      for (std::int64_t t = 0; t + width < tasks; t += 2 * width) {
        double* LEEWARD_RESTRICT a = partial + t * apart;
        const double* LEEWARD_RESTRICT other = partial + (t + width) * apart;
        for (std::int64_t j = first; j < last; ++j) a[j] += other[j];
      }
    std::copy(partial + first, partial + last, out + first);
  });
}

}  // namespace leeward
