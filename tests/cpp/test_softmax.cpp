// The softmax passes against hd::SoftmaxLoss, which takes one sample after the other.
#include <cmath>
#include <vector>

#include "harness.hpp"
#include "leeward/core/stream.hpp"
#include "leeward/oracle/softmax_passes.hpp"

using namespace leeward;

namespace {

constexpr std::int64_t kSamples = 37;

// The largest difference of value, slopes, curvatures and conjugate from those of hd::SoftmaxLoss.
double difference(std::int64_t classes) {
  std::vector<double> z(static_cast<std::size_t>(kSamples * classes)), y(kSamples), sums(kSamples), conjugates(kSamples);
  fill_normal(Stream(9, Purpose::user, 0), 0, kSamples * classes, z.data());
  for (double& v : z) v *= 5.0;
  for (std::int64_t k = 0; k < kSamples; ++k) y[static_cast<std::size_t>(k)] = static_cast<double>(11 * k % classes);
  std::vector<double> slopes(z.size()), curvatures(z.size()), row(static_cast<std::size_t>(classes));
  softmax_values({z.data(), y.data(), kSamples, classes}, sums.data());
  softmax_slopes({z.data(), y.data(), kSamples, classes}, nullptr, slopes.data());
  softmax_curvatures({z.data(), y.data(), kSamples, classes}, curvatures.data());
  softmax_conjugates({slopes.data(), y.data(), kSamples, classes}, conjugates.data());
  const hd::SoftmaxLoss one{classes};
  double most = 0.0;
  const auto compare = [&](double a, double b) { most = std::fmax(most, std::fabs(a - b)); };
  for (std::int64_t k = 0; k < kSamples; ++k) {
    const auto i = static_cast<std::size_t>(k), at = static_cast<std::size_t>(k * classes);
    const auto label = static_cast<std::int64_t>(y[i]);
    compare(sums[i], one.value(z.data() + at, label));
    compare(conjugates[i], one.conjugate(slopes.data() + at, label));
    one.slopes(z.data() + at, label, row.data());
    for (std::size_t c = 0; c < row.size(); ++c) compare(slopes[at + c], row[c]);
    one.curvatures(z.data() + at, row.data());
    for (std::size_t c = 0; c < row.size(); ++c) compare(curvatures[at + c], row[c]);
  }
  return most;
}

TEST("up to 64 classes have the bits of one sample after the other") {
  for (std::int64_t classes = 2; classes <= 64; ++classes) CHECK(difference(classes) == 0.0);
}

TEST("more classes differ from it by rounding only") {
  for (const std::int64_t classes : {65, 80, 95, 96, 100, 127, 200, 1000}) {
    const double most = difference(classes);
    CHECK(most > 0.0 && most < 1e-13);
  }
}

}  // namespace
