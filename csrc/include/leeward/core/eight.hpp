// Eight doubles as one value, whatever the width W of the registers: sums over eight lanes whose bits depend on no SIMD level. For
// kernels that are templates of W (core/vectors.hpp).
#pragma once

#include "leeward/core/vectors.hpp"

namespace leeward {

template <int W>
struct Eight {
  Vector<W> part[8 / W] = {};
};

template <int W, class T>
LEEWARD_INLINE void load8(const T* x, Eight<W>& v) {
  for (int i = 0; i < 8 / W; ++i) load<W>(x + i * W, v.part[i]);
}
template <int W>
LEEWARD_INLINE void store8(const Eight<W>& v, double* x) {
  for (int i = 0; i < 8 / W; ++i) store<W>(v.part[i], x + i * W);
}
template <int W>
LEEWARD_INLINE void add8(const Eight<W>& v, Eight<W>& to) {
  for (int i = 0; i < 8 / W; ++i) to.part[i] += v.part[i];
}
template <int W>
LEEWARD_INLINE void add_product8(const Eight<W>& a, const Eight<W>& b, Eight<W>& to) {
  for (int i = 0; i < 8 / W; ++i) to.part[i] += a.part[i] * b.part[i];
}
template <int W>
LEEWARD_INLINE void add_scaled8(double by, const Eight<W>& v, Eight<W>& to) {
  for (int i = 0; i < 8 / W; ++i) to.part[i] += by * v.part[i];
}
// count += 1 and sum += x in the lanes with x > tau.
template <int W>
LEEWARD_INLINE void add_above8(const Eight<W>& x, double tau, Eight<W>& count, Eight<W>& sum) {
  for (int i = 0; i < 8 / W; ++i) {
#if defined(__GNUC__)
    const Vector<W> zero = {}, one = zero + 1.0;
    count.part[i] += x.part[i] > tau ? one : zero;
    sum.part[i] += x.part[i] > tau ? x.part[i] : zero;
#else
    for (int l = 0; l < W; ++l) {
      count.part[i].lane[l] += x.part[i].lane[l] > tau ? 1.0 : 0.0;
      sum.part[i].lane[l] += x.part[i].lane[l] > tau ? x.part[i].lane[l] : 0.0;
    }
#endif
  }
}
// ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7))
template <int W>
LEEWARD_INLINE double fold8(const Eight<W>& v) {
  alignas(64) double lane[8];
  store8(v, lane);
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

}  // namespace leeward
