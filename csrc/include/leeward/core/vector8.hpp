// Eight doubles as one value, for kernels that must keep many of them in registers, which arrays of lanes do not promise. Arithmetic is
// lane by lane, so bits are those of a loop over the lanes at every SIMD level.
#pragma once

#include <cstdint>
#include <cstring>

#include "leeward/core/simd.hpp"

namespace leeward {

#if defined(__GNUC__)
typedef double Vector8 __attribute__((vector_size(64)));

LEEWARD_INLINE void load8(const double* x, Vector8& v) { std::memcpy(&v, x, sizeof(v)); }
LEEWARD_INLINE void load8(const float* x, Vector8& v) {
  typedef float Float8 __attribute__((vector_size(32)));
  Float8 f;
  std::memcpy(&f, x, sizeof(f));
  for (int l = 0; l < 8; ++l) v[l] = static_cast<double>(f[l]);  // one instruction; __builtin_convertvector takes four at AVX-512
}
LEEWARD_INLINE void store8(const Vector8& v, double* x) { std::memcpy(x, &v, sizeof(v)); }
LEEWARD_INLINE double lane8(const Vector8& v, int l) { return v[l]; }
#else
struct Vector8 {
  double lane[8];
  Vector8& operator+=(const Vector8& o) {
    for (int l = 0; l < 8; ++l) lane[l] += o.lane[l];
    return *this;
  }
  friend Vector8 operator*(const Vector8& a, const Vector8& b) {
    Vector8 c;
    for (int l = 0; l < 8; ++l) c.lane[l] = a.lane[l] * b.lane[l];
    return c;
  }
  friend Vector8 operator*(double a, const Vector8& b) {
    Vector8 c;
    for (int l = 0; l < 8; ++l) c.lane[l] = a * b.lane[l];
    return c;
  }
};
template <class T>
LEEWARD_INLINE void load8(const T* x, Vector8& v) {
  for (int l = 0; l < 8; ++l) v.lane[l] = static_cast<double>(x[l]);
}
LEEWARD_INLINE void store8(const Vector8& v, double* x) {
  for (int l = 0; l < 8; ++l) x[l] = v.lane[l];
}
LEEWARD_INLINE double lane8(const Vector8& v, int l) { return v.lane[l]; }
#endif

// Whether there are thirty-two registers of eight doubles, which the size of a block depends on.
inline bool wide_registers() { return std::strcmp(simd_level(), "avx512") == 0; }

// ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)), as oracle/linear_dense folds.
LEEWARD_INLINE double fold8(const Vector8& v) {
  return ((lane8(v, 0) + lane8(v, 4)) + (lane8(v, 2) + lane8(v, 6))) + ((lane8(v, 1) + lane8(v, 5)) + (lane8(v, 3) + lane8(v, 7)));
}

}  // namespace leeward
