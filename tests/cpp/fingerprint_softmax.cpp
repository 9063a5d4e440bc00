// Softmax of few classes (samples in lanes) and of many (classes in lanes).
#include <vector>

#include "fingerprint.hpp"
#include "leeward/core/stream.hpp"
#include "leeward/oracle/softmax_passes.hpp"

using namespace leeward;

namespace {

constexpr std::int64_t kSamples = 53;

void evaluate(std::int64_t classes) {
  std::vector<double> z(static_cast<std::size_t>(kSamples * classes)), y(kSamples), weights(kSamples), sums(kSamples),
      rows(z.size());
  fill_normal(Stream(8, Purpose::user, 0), 0, kSamples * classes, z.data());
  fill_uniform(Stream(8, Purpose::user, 1), 0, kSamples, weights.data());
  for (double& v : z) v *= 4.0;
  for (std::int64_t k = 0; k < kSamples; ++k) y[static_cast<std::size_t>(k)] = static_cast<double>(7 * k % classes);
  const LossInputs in{z.data(), y.data(), kSamples, classes};
  softmax_values(in, sums.data());
  fingerprint::print("losses", sums.data(), kSamples);
  softmax_curvatures(in, rows.data());
  fingerprint::print("  curvatures", rows.data(), kSamples * classes);
  softmax_slopes(in, weights.data(), rows.data());
  fingerprint::print("  weighted slopes", rows.data(), kSamples * classes);
  softmax_slopes(in, nullptr, rows.data());
  fingerprint::print("  slopes", rows.data(), kSamples * classes);
  softmax_conjugates({rows.data(), y.data(), kSamples, classes}, sums.data());
  fingerprint::print("  conjugates", sums.data(), kSamples);
}

const fingerprint::Section section("softmax of 3 to 1000 classes", [] {
  for (const std::int64_t classes : {3, 64, 65, 79, 80, 100, 127, 200, 1000}) evaluate(classes);
});

}  // namespace
