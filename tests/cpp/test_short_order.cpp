#include "leeward/core/short_order.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness.hpp"

using namespace leeward;

namespace {

// Numbers in [-1, 0] from a linear congruence, as they are, on a grid, next to an end, or closer together than keys tell.
std::vector<double> numbers(std::int64_t n, int kind) {
  std::vector<double> out(static_cast<std::size_t>(n));
  unsigned long long state = 12345 + static_cast<unsigned long long>(n);
  for (double& x : out) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const double u = static_cast<double>(state >> 11) * 0x1p-53;
    x = kind == 0 ? -u : kind == 1 ? -std::floor(8 * u) / 8 : kind == 2 ? -std::pow(u, 30) : -0.5 - std::floor(16 * u) * 0x1p-48;
  }
  return out;
}

}  // namespace

TEST("a short order is that of a stable sort, and tells of ties") {
  ShortOrder order;
  for (const std::int64_t n : {1, 2, 15, 16, 17, 100, 511, 512, 513, 1000, 1024})
    for (int kind = 0; kind < 4; ++kind) {
      const std::vector<double> x = numbers(n, kind);
      std::vector<std::uint16_t> index(x.size());
      for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::uint16_t>(i);
      std::stable_sort(index.begin(), index.end(), [&](std::uint16_t a, std::uint16_t b) { return x[a] < x[b]; });
      ascending_order(x.data(), n, &order);
      bool same = true, ties = false;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::uint16_t at = index[static_cast<std::size_t>(i)];
        same = same && order.index[i] == at && order.place()[i] == x[at];
        ties = ties || (i > 0 && x[at] == order.place()[i - 1]);
      }
      CHECK(same);
      CHECK(order.ties == ties);
      CHECK(order.place()[-1] == order.place()[0]);
    }
}
