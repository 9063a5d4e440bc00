// Some doubles in one register: two of them at the baseline, four at AVX2, eight at AVX-512. For kernels that must keep many sums in
// registers, which arrays of lanes do not promise, and a vector wider than the registers least of all (GCC then goes through memory,
// a hundred times slower). So such a kernel is a template of the width, compiled for each level with LEEWARD_AT_AVX2 and LEEWARD_AT_AVX512
// under names that end in _at_avx2 and _at_avx512, and chosen by register_width(). Arithmetic is lane by lane: bits depend on no width.
#pragma once

#include <cstring>

#include "leeward/core/simd.hpp"

#if defined(LEEWARD_CLONES_CHOSEN)
#define LEEWARD_AT_AVX2 __attribute__((target("arch=x86-64-v3")))
#define LEEWARD_AT_AVX512 __attribute__((target("arch=x86-64-v4")))
#else
#define LEEWARD_AT_AVX2
#define LEEWARD_AT_AVX512
#endif

namespace leeward {

// Doubles in a register of the level that kernels run at here.
inline int register_width() {
  const char* const level = simd_level();
  return std::strcmp(level, "avx512") == 0 ? 8 : std::strcmp(level, "avx2") == 0 ? 4 : 2;
}

#if defined(__GNUC__)
template <int W>
struct VectorOf;
template <>
struct VectorOf<2> {
  typedef double type __attribute__((vector_size(16)));
  typedef float narrow __attribute__((vector_size(8)));
};
template <>
struct VectorOf<4> {
  typedef double type __attribute__((vector_size(32)));
  typedef float narrow __attribute__((vector_size(16)));
};
template <>
struct VectorOf<8> {
  typedef double type __attribute__((vector_size(64)));
  typedef float narrow __attribute__((vector_size(32)));
};
template <int W>
using Vector = typename VectorOf<W>::type;

template <int W>
LEEWARD_INLINE void load(const double* x, Vector<W>& v) {
  std::memcpy(&v, x, sizeof(v));
}
template <int W>
LEEWARD_INLINE void load(const float* x, Vector<W>& v) {
  typename VectorOf<W>::narrow f;
  std::memcpy(&f, x, sizeof(f));
  if constexpr (W == 8) {
    for (int l = 0; l < W; ++l) v[l] = static_cast<double>(f[l]);  // one instruction; __builtin_convertvector takes four
  } else {
    v = __builtin_convertvector(f, Vector<W>);
  }
}
template <int W>
LEEWARD_INLINE void store(const Vector<W>& v, double* x) {
  std::memcpy(x, &v, sizeof(v));
}
#else
template <int W>
struct Vector {
  double lane[W];
  Vector& operator+=(const Vector& o) {
    for (int l = 0; l < W; ++l) lane[l] += o.lane[l];
    return *this;
  }
  friend Vector operator*(const Vector& a, const Vector& b) {
    Vector c;
    for (int l = 0; l < W; ++l) c.lane[l] = a.lane[l] * b.lane[l];
    return c;
  }
  friend Vector operator*(double a, const Vector& b) {
    Vector c;
    for (int l = 0; l < W; ++l) c.lane[l] = a * b.lane[l];
    return c;
  }
};
template <int W, class T>
LEEWARD_INLINE void load(const T* x, Vector<W>& v) {
  for (int l = 0; l < W; ++l) v.lane[l] = static_cast<double>(x[l]);
}
template <int W>
LEEWARD_INLINE void store(const Vector<W>& v, double* x) {
  for (int l = 0; l < W; ++l) x[l] = v.lane[l];
}
#endif

}  // namespace leeward
