// The native descent loop: updates, domains, and the state of a run.
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/stl.h>

#include "call.hpp"
#include "leeward/descent/acsa.hpp"
#include "leeward/descent/adabound.hpp"
#include "leeward/descent/adagrad.hpp"
#include "leeward/descent/amsgrad.hpp"
#include "leeward/descent/driver.hpp"
#include "leeward/descent/linear_loop.hpp"
#include "leeward/descent/normalized.hpp"
#include "leeward/descent/relaxed.hpp"
#include "leeward/descent/sgd.hpp"

namespace leeward::python {
namespace {

py::array_t<double> array_of(const double* values, std::int64_t count) { return py::array_t<double>(count, values); }

// An update's name and its settings in the order of its fields.
using UpdateSpec = std::tuple<std::string, std::vector<double>>;

template <class Rule>
std::unique_ptr<Update> adaptive(const std::vector<double>& start, Rule rule) {
  return std::make_unique<AdaptiveUpdate<Rule>>(start, rule);
}

// One line a named update; a new update adds its own here.
std::unique_ptr<Update> make_update(const UpdateSpec& spec, const std::vector<double>& start) {
  const auto& [name, given] = spec;
  std::vector<double> s = given;
  s.resize(5, 0.0);
  const Adam adam{.momentum = s[0], .memory = s[1], .delta = s[2]};
  if (name == "heavy_ball") return std::make_unique<SgdUpdate>(start, s[0], false);
  if (name == "nesterov") return std::make_unique<SgdUpdate>(start, s[0], true);
  if (name == "normalized") return std::make_unique<NormalizedUpdate>(start, s[0]);
  if (name == "relaxed") return std::make_unique<RelaxedUpdate>(start, s[0]);
  if (name == "acsa") return std::make_unique<AcsaUpdate>(start);
  if (name == "adagrad") return adaptive(start, AdaGrad{.delta = s[0], .mean = s[1] != 0.0});
  if (name == "adam") return adaptive(start, adam);
  if (name == "amsgrad") return adaptive(start, AmsGrad{adam});
  if (name == "adabound") return adaptive(start, AdaBound{.adam = adam, .lower = s[3], .upper = s[4]});
  throw py::value_error("unknown update " + name);
}

// The native inner loop where there is one: plain, constant steps on snapshot differences of a linear model.
std::unique_ptr<InnerLoop> inner_loop(const std::shared_ptr<Estimator>& estimator, const UpdateSpec& update,
                                      const DescentSettings& settings, const Domain& domain) {
  const auto& [name, numbers] = update;
  const bool plain = name == "heavy_ball" && (numbers.empty() || numbers[0] == 0.0);
  if (!plain || settings.schedule.halves != 0 || settings.averaging != Averaging::last) return nullptr;
  auto snapshot = std::dynamic_pointer_cast<SnapshotDifference>(estimator);
  const auto* const oracle = snapshot ? dynamic_cast<const LinearOracle*>(&snapshot->mean().oracle()) : nullptr;
  const bool known = oracle != nullptr && settings.penalised == oracle->outputs() * oracle->matrix().cols();
  if (!known || !LinearStage::takes(domain)) return nullptr;
  return std::make_unique<LinearLoop>(std::move(snapshot), *oracle);
}

std::unique_ptr<Descent> make_descent(std::shared_ptr<Estimator> estimator, const UpdateSpec& update, const Doubles& start,
                                      const std::tuple<int, Doubles, Doubles>& domain,
                                      const std::tuple<double, int, double>& schedule, int averaging,
                                      const std::tuple<int, std::uint64_t>& output, double l2, std::int64_t penalised,
                                      const std::optional<Doubles>& metric, bool fused) {
  const auto& [kind, first, second] = domain;
  DescentSettings settings{.schedule = {.step = std::get<0>(schedule), .halves = std::get<1>(schedule), .period = std::get<2>(schedule)},
                           .averaging = static_cast<Averaging>(averaging),
                           .output = static_cast<OutputRule>(std::get<0>(output)),
                           .seed = std::get<1>(output),
                           .l2 = l2,
                           .penalised = penalised,
                           .metric = metric ? vector_of(*metric) : std::vector<double>{}};
  Domain set;
  if (kind != 0) set = Domain(static_cast<DomainKind>(kind), penalised, vector_of(first), vector_of(second));
  auto loop = fused ? inner_loop(estimator, update, settings, set) : nullptr;
  auto descent = std::make_unique<Descent>(std::move(estimator), make_update(update, vector_of(start)), std::move(set),
                                           std::move(settings));
  descent->set_inner_loop(std::move(loop));
  return descent;
}

bool advance(Descent& descent, std::int64_t steps, double seconds, int threads, std::int64_t evaluations) {
  CallResources use(threads);
  const py::gil_scoped_release release;
  return descent.advance(steps, seconds, use, evaluations);
}

py::array_t<double> copy_of(const std::vector<double>& v) { return array_of(v.data(), static_cast<std::int64_t>(v.size())); }

void fill(std::vector<double>& to, const Doubles& from, const char* name) {
  const double* const values = input(from, static_cast<std::int64_t>(to.size()), name);
  std::copy(values, values + to.size(), to.begin());
}

py::dict state(Descent& descent) {
  py::dict all;
  const std::int64_t steps[2] = {descent.steps(), descent.origin()};
  all["steps"] = py::array_t<std::int64_t>(2, steps);
  all["vectors"] = copy_of(descent.vectors());
  all["mean"] = copy_of(descent.mean());
  all["memory"] = copy_of(descent.memory());
  all["output"] = copy_of(descent.output());
  const Schedule& s = descent.schedule();
  const double numbers[2] = {s.step, s.period};
  all["schedule"] = array_of(numbers, 2);
  return all;
}

void restore(Descent& descent, const Integers& steps, const Doubles& vectors, const Doubles& mean, const Doubles& memory,
             const Doubles& output, const Doubles& schedule) {
  if (steps.size() != 2 || schedule.size() != 2) throw py::value_error("steps and schedule must hold 2 numbers each");
  fill(descent.vectors(), vectors, "vectors");
  fill(descent.mean(), mean, "mean");
  fill(descent.memory(), memory, "memory");
  fill(descent.output(), output, "output");
  descent.set_steps(steps.data()[0], steps.data()[1]);
  descent.schedule().step = schedule.data()[0];
  descent.schedule().period = schedule.data()[1];
}

// The proximal point of a domain, as the loops compute it, in the metric diag(1/metric).
py::array_t<double> prox(int kind, const Doubles& first, const Doubles& second, const Doubles& v, double step,
                         const std::optional<Doubles>& metric) {
  Domain domain(static_cast<DomainKind>(kind), v.size(), vector_of(first), vector_of(second));
  py::array_t<double> out = array_of(v.data(), v.size());
  domain.prox(out.mutable_data(), step, metric ? input(*metric, v.size(), "metric") : nullptr);
  return out;
}

}  // namespace

void bind_descent(py::module_& m) {
  using py::arg;
  bind_estimators(m);
  bind_levels(m);

  bind_stage(m);
  m.def("prox", &prox, arg("kind"), arg("first"), arg("second"), arg("v"), arg("step"),
        arg("metric") = py::none());

  py::class_<Descent>(m, "Descent")
      .def(py::init(&make_descent), arg("estimator"), arg("update"), arg("start"), arg("domain"), arg("schedule"),
           arg("averaging"), arg("output"), arg("l2"), arg("penalised"), arg("metric").none(true), arg("fused") = true,
           py::keep_alive<1, 2>())
      .def("advance", &advance, arg("steps"), arg("seconds"), arg("threads") = 0,
           arg("evaluations") = std::numeric_limits<std::int64_t>::max())
      .def_property_readonly("steps", &Descent::steps)
      .def_property_readonly("work", [](const Descent& d) { return py::make_tuple(d.done().losses, d.done().gradients, d.done().samples); })
      .def_property_readonly("answer", [](const Descent& d) { return array_of(d.answer(), d.dim()); })
      .def_property_readonly("iterate", [](const Descent& d) { return array_of(d.iterate(), d.dim()); })
      .def("state", &state)
      .def("restore", &restore, arg("steps"), arg("vectors"), arg("mean"), arg("memory"), arg("output"),
           arg("schedule"));
}

}  // namespace leeward::python
