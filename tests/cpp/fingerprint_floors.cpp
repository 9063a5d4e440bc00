// Real functions, draws and sums.
#include <vector>

#include "fingerprint.hpp"
#include "leeward/core/moments.hpp"
#include "leeward/core/real_arrays.hpp"
#include "leeward/core/sampler.hpp"
#include "leeward/core/sum.hpp"

using namespace leeward;
using fingerprint::print;

namespace {

constexpr std::int64_t kCount = 100003;
using Reals = std::vector<double>;

Reals spread(double low, double high) {
  Reals x(kCount);
  fill_uniform(Stream(1, Purpose::user, 0), 0, kCount, x.data());
  for (double& v : x) v = low + (high - low) * v;
  return x;
}

void map(const char* what, void (*f)(const double*, std::int64_t, double*), const Reals& x) {
  Reals out(x.size());
  f(x.data(), static_cast<std::int64_t>(x.size()), out.data());
  print(what, out.data(), static_cast<std::int64_t>(out.size()));
}

const fingerprint::Section real_math("real functions", [] {
  map("exp", &exp_array, spread(-760.0, 720.0));
  map("exp near 0", &exp_array, spread(-1.0, 1.0));
  map("expm1", &expm1_array, spread(-2.0, 2.0));
  map("log", &log_array, spread(0.0, 4.0));
  map("log of subnormals", &log_array, spread(0.0, 1e-307));
  map("log1p", &log1p_array, spread(-1.0, 3.0));
  map("sigmoid", &sigmoid_array, spread(-50.0, 50.0));
  map("softplus", &softplus_array, spread(-50.0, 50.0));
});

const fingerprint::Section draws("draws", [] {
  const Stream stream(2026, Purpose::noise, 3);
  Reals x(kCount);
  fill_open_uniform(stream, 1, kCount, x.data());
  print("open uniform", x.data(), kCount);
  fill_normal(stream, 1, kCount, x.data());
  print("normal", x.data(), kCount);
  std::vector<std::int64_t> k(kCount);
  sample_with_replacement(stream, 1000003, 0, kCount, k.data());
  print("below", k.data(), kCount);
  sample_without_replacement(stream, 1000003, 5, kCount, k.data());
  print("permutation", k.data(), kCount);
  for (double& v : x) v = v * v;
  AliasTable(x.data(), kCount).sample(stream, 0, kCount, k.data());
  print("weighted", k.data(), kCount);
  for (std::int64_t i = 0; i < kCount; ++i) k[static_cast<std::size_t>(i)] = stream.geometric(static_cast<std::uint64_t>(i), 31.5);
  print("geometric", k.data(), kCount);
  const Moments z = normal_moments(stream, kCount, nullptr);
  print("moments", &z.first, 4);
});

const fingerprint::Section sums("sums", [] {
  const Reals x = spread(-1.0, 1.0);
  const std::vector<float> y(x.begin(), x.end());
  Workspace workspace;
  for (int threads = 1; threads <= 3; ++threads) {
    Resources use{workspace, threads};
    const double s[] = {sum(x.data(), kCount, use), sum(y.data(), kCount, use), dot(x.data(), x.data(), kCount, use),
                        dot(y.data(), x.data(), kCount, use)};
    print("sum and dot, float64 and float32", s, 4);
  }
});

}  // namespace
