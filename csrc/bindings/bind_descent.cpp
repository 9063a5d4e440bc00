// Estimators and the native descent loop.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/stl.h>

#include "call.hpp"
#include "leeward/descent/acsa.hpp"
#include "leeward/descent/driver.hpp"
#include "leeward/descent/sgd.hpp"
#include "leeward/estimator/minibatch.hpp"

namespace leeward::python {
namespace {

std::vector<double> vector_of(const Doubles& a) { return {a.data(), a.data() + a.size()}; }

py::array_t<double> array_of(const double* values, std::int64_t count) { return py::array_t<double>(count, values); }

std::shared_ptr<Minibatch> make_minibatch(std::shared_ptr<Oracle> oracle, std::shared_ptr<Risk> risk,
                                          const std::optional<Doubles>& base, const std::optional<Integers>& group,
                                          std::int64_t n, bool replace, std::uint64_t seed) {
  const std::int64_t size = oracle->size();
  const double* const p = base ? input(*base, size, "base") : nullptr;
  if (group && group->size() != size) throw py::value_error("group must hold one number a sample");
  Population population(size, p, group ? group->data() : nullptr);
  const MinibatchSettings settings{.n = n, .replace = replace, .seed = seed};
  return std::make_shared<Minibatch>(std::move(oracle), std::move(risk), std::move(population), settings, group.has_value());
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
  return py::make_tuple(out, e.value, e.losses, e.finite);
}

// One function a named update; a new update adds a line here.
std::unique_ptr<Update> make_update(const std::string& name, const std::vector<double>& start, double momentum) {
  if (name == "heavy_ball") return std::make_unique<SgdUpdate>(start, momentum, false);
  if (name == "nesterov") return std::make_unique<SgdUpdate>(start, momentum, true);
  if (name == "acsa") return std::make_unique<AcsaUpdate>(start);
  throw py::value_error("unknown update " + name);
}

std::unique_ptr<Descent> make_descent(std::shared_ptr<Estimator> estimator, const std::string& update, const Doubles& start,
                                      double momentum, const std::tuple<int, Doubles, Doubles>& domain,
                                      const std::tuple<double, int, double>& schedule, int averaging, double l2,
                                      std::int64_t penalised, const std::optional<Doubles>& metric) {
  const auto& [kind, first, second] = domain;
  DescentSettings settings{.schedule = {.step = std::get<0>(schedule), .halves = std::get<1>(schedule), .period = std::get<2>(schedule)},
                           .averaging = static_cast<Averaging>(averaging),
                           .l2 = l2,
                           .penalised = penalised,
                           .metric = metric ? vector_of(*metric) : std::vector<double>{}};
  Domain set;
  if (kind != 0) set = Domain(static_cast<DomainKind>(kind), penalised, vector_of(first), vector_of(second));
  return std::make_unique<Descent>(std::move(estimator), make_update(update, vector_of(start), momentum), std::move(set),
                                   std::move(settings));
}

bool advance(Descent& descent, std::int64_t steps, double seconds, int threads) {
  CallResources use(threads);
  const py::gil_scoped_release release;
  return descent.advance(steps, seconds, use);
}

py::dict state(Descent& descent) {
  py::dict all;
  const std::int64_t steps[2] = {descent.steps(), descent.origin()};
  all["steps"] = py::array_t<std::int64_t>(2, steps);
  all["vectors"] = array_of(descent.vectors().data(), static_cast<std::int64_t>(descent.vectors().size()));
  all["mean"] = array_of(descent.mean().data(), static_cast<std::int64_t>(descent.mean().size()));
  const Schedule& s = descent.schedule();
  const double numbers[2] = {s.step, s.period};
  all["schedule"] = array_of(numbers, 2);
  return all;
}

void restore(Descent& descent, const Integers& steps, const Doubles& vectors, const Doubles& mean, const Doubles& schedule) {
  const double* const v = input(vectors, static_cast<std::int64_t>(descent.vectors().size()), "vectors");
  const double* const a = input(mean, static_cast<std::int64_t>(descent.mean().size()), "mean");
  if (steps.size() != 2 || schedule.size() != 2) throw py::value_error("steps and schedule must hold 2 numbers each");
  std::copy(v, v + descent.vectors().size(), descent.vectors().begin());
  std::copy(a, a + descent.mean().size(), descent.mean().begin());
  descent.set_steps(steps.data()[0], steps.data()[1]);
  descent.schedule().step = schedule.data()[0];
  descent.schedule().period = schedule.data()[1];
}

// The proximal point of a domain, as the loops compute it.
py::array_t<double> prox(int kind, const Doubles& first, const Doubles& second, const Doubles& v, double step) {
  Domain domain(static_cast<DomainKind>(kind), v.size(), vector_of(first), vector_of(second));
  py::array_t<double> out = array_of(v.data(), v.size());
  domain.prox(out.mutable_data(), step, nullptr);
  return out;
}

}  // namespace

void bind_descent(py::module_& m) {
  using py::arg;
  py::class_<Estimator, std::shared_ptr<Estimator>>(m, "Estimator")
      .def("direction", &direction, arg("w"), arg("step"), arg("threads") = 0);

  py::class_<Minibatch, Estimator, std::shared_ptr<Minibatch>>(m, "Minibatch")
      .def(py::init(&make_minibatch), arg("oracle"), arg("risk"), arg("base").none(true), arg("group").none(true), arg("n"),
           arg("replace"), arg("seed"), py::keep_alive<1, 2>(), py::keep_alive<1, 3>())
      .def_property_readonly("size", &Minibatch::size)
      .def("draw", &draw, arg("step"));

  bind_stage(m);
  m.def("prox", &prox, arg("kind"), arg("first"), arg("second"), arg("v"), arg("step"));

  py::class_<Descent>(m, "Descent")
      .def(py::init(&make_descent), arg("estimator"), arg("update"), arg("start"), arg("momentum"), arg("domain"),
           arg("schedule"), arg("averaging"), arg("l2"), arg("penalised"), arg("metric").none(true), py::keep_alive<1, 2>())
      .def("advance", &advance, arg("steps"), arg("seconds"), arg("threads") = 0)
      .def_property_readonly("steps", &Descent::steps)
      .def_property_readonly("work", [](const Descent& d) { return py::make_tuple(d.done().losses, d.done().gradients); })
      .def_property_readonly("answer", [](const Descent& d) { return array_of(d.answer(), d.dim()); })
      .def("state", &state)
      .def("restore", &restore, arg("steps"), arg("vectors"), arg("mean"), arg("schedule"));
}

}  // namespace leeward::python
