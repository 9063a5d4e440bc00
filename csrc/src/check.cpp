#include "leeward/core/check.hpp"

#include <atomic>

#include "leeward/core/lanes.hpp"
#include "leeward/core/parallel.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kSerial = 4 * kBlock;  // below this a second thread costs more than it saves

// x - x is 0 for a finite number and NaN otherwise, and a NaN stays in its lane.
template <class T>
LEEWARD_INLINE bool lanes_are_finite(const T* x, std::int64_t n) {
  T lane[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch_pass(x + i);
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) lane[l] += x[i + l] - x[i + l];
  }
  for (; i < n; ++i) lane[0] += x[i] - x[i];
  T sum = 0;
  for (int l = 0; l < kLanes; ++l) sum += lane[l];
  return sum == 0;
}

LEEWARD_CLONES bool block_is_finite(const double* x, std::int64_t n) { return lanes_are_finite(x, n); }
LEEWARD_CLONES bool block_is_finite(const float* x, std::int64_t n) { return lanes_are_finite(x, n); }

// The sum of x, copied to out where Copy says so: infinite or NaN if an element is, and else only where it overflows.
constexpr int kWide = 2 * kLanes;  // two independent chains of additions in the widest registers

template <bool Copy>
LEEWARD_INLINE double plain_sum(const double* x, std::int64_t n, double* out) {
  double rest[4] = {};
  std::int64_t i = 0;
  if (n >= 4 * kWide) {  // up to a cache line's border: registers as wide as a line would touch two each time
    const double* const border = Copy ? out : x;
    for (; reinterpret_cast<std::uintptr_t>(border + i) % 64 != 0 && i < 8; ++i) {
      const double v = x[i];
      if (Copy) out[i] = v;
      rest[i % 4] += v;
    }
  }
  if (n - i >= kWide) {
    double lane[kWide] = {};
    for (; i + kWide <= n; i += kWide) {
      LEEWARD_LANES
      for (int l = 0; l < kWide; ++l) {
        const double v = x[i + l];
        if (Copy) out[i + l] = v;
        lane[l] += v;
      }
    }
    for (int l = 0; l < 4; ++l)
      for (int m = 4; m < kWide; m += 4) lane[l] += lane[l + m];
    for (int l = 0; l < 4; ++l) rest[l] += lane[l];
  }
  for (; i + 4 <= n; i += 4)
    for (int l = 0; l < 4; ++l) {
      const double v = x[i + l];
      if (Copy) out[i + l] = v;
      rest[l] += v;
    }
  for (; i < n; ++i) {
    const double v = x[i];
    if (Copy) out[i] = v;
    rest[0] += v;
  }
  return (rest[0] + rest[1]) + (rest[2] + rest[3]);
}

LEEWARD_CLONES double sum_of(const double* x, std::int64_t n) { return plain_sum<false>(x, n, nullptr); }
LEEWARD_CLONES double copy_sum(const double* x, std::int64_t n, double* out) { return plain_sum<true>(x, n, out); }

bool is_finite(double sum) { return sum - sum == 0; }

}  // namespace

bool all_finite(const double* x, std::int64_t n) { return is_finite(sum_of(x, n)) || block_is_finite(x, n); }

bool copy_and_check(const double* x, std::int64_t n, double* out) {
  return is_finite(copy_sum(x, n, out)) || block_is_finite(out, n);
}

template <class T>
std::int64_t first_non_finite(const T* x, std::int64_t n, const Resources& use) {
  const std::int64_t blocks = block_count(n);
  std::atomic<std::int64_t> first{blocks};  // the first block with an offender
  parallel_blocks(blocks, n < kSerial ? 1 : use.threads, [&](std::int64_t b) {
    use.glance();
    if (b >= first.load(std::memory_order_relaxed)) return;
    const std::int64_t begin = b * kBlock;
    if (block_is_finite(x + begin, n - begin < kBlock ? n - begin : kBlock)) return;
    std::int64_t seen = first.load();
    while (b < seen && !first.compare_exchange_weak(seen, b)) {
    }
  });
  for (std::int64_t i = first.load() * kBlock; i < n; ++i)
    if (!(x[i] - x[i] == 0)) return i;
  return -1;
}

template std::int64_t first_non_finite<float>(const float*, std::int64_t, const Resources&);
template std::int64_t first_non_finite<double>(const double*, std::int64_t, const Resources&);

}  // namespace leeward
