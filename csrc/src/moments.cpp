#include "leeward/core/moments.hpp"

#include <algorithm>

#include "leeward/core/lanes.hpp"

namespace leeward {
namespace {

struct PowerSums {
  Lanes power[4];
};

// n a multiple of 16 or the end of the stream; absent lanes are zero.
LEEWARD_CLONES void add_powers(const double* z, std::int64_t n, PowerSums* sums) {
  PowerSums s = *sums;
  for (std::int64_t i = 0; i < n; i += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double v = z[i + l], v2 = v * v;
      s.power[0].lane[l] += v;
      s.power[1].lane[l] += v2;
      s.power[2].lane[l] += v2 * v;
      s.power[3].lane[l] += v2 * v2;
    }
  }
  *sums = s;
}

}  // namespace

Moments normal_moments(const Stream& stream, std::int64_t count, Monitor* monitor) {
  double z[kBlock];
  PowerSums sums;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    if (monitor != nullptr) monitor->poll();
    const std::int64_t m = std::min(kBlock, count - first);
    fill_normal(stream, static_cast<std::uint64_t>(first), m, z);
    std::fill(z + m, z + (m + kLanes - 1) / kLanes * kLanes, 0.0);
    add_powers(z, m, &sums);
  }
  const double n = static_cast<double>(count);
  return {sums.power[0].fold() / n, sums.power[1].fold() / n, sums.power[2].fold() / n, sums.power[3].fold() / n};
}

}  // namespace leeward
