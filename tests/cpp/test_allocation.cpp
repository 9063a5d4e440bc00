// Nothing is allocated in loops: once a loop has run, running it for longer calls operator new not once more.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#include "harness.hpp"
#include "leeward/descent/relaxed.hpp"
#include "leeward/estimator/averaged_levels.hpp"
#include "leeward/estimator/tracked_levels.hpp"
#include "leeward/oracle/portfolio_levels.hpp"
#include "leeward/oracle/scalar_levels.hpp"
#include "leeward/oracle/shortfall_levels.hpp"
#include "samples.hpp"

namespace {

std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t size, std::size_t align) {
  ++allocations;
  const std::size_t whole = (size + align - 1) / align * align;
  void* p = std::aligned_alloc(align, whole > 0 ? whole : align);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

// Not inlined: the compiler would otherwise pair a library's new with this free and warn of a mismatch.
#if defined(__GNUC__)
#define TEST_NOINLINE __attribute__((noinline))
#else
#define TEST_NOINLINE
#endif

TEST_NOINLINE void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
TEST_NOINLINE void* operator new[](std::size_t size) { return counted(size, alignof(std::max_align_t)); }
TEST_NOINLINE void* operator new(std::size_t size, std::align_val_t align) { return counted(size, static_cast<std::size_t>(align)); }
TEST_NOINLINE void* operator new[](std::size_t size, std::align_val_t align) { return counted(size, static_cast<std::size_t>(align)); }
TEST_NOINLINE void operator delete(void* p) noexcept { std::free(p); }
TEST_NOINLINE void operator delete[](void* p) noexcept { std::free(p); }
TEST_NOINLINE void operator delete(void* p, std::size_t) noexcept { std::free(p); }
TEST_NOINLINE void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
TEST_NOINLINE void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
TEST_NOINLINE void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
TEST_NOINLINE void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
TEST_NOINLINE void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

using namespace leeward;
using samples::Kind;

namespace {

// Calls of operator new during f, after one run of it as a warm-up.
template <class F>
std::int64_t allocations_of(const F& f) {
  f();
  const std::int64_t before = allocations;
  f();
  return allocations - before;
}

void no_step_allocates(const std::shared_ptr<const Oracle>& oracle, int threads) {
  Workspace workspace;
  Resources use{workspace, threads};
  for (const auto& [name, risk] : samples::risks())
    for (const Kind kind : {Kind::sgd, Kind::momentum, Kind::acsa})
      for (const bool replace : {true, false}) {
        Descent descent = samples::descent(kind, samples::minibatch(oracle, risk, 40, replace));
        CHECK(allocations_of([&] { descent.advance(20, 1e9, use); }) == 0);
      }
}

}  // namespace

TEST("the counter sees an allocation") {
  CHECK(allocations_of([] { std::vector<double> x(10); CHECK(x[3] == 0.0); }) >= 1);
}

TEST("no step of a descent allocates, for any risk and update, dense and CSR") {
  const samples::Logistic data(300, 9);
  no_step_allocates(data.dense(), 1);
  no_step_allocates(data.csr(), 1);
}

TEST("no step allocates on large batches and with two threads") {
  const samples::Logistic data(40000, 5);
  Workspace workspace;
  Resources use{workspace, 2};
  for (const auto& oracle : {data.dense(), data.csr()}) {
    Descent descent = samples::descent(Kind::acsa, samples::minibatch(oracle, make_kl(-1.0, 0.5), 40000, false));
    CHECK(allocations_of([&] { descent.advance(3, 1e9, use); }) == 0);
  }
}

TEST("no step and no stage of a finite-sum method allocates") {
  const samples::Logistic data(300, 9);
  Workspace workspace;
  Resources use{workspace, 1};
  for (const auto& oracle : {data.dense(), data.csr()})
    for (const auto& [name, estimator] : samples::finite_sums(oracle, 40, 8)) {
      Descent descent = samples::descent(Kind::momentum, estimator);
      CHECK(allocations_of([&] { descent.advance(60, 1e9, use); }) == 0);
    }
}

TEST("no step on a composition allocates, for any method and projection") {
  const std::int64_t n = 500, d = 11;
  const samples::Reals returns = samples::normal(n * d, 3);
  const DenseView<double> view{returns.data(), n, d, d};
  using Levels = std::vector<std::shared_ptr<const Level>>;
  const auto first = make_returns_mean(view), last = make_deviation_penalty(0.2, 1e-12);
  const Levels chains[] = {{first, make_returns_deviation(view), last},
                           {first, make_returns_shortfall(view, {.square = true}), last},
                           {make_returns_tail(view, {.smoothing = 0.1}, 1.5), make_linear_level({2.0, -1.0, 1.5}, {0.0}, 3)}};
  NestedSettings settings;
  settings.batch = 7;
  settings.first = 40;
  settings.beta = {{.first = 0.2, .exponent = 0.5}};
  std::vector<std::shared_ptr<Estimator>> all;
  for (const Levels& levels : chains) {
    for (const JacobianRule rule : {JacobianRule::tracked, JacobianRule::plain, JacobianRule::product, JacobianRule::average})
      all.push_back(std::make_shared<TrackedLevels>(levels, settings, TrackedSettings{.rule = rule, .radius = {}}));
    for (const BallNorm norm : {BallNorm::spectral, BallNorm::frobenius})
      all.push_back(std::make_shared<TrackedLevels>(
          levels, settings, TrackedSettings{.norm = norm, .radius = std::vector<double>(levels.size(), 0.1), .period = 5, .reach = 0.1}));
    for (const AverageRule rule : {AverageRule::scgd, AverageRule::atscgd, AverageRule::nlasg, AverageRule::plain})
      all.push_back(std::make_shared<AveragedLevels>(levels, settings, rule));
  }
  Workspace workspace;
  Resources use{workspace, 1};
  for (const auto& estimator : all) {
    Descent descent(estimator, std::make_unique<RelaxedUpdate>(std::vector<double>(static_cast<std::size_t>(estimator->dim()), 1.0 / 11.0), 0.5),
                    Domain(DomainKind::simplex, d, {1.0}, {0.0}), DescentSettings{.schedule = {.step = 0.01}, .metric = {}});
    CHECK(allocations_of([&] { descent.advance(60, 1e9, use); }) == 0);
    CHECK(descent.steps() == 120);
  }
}

TEST("no projection allocates") {
  const samples::Logistic data(300, 9);
  Workspace workspace;
  Resources use{workspace, 1};
  for (const DomainKind kind : {DomainKind::simplex, DomainKind::l1_ball, DomainKind::l2_ball, DomainKind::l1}) {
    Descent descent = samples::descent(Kind::sgd, samples::minibatch(data.dense(), make_mean(), 40), Domain(kind, 9, {0.5}, {0.5}));
    CHECK(allocations_of([&] { descent.advance(20, 1e9, use); }) == 0);
  }
}

TEST("no repeated solve of a risk allocates, short or long, weighted or not") {
  for (const std::int64_t n : {std::int64_t{100}, std::int64_t{100003}}) {
    const samples::Reals losses = samples::normal(n, 5);
    samples::Reals base = samples::normal(n, 6), weights(losses.size());
    for (double& b : base) b = b * b;
    Workspace workspace;
    Resources use{workspace, n > 1000 ? 2 : 1};
    for (const auto& [name, risk] : samples::risks())
      for (const double* p : {static_cast<const double*>(nullptr), static_cast<const double*>(base.data())})
        CHECK(allocations_of([&] { risk->solve(LossVector<double>{losses.data(), p, n}, weights.data(), use); }) == 0);
  }
}
