// Estimators: mini-batches of a risk, its multi-level estimator, and those of the mean of many losses (snapshot difference, SPIDER, STORM).
#include <memory>
#include <optional>
#include <string>

#include <pybind11/stl.h>

#include "call.hpp"
#include "leeward/estimator/dual_batch.hpp"
#include "leeward/estimator/growing_batch.hpp"
#include "leeward/estimator/minibatch.hpp"
#include "leeward/estimator/mlmc.hpp"
#include "leeward/estimator/penalty_search.hpp"
#include "leeward/estimator/primal_dual.hpp"
#include "leeward/estimator/snapshot.hpp"
#include "leeward/estimator/spider.hpp"
#include "leeward/estimator/storm.hpp"

namespace leeward::python {
namespace {

using OptionalDoubles = std::optional<Doubles>;

std::shared_ptr<Minibatch> make_minibatch(std::shared_ptr<Oracle> oracle, std::shared_ptr<Risk> risk,
                                          const OptionalDoubles& base, const std::optional<Integers>& group,
                                          std::int64_t n, bool replace, std::uint64_t seed, std::int64_t fresh, bool reshuffle) {
  const std::int64_t size = oracle->population();
  const double* const p = base ? input(*base, size, "base") : nullptr;
  if (group && group->size() != size) throw py::value_error("group must hold one number a sample");
  Population population(size, p, group ? group->data() : nullptr);
  const MinibatchSettings settings{.n = n, .replace = replace, .reshuffle = reshuffle, .seed = seed, .fresh = fresh};
  return std::make_shared<Minibatch>(std::move(oracle), std::move(risk), std::move(population), settings, group.has_value());
}

Population population_of(const Oracle& oracle, std::int64_t size, const OptionalDoubles& base) {
  return {size, base ? input(*base, oracle.size(), "base") : nullptr, nullptr};
}

std::shared_ptr<Mlmc> make_mlmc(std::shared_ptr<Oracle> oracle, std::shared_ptr<Risk> risk, const OptionalDoubles& base,
                                std::int64_t n0, int levels, std::uint64_t seed) {
  Population population = population_of(*oracle, oracle->population(), base);
  const MlmcSettings settings{.n0 = n0, .levels = levels, .seed = seed};
  return std::make_shared<Mlmc>(std::move(oracle), std::move(risk), std::move(population), settings);
}

std::shared_ptr<GrowingBatch> make_growing(std::shared_ptr<Oracle> oracle, std::shared_ptr<Risk> risk,
                                           const OptionalDoubles& base, std::int64_t n0, double growth, std::uint64_t seed) {
  Population population = population_of(*oracle, oracle->size(), base);
  const GrowingBatchSettings settings{.n0 = n0, .growth = growth, .seed = seed};
  return std::make_shared<GrowingBatch>(std::move(oracle), std::move(risk), std::move(population), settings);
}

using Numbers4 = std::tuple<double, double, double, double>;
DualVariable dual_variable(const Numbers4& v) {
  return {.start = std::get<0>(v), .low = std::get<1>(v), .high = std::get<2>(v), .step = std::get<3>(v)};
}

// form: (kind, parameter, radius); eta and lam: (start, low, high, step).
std::shared_ptr<DualBatch> make_dual(std::shared_ptr<Oracle> oracle, const OptionalDoubles& base,
                                     const std::tuple<int, double, double>& form, std::int64_t n, const Numbers4& eta,
                                     const Numbers4& lam, const std::optional<double>& period, std::uint64_t seed) {
  Population population = population_of(*oracle, oracle->population(), base);
  const auto& [kind, parameter, radius] = form;
  const DualSettings settings{.form = {.kind = static_cast<DualKind>(kind), .parameter = parameter, .radius = radius},
                              .n = n,
                              .eta = dual_variable(eta),
                              .lam = dual_variable(lam),
                              .decaying = period.has_value(),
                              .period = period.value_or(1.0),
                              .seed = seed};
  return std::make_shared<DualBatch>(std::move(oracle), std::move(population), settings);
}

// levels: (n0, levels); lam: (start, low, high, step).
std::shared_ptr<PenaltySearch> make_penalty_search(std::shared_ptr<Oracle> oracle, const OptionalDoubles& base,
                                                   const std::tuple<std::int64_t, int>& levels, double radius,
                                                   const Numbers4& lam, const std::optional<double>& period,
                                                   std::uint64_t seed) {
  Population population = population_of(*oracle, oracle->population(), base);
  const MlmcSettings draws{.n0 = std::get<0>(levels), .levels = std::get<1>(levels), .seed = seed};
  const PenaltySearchSettings settings{
      .radius = radius, .lam = dual_variable(lam), .decaying = period.has_value(), .period = period.value_or(1.0)};
  return std::make_shared<PenaltySearch>(std::move(oracle), std::move(population), draws, settings);
}

// form: (kind, parameter).
std::shared_ptr<PrimalDual> make_primal_dual(std::shared_ptr<Oracle> oracle, const OptionalDoubles& base,
                                             const std::tuple<int, double>& form, std::int64_t n, double dual_step,
                                             std::uint64_t seed) {
  Population population = population_of(*oracle, oracle->size(), base);
  const PrimalDualSettings settings{.kind = static_cast<AdversaryKind>(std::get<0>(form)),
                                    .parameter = std::get<1>(form),
                                    .n = n,
                                    .dual_step = dual_step,
                                    .seed = seed};
  return std::make_shared<PrimalDual>(std::move(oracle), std::move(population), settings);
}

// The adversary's q over the samples, and what it thinks of them: (q, scores with NaN for those never seen).
py::tuple adversary_of(PrimalDual& estimator, std::int64_t size) {
  estimator.follow_state();
  py::array_t<double> q(size), scores(size);
  std::fill(q.mutable_data(), q.mutable_data() + size, 0.0);
  std::fill(scores.mutable_data(), scores.mutable_data() + size, std::numeric_limits<double>::quiet_NaN());
  const Adversary& a = estimator.adversary();
  for (std::int64_t k = 0; k < a.size(); ++k) {
    const std::int64_t i = estimator.population().sample(k);
    q.mutable_at(i) = a.weight(k);
    if (a.seen(k)) scores.mutable_at(i) = a.score(k);
  }
  return py::make_tuple(q, scores);
}

ComponentMean component_mean(std::shared_ptr<Oracle> oracle, const OptionalDoubles& base, const OptionalDoubles& chances,
                             std::uint64_t seed) {
  const std::int64_t size = oracle->population();
  const double* const p = base ? input(*base, size, "base") : nullptr;
  const double* const c = chances ? input(*chances, size, "chances") : nullptr;
  return {std::move(oracle), p, c, seed};
}

// (batch rule, batch, inner, fraction), (length rule, length, chance), exponent: the fields of StageSettings in order.
using StageNumbers = std::tuple<int, std::int64_t, std::int64_t, double, int, std::int64_t, double, double>;

StageSettings stage_settings(const StageNumbers& numbers) {
  const auto& [batch_rule, batch, inner, fraction, length_rule, length, chance, exponent] = numbers;
  return {.batch_rule = static_cast<BatchRule>(batch_rule),
          .batch = batch,
          .inner = inner,
          .fraction = fraction,
          .length_rule = static_cast<LengthRule>(length_rule),
          .length = length,
          .chance = chance,
          .exponent = exponent};
}

template <class Staged>
std::shared_ptr<Staged> make_staged(std::shared_ptr<Oracle> oracle, const OptionalDoubles& base, const OptionalDoubles& chances,
                                    const StageNumbers& stages, std::uint64_t seed) {
  return std::make_shared<Staged>(component_mean(std::move(oracle), base, chances, seed), stage_settings(stages), seed);
}

std::shared_ptr<Storm> make_storm(std::shared_ptr<Oracle> oracle, const OptionalDoubles& base, const OptionalDoubles& chances,
                                  std::int64_t batch, std::int64_t first, double beta, double period, std::uint64_t seed) {
  const StormSettings settings{.batch = batch, .first = first, .beta = beta, .period = period};
  return std::make_shared<Storm>(component_mean(std::move(oracle), base, chances, seed), settings);
}

py::object draw(Minibatch& estimator, std::uint64_t step) {
  const std::int64_t* const index = estimator.draw(step);
  if (index == nullptr) return py::none();
  return py::array_t<std::int64_t>(estimator.size(), index);
}

py::tuple direction(Estimator& estimator, const Doubles& w, std::uint64_t step, int threads) {
  const double* const at = input(w, estimator.dim(), "w");
  py::array_t<double> out(estimator.dim());
  double* const to = out.mutable_data();
  CallResources use(threads);
  Estimate e;
  {
    const py::gil_scoped_release release;
    e = estimator.direction(at, step, to, use);
  }
  return py::make_tuple(out, e.value, std::max(e.losses, e.gradients), e.finite);
}

void require_stage(std::int64_t j) {
  if (j < 1) throw py::value_error("stages count from 1, got " + std::to_string(j));
}

// The last drawn samples.
py::array_t<std::int64_t> drawn(const ComponentMean& mean) {
  const Batch batch = mean.batch();
  py::array_t<std::int64_t> out(batch.size);
  for (std::int64_t k = 0; k < batch.size; ++k) out.mutable_data()[k] = batch[k];
  return out;
}

template <class Staged>
auto bind_staged(py::module_& m, const char* name) {
  using py::arg;
  py::class_<Staged, Estimator, std::shared_ptr<Staged>> bound(m, name);
  bound
      .def(py::init(&make_staged<Staged>), arg("oracle"), arg("base").none(true), arg("chances").none(true), arg("stages"),
           arg("seed"), py::keep_alive<1, 2>())
      .def(
          "stage",
          [](const Staged& s, std::int64_t j) {
            require_stage(j);
            const Stage stage = s.stages().at(j);
            return py::make_tuple(stage.batch, stage.inner, stage.length);
          },
          arg("j"), "B, b and N of stage j = 1, 2, ...")
      .def(
          "lengths",
          [](const Staged& s, std::int64_t first, std::int64_t count) {
            require_stage(first);
            py::array_t<std::int64_t> out(count);
            for (std::int64_t k = 0; k < count; ++k) out.mutable_data()[k] = s.stages().at(first + k).length;
            return out;
          },
          arg("first"), arg("count"), "N of stages first, first + 1, ...")
      .def(
          "batch",
          [](Staged& s, std::int64_t j) {
            require_stage(j);
            s.mean().draw_batch(j, s.stages().at(j).batch);
            return drawn(s.mean());
          },
          arg("j"), "The samples of the batch of stage j.")
      .def(
          "mini_batch",
          [](Staged& s, std::int64_t j, std::int64_t k, std::uint64_t step) {
            require_stage(j);
            const Stage stage = s.stages().at(j);
            if (s.stages().slices())
              s.mean().draw_slice(j, k, stage);
            else
              s.mean().draw_inner(j, k, step, stage.inner);
            return drawn(s.mean());
          },
          arg("j"), arg("k"), arg("step"), "The samples of inner step k of stage j, which is the given step of the run.");
  return bound;
}

void set_barzilai_borwein(SnapshotDifference& estimator, double first, double range, double l2, std::int64_t penalised,
                          const OptionalDoubles& metric) {
  BarzilaiBorwein rule{.first = first, .range = range, .l2 = l2, .penalised = penalised, .metric = {}};
  if (!(first > 0.0 && range >= 1.0)) throw py::value_error("first must be positive and range at least 1");
  if (metric) {
    const double* const m = input(*metric, estimator.dim(), "metric");
    rule.metric.assign(m, m + estimator.dim());
  }
  estimator.set_steps(std::move(rule));
}

}  // namespace

void bind_estimators(py::module_& m) {
  using py::arg;
  py::class_<Estimator, std::shared_ptr<Estimator>>(m, "Estimator")
      .def("direction", &direction, arg("w"), arg("step"), arg("threads") = 0);

  py::class_<Minibatch, Estimator, std::shared_ptr<Minibatch>>(m, "Minibatch")
      .def(py::init(&make_minibatch), arg("oracle"), arg("risk"), arg("base").none(true), arg("group").none(true), arg("n"),
           arg("replace"), arg("seed"), arg("fresh") = 0, arg("reshuffle") = false, py::keep_alive<1, 2>(), py::keep_alive<1, 3>())
      .def_property_readonly("size", &Minibatch::size)
      .def("draw", &draw, arg("step"));

  py::class_<Mlmc, Estimator, std::shared_ptr<Mlmc>>(m, "Mlmc")
      .def(py::init(&make_mlmc), arg("oracle"), arg("risk"), arg("base").none(true), arg("n0"), arg("levels"), arg("seed"),
           py::keep_alive<1, 2>(), py::keep_alive<1, 3>())
      .def("level", &Mlmc::level, arg("step"))
      .def(
          "draw", [](Mlmc& e, std::uint64_t step) { return py::array_t<std::int64_t>(e.size(step), e.draw(step)); },
          arg("step"))
      .def(
          "paid",
          [](Mlmc& e, const Doubles& w, std::uint64_t step, int threads) {
            const double* const at = input(w, e.dim(), "w");
            std::vector<double> g(static_cast<std::size_t>(e.dim()));
            CallResources use(threads);
            const py::gil_scoped_release release;
            return e.direction(at, step, g.data(), use).paid;
          },
          arg("w"), arg("step"), arg("threads") = 0);

  py::class_<DualBatch, Estimator, std::shared_ptr<DualBatch>>(m, "DualBatch")
      .def(py::init(&make_dual), arg("oracle"), arg("base").none(true), arg("form"), arg("n"), arg("eta"), arg("lam"),
           arg("period").none(true), arg("seed"), py::keep_alive<1, 2>())
      .def_property_readonly("eta", &DualBatch::eta)
      .def_property_readonly("lam", &DualBatch::lam);

  py::class_<PenaltySearch, Estimator, std::shared_ptr<PenaltySearch>>(m, "PenaltySearch")
      .def(py::init(&make_penalty_search), arg("oracle"), arg("base").none(true), arg("levels"), arg("radius"), arg("lam"),
           arg("period").none(true), arg("seed"), py::keep_alive<1, 2>())
      .def_property_readonly("lam", &PenaltySearch::lam);

  py::class_<PrimalDual, Estimator, std::shared_ptr<PrimalDual>>(m, "PrimalDual")
      .def(py::init(&make_primal_dual), arg("oracle"), arg("base").none(true), arg("form"), arg("n"), arg("dual_step"),
           arg("seed"), py::keep_alive<1, 2>())
      .def("adversary", &adversary_of, arg("size"))
      .def(
          "draws",
          [](PrimalDual& e, std::uint64_t step, std::int64_t count, std::uint64_t seed) {
            e.follow_state();
            const Stream stream(seed, Purpose::order, step);
            py::array_t<std::int64_t> out(count);
            for (std::int64_t k = 0; k < count; ++k)
              out.mutable_at(k) = e.population().sample(e.adversary().draw(stream, static_cast<std::uint64_t>(k)));
            return out;
          },
          arg("step"), arg("count"), arg("seed"));

  py::class_<GrowingBatch, Estimator, std::shared_ptr<GrowingBatch>>(m, "GrowingBatch")
      .def(py::init(&make_growing), arg("oracle"), arg("risk"), arg("base").none(true), arg("n0"), arg("growth"), arg("seed"),
           py::keep_alive<1, 2>(), py::keep_alive<1, 3>())
      .def("size", &GrowingBatch::size, arg("step"));

  bind_staged<SnapshotDifference>(m, "SnapshotDifference")
      .def("set_barzilai_borwein", &set_barzilai_borwein, arg("first"), arg("range"), arg("l2"), arg("penalised"),
           arg("metric").none(true));
  bind_staged<Spider>(m, "Spider");
  py::class_<Storm, Estimator, std::shared_ptr<Storm>>(m, "Storm")
      .def(py::init(&make_storm), arg("oracle"), arg("base").none(true), arg("chances").none(true), arg("batch"), arg("first"),
           arg("beta"), arg("period"), arg("seed"), py::keep_alive<1, 2>());
}

}  // namespace leeward::python
