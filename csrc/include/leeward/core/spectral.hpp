// Projections of a matrix onto balls: of the spectral norm (singular values clipped: the nearest point in the Frobenius norm) and
// of the Frobenius norm. A matrix inside its ball is left as it is, bit for bit.
#pragma once

#include <cstdint>

namespace leeward {

// Numbers of scratch that clip_spectral needs.
inline std::int64_t spectral_scratch(std::int64_t rows, std::int64_t cols) {
  const std::int64_t small = rows < cols ? rows : cols, large = rows < cols ? cols : rows;
  return 2 * small * small + large;
}

// a (rows, cols) row-major: singular values above `radius` become `radius`.
void clip_spectral(double* a, std::int64_t rows, std::int64_t cols, double radius, double* scratch);
// a scaled down to the norm `radius` where it is longer.
void clip_frobenius(double* a, std::int64_t count, double radius);

}  // namespace leeward
