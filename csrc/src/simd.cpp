#include "leeward/core/simd.hpp"

namespace leeward {

// With clones, the question the loader asked when it chose among them; else what the compiler was told.
const char* simd_level() {
#if defined(LEEWARD_CLONES_CHOSEN)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return "avx512";
  if (__builtin_cpu_supports("x86-64-v3")) return "avx2";
  return "baseline";
#elif defined(__AVX512F__) && defined(__AVX512VL__)
  return "avx512";
#elif defined(__AVX2__)
  return "avx2";
#else
  return "baseline";
#endif
}

}  // namespace leeward
