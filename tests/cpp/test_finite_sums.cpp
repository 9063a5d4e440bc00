// Estimators with stages: what must not change the bits, what a run has cost, and projections in a metric.
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness.hpp"
#include "leeward/descent/adabound.hpp"
#include "leeward/descent/adagrad.hpp"
#include "leeward/descent/amsgrad.hpp"
#include "samples.hpp"

using namespace leeward;
using samples::Kind;
using samples::Reals;

namespace {

struct Outcome {
  Reals answer, memory, output;
  std::int64_t gradients = 0, samples = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome(Descent& d) {
  return {{d.answer(), d.answer() + d.dim()}, d.memory(), d.output(), d.done().gradients, d.done().samples};
}

Descent adaptive(std::shared_ptr<Estimator> estimator, OutputRule output) {
  const Reals start(static_cast<std::size_t>(estimator->dim()), 0.0);
  const std::int64_t penalised = estimator->dim() - 1;
  return Descent(std::move(estimator), std::make_unique<AdaptiveUpdate<AmsGrad>>(start, AmsGrad{}), Domain{},
                 {.schedule = {.step = 0.01}, .output = output, .seed = 5, .l2 = 1e-3, .penalised = penalised,
                  .metric = {}});
}

// The outcome of estimator number k after stretches of steps.
Outcome after(const std::shared_ptr<const Oracle>& oracle, std::size_t k, const std::vector<std::int64_t>& stretches, int threads,
              OutputRule output) {
  Workspace workspace;
  Resources use{workspace, threads};
  Descent d = adaptive(samples::finite_sums(oracle, 3000, 900)[k].second, output);
  for (const std::int64_t steps : stretches) CHECK(d.advance(steps, 1e9, use));
  return outcome(d);
}

}  // namespace

TEST("a run of stages cut into stretches gives the bits and the costs of one stretch, for any number of threads") {
  const samples::Logistic data(4000, 9);
  for (const auto& oracle : {data.dense(), data.csr()})
    for (std::size_t k = 0; k < 5; ++k)
      for (const OutputRule output : {OutputRule::last, OutputRule::random, OutputRule::average}) {
        const Outcome whole = after(oracle, k, {17}, 1, output);
        CHECK(after(oracle, k, {1, 4, 5, 7}, 1, output) == whole);
        CHECK(after(oracle, k, {17}, 2, output) == whole);
        CHECK(after(oracle, k, {17}, 3, output) == whole);
      }
}

TEST("a run taken up from its state goes on with the same bits") {
  const samples::Logistic data(400, 5);
  Workspace workspace;
  Resources use{workspace, 1};
  for (std::size_t k = 0; k < 5; ++k) {
    const auto make = [&] { return adaptive(samples::finite_sums(data.dense(), 40, 8)[k].second, OutputRule::random); };
    Descent whole = make(), first = make(), second = make();
    whole.advance(40, 1e9, use);
    first.advance(23, 1e9, use);
    second.set_steps(first.steps(), first.origin());
    second.vectors() = first.vectors();
    second.memory() = first.memory();
    second.output() = first.output();
    second.advance(17, 1e9, use);
    CHECK(outcome(second).answer == outcome(whole).answer && second.memory() == whole.memory());
    CHECK(first.done().gradients + second.done().gradients == whole.done().gradients);
  }
}

TEST("a run stops after the step by which a number of gradients is evaluated, wherever it was cut before") {
  const samples::Logistic data(400, 5);
  Workspace workspace;
  Resources use{workspace, 1};
  Descent whole = adaptive(samples::finite_sums(data.dense(), 40, 8)[0].second, OutputRule::last);
  whole.advance(1000, 1e9, use, 500);
  const std::int64_t steps = whole.steps();
  CHECK(whole.done().gradients >= 500 && whole.done().gradients < 500 + 40 + 16);
  Descent cut = adaptive(samples::finite_sums(data.dense(), 40, 8)[0].second, OutputRule::last);
  while (cut.done().gradients < 500) cut.advance(1, 1e9, use, 500 - cut.done().gradients);
  CHECK(cut.steps() == steps && outcome(cut) == outcome(whole));
}

TEST("an oracle that throws leaves the state after the last complete step and loses no cost") {
  struct Broken final : Oracle {
    std::shared_ptr<const Oracle> inner;
    mutable int left = 0;
    explicit Broken(std::shared_ptr<const Oracle> o) : inner(std::move(o)) {}
    std::int64_t size() const override { return inner->size(); }
    std::int64_t dim() const override { return inner->dim(); }
    void losses(const double* w, Batch b, double* out, Resources& use) const override { inner->losses(w, b, out, use); }
    void gradient(const double* w, Batch b, const double* q, double* out, Resources& use) const override {
      if (left-- == 0) throw std::runtime_error("enough");
      inner->gradient(w, b, q, out, use);
    }
  };
  const samples::Logistic data(400, 5);
  Workspace workspace;
  Resources use{workspace, 1};
  for (std::size_t k = 0; k < 5; ++k)
    for (int calls = 0; calls < 25; ++calls) {
      const auto broken = std::make_shared<Broken>(data.dense());
      Descent whole = adaptive(samples::finite_sums(data.dense(), 40, 8)[k].second, OutputRule::random);
      Descent d = adaptive(samples::finite_sums(broken, 40, 8)[k].second, OutputRule::random);
      broken->left = calls;
      bool thrown = false;
      try {
        d.advance(30, 1e9, use);
      } catch (const std::runtime_error&) {
        thrown = true;
      }
      CHECK(thrown && d.steps() == d.done().steps);
      broken->left = -1;
      d.advance(30 - d.steps(), 1e9, use);
      whole.advance(30, 1e9, use);
      CHECK(outcome(d) == outcome(whole));
    }
}

TEST("slices too large to keep give the directions of kept ones, at one more evaluation a sample") {
  const samples::Logistic data(400, 5);
  Workspace workspace;
  Resources use{workspace, 1};
  const StageSettings walk{.batch = 50, .inner = 8, .length_rule = LengthRule::slices};
  const auto make = [&] { return SnapshotDifference(ComponentMean(data.dense(), nullptr, nullptr, 3), walk, 3); };
  SnapshotDifference within = make(), beyond = make();
  const auto dim = static_cast<std::size_t>(within.dim());
  const std::int64_t bytes = 7 * static_cast<std::int64_t>(dim * sizeof(double));  // of the 7 slices of a stage
  within.keep_at_most(bytes);
  beyond.keep_at_most(bytes - 1);
  Reals w(dim), a(dim), b(dim);
  std::int64_t kept = 0, anew = 0;
  for (std::uint64_t t = 0; t < 21; ++t) {
    kept += within.direction(w.data(), t, a.data(), use).gradients;
    anew += beyond.direction(w.data(), t, b.data(), use).gradients;
    for (std::size_t j = 0; j < dim; ++j) CHECK(std::fabs(a[j] - b[j]) < 1e-14);
    for (std::size_t j = 0; j < dim; ++j) w[j] -= 0.1 * a[j];
  }
  CHECK(kept == 3 * 2 * 50 && anew == 3 * 3 * 50);
}

TEST("lengths of stages are at least 0, their sizes as the rules say") {
  const Stages growing({.batch_rule = BatchRule::growing, .inner = 4}, 1000, 1);
  CHECK(growing.at(1).batch == 1 && growing.at(2).batch == 3 && growing.at(4).batch == 8 && growing.at(5).batch == 12);
  CHECK(growing.at(100).batch == 1000 && growing.at(1000000).batch == 1000);
  CHECK(growing.at(1).inner == 1 && growing.at(4).inner == 4);
  const Stages doubling({.batch_rule = BatchRule::doubling, .batch = 3, .fraction = 0.1}, 50, 1);
  CHECK(doubling.at(1).batch == 3 && doubling.at(4).batch == 24 && doubling.at(6).batch == 50 && doubling.at(500).batch == 50);
  CHECK(doubling.at(1).inner == 1 && doubling.at(4).inner == 3);
  const Stages slices({.batch = 10, .inner = 4, .length_rule = LengthRule::slices}, 50, 1);
  CHECK(slices.at(7).length == 3);
}

TEST("projections in a metric satisfy the optimality conditions, and equal the plain ones where the metric is 1") {
  for (const DomainKind kind : {DomainKind::simplex, DomainKind::l1_ball, DomainKind::l2_ball}) {
    Domain domain(kind, 6, {1.5}, {0.0});
    Reals v = samples::normal(6, 9), metric = samples::normal(6, 4), ones(6, 1.0);
    for (double& x : v) x *= 4.0;
    for (double& m : metric) m = std::exp(2.0 * m);
    Reals plain = v, same = v, u = v;
    domain.prox(plain.data(), 1.0, nullptr);
    domain.prox(same.data(), 1.0, ones.data());
    domain.prox(u.data(), 1.0, metric.data());
    for (std::size_t j = 0; j < 6; ++j) CHECK(std::fabs(plain[j] - same[j]) < 1e-14);
    // (v - u)/m is in the normal cone: no point of the set is nearer.
    double own = 0.0, top = 0.0, size = 0.0, square = 0.0;
    for (std::size_t j = 0; j < 6; ++j) {
      const double normal = (v[j] - u[j]) / metric[j];
      own += normal * u[j];
      top = j == 0 ? normal : std::max(top, kind == DomainKind::simplex ? normal : std::fabs(normal));
      if (j == 0 && kind != DomainKind::simplex) top = std::fabs(normal);
      size += std::fabs(u[j]);
      square += normal * normal;
    }
    const double support = kind == DomainKind::l2_ball ? 1.5 * std::sqrt(square) : 1.5 * top;
    CHECK(std::fabs(own - support) < 1e-12 * (1.0 + std::fabs(support)));
    CHECK(kind == DomainKind::l2_ball || std::fabs(size - 1.5) < 1e-13);
  }
}
