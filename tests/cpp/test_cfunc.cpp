// The oracle of C functions from C++: calls of a large batch, statuses, bits for any number of threads, memory; and the checks of
// finite answers and the populations without end that oracles of user functions rest on.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "harness.hpp"
#include "leeward/core/check.hpp"
#include "leeward/estimator/component_mean.hpp"
#include "leeward/estimator/population.hpp"
#include "leeward/oracle/cfunc.hpp"

using namespace leeward;

namespace {

constexpr std::int64_t kDim = 3;
constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

// What the functions saw of one call after the other.
struct Seen {
  std::vector<std::int64_t> counts;
  std::int64_t bad = -1;  // sample at which losses fail
};

int losses(const double* w, std::int64_t dim, const std::int64_t* index, std::int64_t count, double* out, void* user) {
  auto* seen = static_cast<Seen*>(user);
  if (seen != nullptr) seen->counts.push_back(count);
  for (std::int64_t k = 0; k < count; ++k) {
    if (seen != nullptr && index[k] == seen->bad) return 3;
    out[k] = w[index[k] % dim] + 1e-3 * static_cast<double>(index[k]);
  }
  return 0;
}

int gradient(const double*, std::int64_t dim, const double* weights, const std::int64_t* index, std::int64_t count, double* out, void*) {
  for (std::int64_t k = 0; k < count; ++k) out[index[k] % dim] += weights[k];
  return 0;
}

CFunctionOracle oracle_of(std::int64_t size, bool parallel, Seen* seen = nullptr) {
  return {{.losses = losses, .gradient = gradient, .losses_user = seen}, size, kDim, parallel};
}

}  // namespace

TEST("a batch comes in calls of at most kCallSamples, in order") {
  Seen seen;
  const std::int64_t n = 2 * CFunctionOracle::kCallSamples + 5;
  const CFunctionOracle oracle = oracle_of(n, false, &seen);
  const std::vector<double> w{1.0, 2.0, 3.0};
  std::vector<double> out(static_cast<std::size_t>(n));
  Workspace workspace;
  Resources use{workspace, 2};
  oracle.losses(w.data(), {nullptr, n}, out.data(), use);
  CHECK((seen.counts == std::vector<std::int64_t>{4096, 4096, 5}));
  CHECK(out[0] == 1.0 && out[4097] == w[4097 % 3] + 1e-3 * 4097.0 && out.back() == w[(n - 1) % 3] + 1e-3 * static_cast<double>(n - 1));
}

TEST("the bits do not depend on threads, on parallel, or on whether the batch is named") {
  const std::int64_t n = 100003;
  std::vector<double> w{0.5, -1.0, 2.0}, weights(static_cast<std::size_t>(n));
  std::vector<std::int64_t> index(static_cast<std::size_t>(n));
  for (std::int64_t k = 0; k < n; ++k) {
    weights[static_cast<std::size_t>(k)] = 1.0 / static_cast<double>(k + 1);
    index[static_cast<std::size_t>(k)] = k;
  }
  std::vector<double> first(kDim), other(kDim);
  Workspace workspace;
  Resources one{workspace, 1};
  oracle_of(n, false).gradient(w.data(), {nullptr, n}, weights.data(), first.data(), one);
  for (int threads = 1; threads <= 3; ++threads)
    for (const bool parallel : {false, true}) {
      Resources use{workspace, threads};
      const CFunctionOracle oracle = oracle_of(n, parallel);
      oracle.gradient(w.data(), {nullptr, n}, weights.data(), other.data(), use);
      CHECK(first == other);
      oracle.gradient(w.data(), {index.data(), n}, weights.data(), other.data(), use);
      CHECK(first == other);
    }
}

TEST("a status other than 0 is thrown with the samples of its call") {
  Seen seen;
  seen.bad = 4100;
  const CFunctionOracle oracle = oracle_of(5000, true, &seen);
  const std::vector<double> w(kDim, 0.0);
  std::vector<double> out(5000);
  Workspace workspace;
  Resources use{workspace, 1};
  std::string message;
  try {
    oracle.losses(w.data(), {nullptr, 5000}, out.data(), use);
  } catch (const OracleFault& fault) {
    message = fault.what();
  }
  CHECK(message.find("losses returned status 3") == 0);
  CHECK(message.find("samples 4096, 4097") != std::string::npos);
}

TEST("an empty batch has a gradient of zeros, and calls give back their memory") {
  const CFunctionOracle oracle = oracle_of(10000, true);
  const std::vector<double> w(kDim, 1.0), weights(10000, 1.0);
  std::vector<double> out(kDim, kNan);
  const std::int64_t nothing = 0;
  Workspace workspace;
  Resources use{workspace, 2};
  oracle.gradient(w.data(), {&nothing, 0}, weights.data(), out.data(), use);
  CHECK((out == std::vector<double>{0.0, 0.0, 0.0}));
  oracle.gradient(w.data(), {nullptr, 10000}, weights.data(), out.data(), use);
  CHECK((out == std::vector<double>{3334.0, 3333.0, 3333.0}));
  const std::size_t held = workspace.capacity();
  for (int k = 0; k < 100; ++k) oracle.gradient(w.data(), {nullptr, 10000}, weights.data(), out.data(), use);
  CHECK(workspace.capacity() == held);
}

TEST("one number that is not finite is found wherever it stands, and a sum that overflows is none") {
  for (std::int64_t n = 0; n < 140; ++n) {
    std::vector<double> x(static_cast<std::size_t>(n), 1.5e308), copy(x.size(), 0.0);
    CHECK(all_finite(x.data(), n));
    CHECK(copy_and_check(x.data(), n, copy.data()) && copy == x);
    for (std::int64_t k = 0; k < n; ++k)
      for (const double bad : {kNan, kInf, -kInf}) {
        std::vector<double> y(x.size(), k % 2 ? 1.0 : 0.0);
        y[static_cast<std::size_t>(k)] = bad;
        CHECK(!all_finite(y.data(), n));
        CHECK(!copy_and_check(y.data(), n, copy.data()));
      }
  }
  const double opposite[2] = {kInf, -kInf};
  CHECK(!all_finite(opposite, 2));
}

TEST("a population without end is made in no time and drawn from without repeats") {
  const std::int64_t many = std::int64_t{1} << 62;
  const Population everyone(many, nullptr, nullptr);
  CHECK(everyone.count() == many && everyone.everyone() && everyone.groups() == 1 && everyone.sample(many - 1) == many - 1);

  struct Endless final : Oracle {
    std::int64_t size() const override { return 8; }
    std::int64_t dim() const override { return 1; }
    std::int64_t population() const override { return std::int64_t{1} << 62; }
    void losses(const double*, Batch, double*, Resources&) const override {}
    void gradient(const double*, Batch, const double*, double*, Resources&) const override {}
  };
  ComponentMean mean(std::make_shared<Endless>(), nullptr, nullptr, 5);
  mean.reserve(many, 4, true);
  mean.draw_batch(1, 100);  // more than the oracle's size
  const Batch batch = mean.batch();
  CHECK(batch.size == 100 && batch.index != nullptr);
  for (std::int64_t k = 0; k < 100; ++k) CHECK(batch.index[k] >= 0 && batch.index[k] < many && mean.weights()[k] == 1.0 / 100.0);
  mean.draw_batch(2, 8);
  CHECK(mean.batch().index != nullptr);
}
