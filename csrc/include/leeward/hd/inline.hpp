// LEEWARD_HD marks the small functions of hd/: always inlined on the host, so that a loop around them vectorises in each
// SIMD clone, and compiled for both sides under CUDA. Also the two bit casts every such function needs.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define LEEWARD_HD __host__ __device__ __forceinline__
#elif defined(_MSC_VER)
#define LEEWARD_HD __forceinline
#else
#define LEEWARD_HD inline __attribute__((always_inline))
#endif

namespace leeward::hd {

LEEWARD_HD std::uint64_t bits_of(double x) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint64_t>(__double_as_longlong(x));
#else
  return std::bit_cast<std::uint64_t>(x);
#endif
}

LEEWARD_HD double from_bits(std::uint64_t u) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<long long>(u));
#else
  return std::bit_cast<double>(u);
#endif
}

}  // namespace leeward::hd
