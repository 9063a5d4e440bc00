#include "leeward/core/sum.hpp"

#include "leeward/core/lanes.hpp"
#include "leeward/core/parallel.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kSerial = 4 * kBlock;

template <class T>
LEEWARD_INLINE double sum_lanes(const T* LEEWARD_RESTRICT x, std::int64_t n) {
  Lanes a;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch_pass(x + i);
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) a.lane[l] += static_cast<double>(x[i + l]);
  }
  for (int l = 0; i < n; ++i, ++l) a.lane[l] += static_cast<double>(x[i]);
  return a.fold();
}

template <class T>
LEEWARD_INLINE double dot_lanes(const T* LEEWARD_RESTRICT x, const double* LEEWARD_RESTRICT y, std::int64_t n) {
  Lanes a;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch_pass(x + i);
    prefetch_pass(y + i);
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) a.lane[l] += static_cast<double>(x[i + l]) * y[i + l];
  }
  for (int l = 0; i < n; ++i, ++l) a.lane[l] += static_cast<double>(x[i]) * y[i];
  return a.fold();
}

LEEWARD_CLONES double block_sum(const double* x, std::int64_t n) { return sum_lanes(x, n); }
LEEWARD_CLONES double block_sum(const float* x, std::int64_t n) { return sum_lanes(x, n); }
LEEWARD_CLONES double block_dot(const double* x, const double* y, std::int64_t n) { return dot_lanes(x, y, n); }
LEEWARD_CLONES double block_dot(const float* x, const double* y, std::int64_t n) { return dot_lanes(x, y, n); }

// block(first, length) summed over the blocks of [0, n).
template <class Block>
double over_blocks(std::int64_t n, Resources& use, const Block& block) {
  if (n <= kBlock) return n > 0 ? block(0, n) : 0.0;
  const Workspace::Scope scope(use.workspace);
  const std::int64_t blocks = block_count(n);
  auto* part = use.workspace.take<double>(blocks);
  parallel_blocks(blocks, n < kSerial ? 1 : use.threads, [&](std::int64_t b) {
    use.glance();
    const std::int64_t first = b * kBlock;
    part[b] = block(first, n - first < kBlock ? n - first : kBlock);
  });
  return tree_sum(0, blocks, [part](std::int64_t b) { return part[b]; });
}

}  // namespace

template <class T>
double sum(const T* x, std::int64_t n, Resources& use) {
  return over_blocks(n, use, [x](std::int64_t first, std::int64_t m) { return block_sum(x + first, m); });
}

template <class T>
double dot(const T* x, const double* y, std::int64_t n, Resources& use) {
  return over_blocks(n, use, [x, y](std::int64_t first, std::int64_t m) { return block_dot(x + first, y + first, m); });
}

template double sum<float>(const float*, std::int64_t, Resources&);
template double sum<double>(const double*, std::int64_t, Resources&);
template double dot<float>(const float*, const double*, std::int64_t, Resources&);
template double dot<double>(const double*, const double*, std::int64_t, Resources&);

}  // namespace leeward
