// A fixed sample of a large loss vector, one draw from each of equal cells, as a frame of its own. Solving it first gives a start
// so near the answer that few passes over all losses remain; the answer itself never depends on the sample's luck.
#pragma once

#include "leeward/core/resources.hpp"
#include "leeward/risk/frame.hpp"

namespace leeward {

inline constexpr std::int64_t kSampleFrom = 32768;  // shorter vectors are solved directly
inline constexpr std::int64_t kSampleMost = 65536;

inline constexpr std::int64_t sample_size(std::int64_t n) {
  const std::int64_t m = n / 32;
  return m < 4096 ? 4096 : (m > kSampleMost ? kSampleMost : m);
}

// The sample's frame (memory from the workspace, until the caller's Scope ends); size 0 if its base weights are all zero.
template <class T>
Frame<double> sample_of(const Frame<T>& f, Resources& use);

}  // namespace leeward
