// Estimators: the mini-batch of a risk, and those of the mean of many losses (snapshot difference, SPIDER, STORM).
#include <memory>
#include <optional>
#include <string>

#include <pybind11/stl.h>

#include "call.hpp"
#include "leeward/estimator/minibatch.hpp"
#include "leeward/estimator/snapshot.hpp"
#include "leeward/estimator/spider.hpp"
#include "leeward/estimator/storm.hpp"

namespace leeward::python {
namespace {

using OptionalDoubles = std::optional<Doubles>;

std::shared_ptr<Minibatch> make_minibatch(std::shared_ptr<Oracle> oracle, std::shared_ptr<Risk> risk,
                                          const OptionalDoubles& base, const std::optional<Integers>& group,
                                          std::int64_t n, bool replace, std::uint64_t seed) {
  const std::int64_t size = oracle->size();
  const double* const p = base ? input(*base, size, "base") : nullptr;
  if (group && group->size() != size) throw py::value_error("group must hold one number a sample");
  Population population(size, p, group ? group->data() : nullptr);
  const MinibatchSettings settings{.n = n, .replace = replace, .seed = seed};
  return std::make_shared<Minibatch>(std::move(oracle), std::move(risk), std::move(population), settings, group.has_value());
}

ComponentMean component_mean(std::shared_ptr<Oracle> oracle, const OptionalDoubles& base, const OptionalDoubles& chances,
                             std::uint64_t seed) {
  const std::int64_t size = oracle->size();
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

template <class Staged>
void bind_staged(py::module_& m, const char* name) {
  using py::arg;
  py::class_<Staged, Estimator, std::shared_ptr<Staged>>(m, name)
      .def(py::init(&make_staged<Staged>), arg("oracle"), arg("base").none(true), arg("chances").none(true), arg("stages"),
           arg("seed"), py::keep_alive<1, 2>())
      .def(
          "stage",
          [](const Staged& s, std::int64_t j) {
            if (j < 1) throw py::value_error("stages count from 1");
            const Stage stage = s.stages().at(j);
            return py::make_tuple(stage.batch, stage.inner, stage.length);
          },
          arg("j"), "B, b and N of stage j = 1, 2, ...");
}

}  // namespace

void bind_estimators(py::module_& m) {
  using py::arg;
  py::class_<Estimator, std::shared_ptr<Estimator>>(m, "Estimator")
      .def("direction", &direction, arg("w"), arg("step"), arg("threads") = 0);

  py::class_<Minibatch, Estimator, std::shared_ptr<Minibatch>>(m, "Minibatch")
      .def(py::init(&make_minibatch), arg("oracle"), arg("risk"), arg("base").none(true), arg("group").none(true), arg("n"),
           arg("replace"), arg("seed"), py::keep_alive<1, 2>(), py::keep_alive<1, 3>())
      .def_property_readonly("size", &Minibatch::size)
      .def("draw", &draw, arg("step"));

  bind_staged<SnapshotDifference>(m, "SnapshotDifference");
  bind_staged<Spider>(m, "Spider");
  py::class_<Storm, Estimator, std::shared_ptr<Storm>>(m, "Storm")
      .def(py::init(&make_storm), arg("oracle"), arg("base").none(true), arg("chances").none(true), arg("batch"), arg("first"),
           arg("beta"), arg("period"), arg("seed"), py::keep_alive<1, 2>());
}

}  // namespace leeward::python
