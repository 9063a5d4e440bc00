#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "harness.hpp"
#include "leeward/core/check.hpp"
#include "leeward/core/lanes.hpp"
#include "leeward/core/sum.hpp"

using namespace leeward;

namespace {

std::vector<double> wavy(std::int64_t n) {
  std::vector<double> x(static_cast<std::size_t>(n));
  double v = 0.1;
  for (double& e : x) {
    v = 3.9 * v * (1.0 - v);
    e = v - 0.5;
  }
  return x;
}

// The definition, written plainly.
double by_definition(const std::vector<double>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<double> part;
  for (std::int64_t b = 0; b < n; b += kBlock) {
    Lanes lanes;
    for (std::int64_t i = b; i < n && i < b + kBlock; ++i) lanes.lane[(i - b) % kLanes] += x[static_cast<std::size_t>(i)];
    part.push_back(lanes.fold());
  }
  return tree_sum(0, static_cast<std::int64_t>(part.size()), [&](std::int64_t b) { return part[static_cast<std::size_t>(b)]; });
}

}  // namespace

TEST("a sum has the bits of its definition for any number of threads") {
  Workspace workspace;
  for (const std::int64_t n : {0, 1, 15, 16, 17, 8191, 8192, 8193, 100003, 500000}) {
    const std::vector<double> x = wavy(n);
    for (int threads = 1; threads <= 3; ++threads) {
      Resources use{workspace, threads};
      CHECK(sum(x.data(), n, use) == by_definition(x));
    }
  }
}

TEST("a sum of float32 numbers is taken in double") {
  Workspace workspace;
  Resources use{workspace, 2};
  const std::int64_t n = 1 << 20;
  const std::vector<float> x(static_cast<std::size_t>(n), 0.1F);
  CHECK(std::abs(sum(x.data(), n, use) - 0.1F * static_cast<double>(n)) < 1e-9 * static_cast<double>(n));
}

TEST("a dot product with ones is the sum") {
  Workspace workspace;
  Resources use{workspace, 2};
  const std::vector<double> x = wavy(70001), ones(70001, 1.0);
  CHECK(dot(x.data(), ones.data(), 70001, use) == sum(x.data(), 70001, use));
}

TEST("a tree sum splits at the largest power of two below its length") {
  const double big = 0x1p53;
  const std::vector<double> x = {big, 1.0, 1.0, 1.0, 1.0};  // ((big + 1) + (1 + 1)) + 1
  const double expected = ((x[0] + x[1]) + (x[2] + x[3])) + x[4];
  CHECK(tree_sum(0, 5, [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; }) == expected);
  CHECK(tree_sum(0, 0, [](std::int64_t) { return 1.0; }) == 0.0);
}

TEST("the first position that is not finite is found for any number of threads") {
  Workspace workspace;
  const std::int64_t n = 200000;
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<double> x(static_cast<std::size_t>(n), std::numeric_limits<double>::max());
    const Resources use{workspace, threads};
    CHECK(first_non_finite(x.data(), n, use) == -1);
    x[199999] = std::numeric_limits<double>::quiet_NaN();
    CHECK(first_non_finite(x.data(), n, use) == 199999);
    x[70003] = -std::numeric_limits<double>::infinity();
    CHECK(first_non_finite(x.data(), n, use) == 70003);
    x[0] = std::numeric_limits<double>::infinity();
    CHECK(first_non_finite(x.data(), n, use) == 0);
  }
  const float y[] = {1.0F, std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()};
  const Resources use{workspace, 1};
  CHECK(first_non_finite(y, 2, use) == -1);
  CHECK(first_non_finite(y, 3, use) == 2);
  CHECK(first_non_finite(y, 0, use) == -1);
}
