// How a kernel is compiled for several x86-64 levels at once.
//
// LEEWARD_CLONES before a free function (or an explicitly instantiated template) makes the compiler emit it for the
// baseline, AVX2 and AVX-512 and pick one when the library is loaded. Everything called inside must be inlined, so helper
// functors are LEEWARD_INLINE. Contraction is off everywhere, hence each clone returns the same bits.
#pragma once

#include <cstdint>  // any system header: glibc's defines __GLIBC__, which LEEWARD_CLONES asks for

#if defined(LEEWARD_DISPATCH) && defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define LEEWARD_CLONES_CHOSEN 1
#define LEEWARD_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define LEEWARD_CLONES
#endif

#if defined(_MSC_VER)
#define LEEWARD_INLINE __forceinline
#define LEEWARD_RESTRICT __restrict
#else
#define LEEWARD_INLINE inline __attribute__((always_inline))
#define LEEWARD_RESTRICT __restrict__
#endif

// LEEWARD_LANES before `for (int l = 0; l < kLanes; ++l)` makes that loop vectorise as it stands. Without it GCC unrolls a
// short loop first, turns the lanes into sixteen scalars and never finds the vectors again: five times slower. It is
// OpenMP's simd directive, which needs no OpenMP library. The iterations must be independent (acc.lane[l] += ... is; a
// sum into one scalar is not), and then it changes no bits.
#if defined(__GNUC__)
#define LEEWARD_LANES _Pragma("omp simd")
#else
#define LEEWARD_LANES
#endif

namespace leeward {

// The level the kernels of this build run at here: "baseline", "avx2" or "avx512".
const char* simd_level();

}  // namespace leeward
