// Estimator, updates, projections and the driver, against sums written out here and against what must not change the bits.
#include <cmath>
#include <limits>
#include <vector>

#include "harness.hpp"
#include "samples.hpp"

using namespace leeward;
using samples::Kind;
using samples::Reals;

namespace {

Reals after(Kind kind, const std::shared_ptr<const Oracle>& oracle, std::vector<std::int64_t> stretches, int threads) {
  Workspace workspace;
  Resources use{workspace, threads};
  Descent d = samples::descent(kind, samples::minibatch(oracle, make_kl(-1.0, 0.5), 3000));
  for (const std::int64_t steps : stretches) CHECK(d.advance(steps, 1e9, use));
  return {d.answer(), d.answer() + d.dim()};
}

}  // namespace

TEST("a run cut into stretches gives the bits of one stretch, for any number of threads, dense and CSR") {
  const samples::Logistic data(4000, 9);
  for (const auto& oracle : {data.dense(), data.csr()})
    for (const Kind kind : {Kind::sgd, Kind::momentum, Kind::acsa}) {
      const Reals whole = after(kind, oracle, {12}, 1);
      CHECK(after(kind, oracle, {1, 4, 7}, 1) == whole);
      CHECK(after(kind, oracle, {12}, 2) == whole);
      CHECK(after(kind, oracle, {12}, 3) == whole);
    }
}

TEST("the estimate of a batch of everyone is the risk and its gradient") {
  const samples::Logistic data(200, 4);
  const auto oracle = data.dense();
  const auto estimator = samples::minibatch(oracle, make_cvar(0.3), 1000, false);
  CHECK(estimator->size() == 200 && estimator->draw(5) == nullptr);
  const Reals w = samples::normal(5, 8);
  Reals direction(5), losses(200), weights(200), gradient(5);
  Workspace workspace;
  Resources use{workspace, 1};
  const Estimate e = estimator->direction(w.data(), 3, direction.data(), use);
  oracle->losses(w.data(), {nullptr, 200}, losses.data(), use);
  const double value = make_cvar(0.3)->solve(LossVector<double>{losses.data(), nullptr, 200}, weights.data(), use).value;
  oracle->gradient(w.data(), {nullptr, 200}, weights.data(), gradient.data(), use);
  CHECK(e.finite && e.value == value && direction == gradient);
  CHECK(e.losses == 200 && e.gradients == 200);
}

TEST("a draw is a value of its step, and samples without replacement are distinct") {
  const samples::Logistic data(50, 3);
  const auto estimator = samples::minibatch(data.dense(), make_mean(), 20, false);
  const std::vector<std::int64_t> first(estimator->draw(7), estimator->draw(7) + 20);
  estimator->draw(8);
  const std::int64_t* again = estimator->draw(7);
  std::vector<int> seen(50, 0);
  for (std::size_t k = 0; k < 20; ++k) {
    CHECK(again[k] == first[k]);
    CHECK(first[k] >= 0 && first[k] < 50 && ++seen[static_cast<std::size_t>(first[k])] == 1);
  }
}

TEST("a population leaves out weight 0 and finds positions by their weights") {
  const double base[] = {0.0, 1.0, 3.0, 0.0};
  const Population p(4, base, nullptr);
  CHECK(p.count() == 2 && p.groups() == 1 && p.weighted() && !p.everyone());
  CHECK(p.sample(p.position(0, 0.2)) == 1 && p.sample(p.position(0, 0.3)) == 2 && p.sample(p.position(0, 0.999)) == 2);
}

TEST("projections end in the set and do not move what is inside") {
  for (const DomainKind kind : {DomainKind::simplex, DomainKind::l1_ball, DomainKind::l2_ball}) {
    Domain domain(kind, 6, {1.5}, {0.0});
    Reals v = samples::normal(6, 9);
    for (double& x : v) x *= 4.0;
    domain.prox(v.data(), 1.0, nullptr);
    double sum = 0.0, size = 0.0, square = 0.0;
    for (const double x : v) {
      sum += x;
      size += std::fabs(x);
      square += x * x;
    }
    CHECK(kind != DomainKind::simplex || (std::fabs(sum - 1.5) < 1e-14 && std::fabs(size - sum) < 1e-14));
    CHECK(kind != DomainKind::l1_ball || std::fabs(size - 1.5) < 1e-14);
    CHECK(kind != DomainKind::l2_ball || std::fabs(std::sqrt(square) - 1.5) < 1e-14);
    const Reals inside = v;
    domain.prox(v.data(), 1.0, nullptr);
    for (std::size_t j = 0; j < 6; ++j) CHECK(std::fabs(v[j] - inside[j]) < 1e-15);
  }
}

TEST("a monitor that throws ends a run after its last complete step") {
  struct Impatient final : Monitor {
    void check() override { throw std::runtime_error("enough"); }
  } monitor;
  const samples::Logistic data(4000, 9);
  Workspace workspace;
  Resources use{workspace, 2, &monitor};
  Descent d = samples::descent(Kind::sgd, samples::minibatch(data.dense(), make_mean(), 4000, false));
  bool thrown = false;
  try {
    d.advance(std::numeric_limits<std::int64_t>::max(), 1e9, use);
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  CHECK(thrown && d.steps() == d.done().steps);
}
