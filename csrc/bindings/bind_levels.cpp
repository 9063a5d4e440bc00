// Levels of compositions (native ones and the user's own), a composition's value and gradient, and the estimators of that gradient.
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <pybind11/stl.h>

#include "leeward/estimator/averaged_levels.hpp"
#include "leeward/estimator/tracked_levels.hpp"
#include "leeward/oracle/portfolio_levels.hpp"
#include "leeward/oracle/scalar_levels.hpp"
#include "leeward/oracle/shortfall_levels.hpp"
#include "py_batch.hpp"
#include "py_collect.hpp"
#include "py_level.hpp"

namespace leeward::python {
namespace {

using Levels = std::vector<std::shared_ptr<Level>>;

std::vector<std::shared_ptr<const Level>> constant(const Levels& levels) { return {levels.begin(), levels.end()}; }

std::shared_ptr<Level> mutable_level(const std::shared_ptr<const Level>& level) { return std::const_pointer_cast<Level>(level); }

template <class T>
DenseView<T> returns_view(const py::array& x) {
  return {static_cast<const T*>(x.data()), x.shape(0), x.shape(1), x.strides(0) / static_cast<py::ssize_t>(sizeof(T))};
}

template <class T>
std::shared_ptr<const Level> returns_level_of(const std::string& kind, DenseView<T> r, double smoothing, double unit) {
  if (kind == "mean") return make_returns_mean(r);
  if (kind == "deviation") return make_returns_deviation(r);
  if (kind == "square shortfall") return make_returns_shortfall(r, {.square = true});
  if (kind == "shortfall") return make_returns_shortfall(r, {.smoothing = smoothing});
  if (kind == "tail") return make_returns_tail(r, {.smoothing = smoothing}, unit);
  throw py::value_error("unknown level " + kind);
}

std::shared_ptr<Level> returns_level(const std::string& kind, const py::array& x, double smoothing, double unit) {
  if (x.ndim() != 2) throw py::value_error("returns must be two-dimensional, got shape " + shape_of(x));
  if (py::isinstance<py::array_t<double>>(x)) return mutable_level(returns_level_of(kind, returns_view<double>(x), smoothing, unit));
  if (!py::isinstance<py::array_t<float>>(x)) throw py::type_error("returns must be float32 or float64, got " + std::string(py::str(x.dtype())));
  return mutable_level(returns_level_of(kind, returns_view<float>(x), smoothing, unit));
}

std::shared_ptr<Level> elementwise(std::int64_t count, int map, double exponent, double scale, double shift, double floor) {
  return mutable_level(make_elementwise(
      {.count = count, .map = static_cast<ScalarMap>(map), .exponent = exponent, .scale = scale, .shift = shift, .floor = floor}));
}

// (inputs, computed, keep, kept, size, population), positive: (first, count, floor).
std::shared_ptr<PyLevel> make_py_level(py::object value, py::object jacobian, py::object pull, py::object push, py::object joint,
                                       const std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>& sizes,
                                       const std::tuple<std::int64_t, std::int64_t, double>& positive, bool indexed) {
  const auto& [inputs, computed, keep, kept, size, population] = sizes;
  const LevelShape shape{.inputs = inputs,
                         .computed = computed,
                         .keep = keep,
                         .kept = kept,
                         .size = size,
                         .population = population,
                         .jacobians = !jacobian.is_none(),
                         .pushes = !jacobian.is_none() || !push.is_none(),
                         .positive = std::get<0>(positive),
                         .positives = std::get<1>(positive),
                         .floor = std::get<2>(positive)};
  return std::make_shared<PyLevel>(shape, LevelFunctions{std::move(value), std::move(jacobian), std::move(pull), std::move(push), std::move(joint)}, indexed);
}

// All outputs of a level at u, and its Jacobian when wanted.
py::tuple level_at(const Level& level, const Doubles& u, const OptionalIndex& index, bool wanted, int threads) {
  const LevelShape& s = level.shape();
  const double* const at = input(u, s.inputs, "u");
  const Batch batch = batch_of(index, s.size, s.population);
  py::array_t<double> value(s.outputs()), jacobian({wanted ? s.computed : 0, s.inputs});
  const LevelPoint point{at, value.mutable_data(), wanted ? jacobian.mutable_data() : nullptr};
  std::copy(at + s.keep, at + s.keep + s.kept, value.mutable_data() + s.computed);
  CallResources use(threads);
  {
    const py::gil_scoped_release release;
    if (s.computed > 0) level.evaluate(&point, 1, batch, use);
  }
  return py::make_tuple(value, wanted ? py::object(jacobian) : py::none());
}

py::array_t<double> level_pull(const Level& level, const Doubles& u, const Doubles& weights, const OptionalIndex& index, int threads) {
  const LevelShape& s = level.shape();
  const double* const at = input(u, s.inputs, "u");
  const double* const by = input(weights, s.outputs(), "weights");
  const Batch batch = batch_of(index, s.size, s.population);
  py::array_t<double> out(s.inputs);
  double* const to = out.mutable_data();
  CallResources use(threads);
  const py::gil_scoped_release release;
  level.pull(at, batch, by, to, use);
  for (std::int64_t j = 0; j < s.kept; ++j) to[s.keep + j] += by[s.computed + j];
  return out;
}

py::array_t<double> level_push(const Level& level, const Doubles& u, const Doubles& direction, const OptionalIndex& index, int threads) {
  const LevelShape& s = level.shape();
  const double* const at = input(u, s.inputs, "u");
  const double* const along = input(direction, s.inputs, "direction");
  const Batch batch = batch_of(index, s.size, s.population);
  py::array_t<double> out(s.outputs());
  double* const to = out.mutable_data();
  CallResources use(threads);
  const py::gil_scoped_release release;
  level.push(at, batch, along, to, use);
  std::copy(along + s.keep, along + s.keep + s.kept, to + s.computed);
  return out;
}

// u_0, ..., u_K on all samples in one vector, the gradient, and how many numbers were guarded.
py::tuple composed(const Levels& levels, const Doubles& w, int threads) {
  LevelChain chain(constant(levels), 0);
  py::array_t<double> numbers(chain.numbers()), gradient(chain.dim());
  double *const u = numbers.mutable_data(), *const g = gradient.mutable_data();
  const double* const at = input(w, chain.dim(), "w");
  std::copy(at, at + chain.dim(), u);
  std::vector<double> entries(static_cast<std::size_t>(chain.entries()));
  std::vector<const double*> points;
  for (std::size_t i = 0; i <= chain.depth(); ++i) points.push_back(u + chain.at(i));
  CallResources use(threads);
  {
    const py::gil_scoped_release release;
    chain.forward(u, entries.data(), use);
    chain.pull_back(points.data(), entries.data(), g, use);
  }
  return py::make_tuple(numbers, gradient, chain.counts().guards);
}

using PowerNumbers = std::tuple<double, double, double>;  // first, exponent, period
PowerLaw power_law(const PowerNumbers& v) { return {.first = std::get<0>(v), .exponent = std::get<1>(v), .period = std::get<2>(v)}; }

// batches: (batch, first); stages: (first, second).
NestedSettings nested_settings(const std::pair<std::int64_t, std::int64_t>& batches, const PowerNumbers& size,
                               const std::vector<PowerNumbers>& beta, const std::pair<double, double>& stages, double guard, std::uint64_t seed) {
  NestedSettings settings{.batch = batches.first,
                          .first = batches.second,
                          .size = power_law(size),
                          .beta = {},
                          .stages = {.first = stages.first, .second = stages.second},
                          .guard = guard,
                          .seed = seed};
  for (const PowerNumbers& b : beta) settings.beta.push_back(power_law(b));
  return settings;
}

std::shared_ptr<TrackedLevels> make_tracked(const Levels& levels, const std::pair<std::int64_t, std::int64_t>& batches, const PowerNumbers& size,
                                            const std::vector<PowerNumbers>& beta, const std::pair<double, double>& stages, double guard,
                                            std::uint64_t seed, int rule, int norm, const std::vector<double>& radius, std::int64_t period,
                                            double reach) {
  TrackedSettings tracked{.rule = static_cast<JacobianRule>(rule),
                          .norm = static_cast<BallNorm>(norm),
                          .radius = radius,
                          .period = period,
                          .reach = reach};
  return std::make_shared<TrackedLevels>(constant(levels), nested_settings(batches, size, beta, stages, guard, seed), std::move(tracked));
}

std::shared_ptr<AveragedLevels> make_averaged(const Levels& levels, const std::pair<std::int64_t, std::int64_t>& batches, const PowerNumbers& size,
                                              const std::vector<PowerNumbers>& beta, double guard, std::uint64_t seed, int rule) {
  return std::make_shared<AveragedLevels>(constant(levels), nested_settings(batches, size, beta, {0.0, 0.0}, guard, seed),
                                          static_cast<AverageRule>(rule));
}

}  // namespace

void bind_levels(py::module_& m) {
  using py::arg;
  py::class_<Level, std::shared_ptr<Level>>(m, "Level")
      .def_property_readonly("inputs", [](const Level& l) { return l.shape().inputs; })
      .def_property_readonly("outputs", [](const Level& l) { return l.shape().outputs(); })
      .def_property_readonly("computed", [](const Level& l) { return l.shape().computed; })
      .def_property_readonly("size", [](const Level& l) { return l.shape().size; })
      .def_property_readonly("population", [](const Level& l) { return l.shape().population; })
      .def_property_readonly("jacobians", [](const Level& l) { return l.shape().jacobians; })
      .def_property_readonly("pushes", [](const Level& l) { return l.shape().pushes; })
      .def("at", &level_at, arg("u"), arg("index").none(true), arg("jacobian"), arg("threads") = 0)
      .def("pull", &level_pull, arg("u"), arg("weights"), arg("index").none(true), arg("threads") = 0)
      .def("push", &level_push, arg("u"), arg("direction"), arg("index").none(true), arg("threads") = 0);
  py::class_<PyLevel, Level, std::shared_ptr<PyLevel>>(m, "PyLevel", py::custom_type_setup(&let_collect<PyLevel>))
      .def(py::init(&make_py_level), arg("value").none(true), arg("jacobian").none(true), arg("pull").none(true), arg("push").none(true), arg("joint").none(true), arg("sizes"),
           arg("positive"), arg("indexed"));
  m.def("returns_level", &returns_level, arg("kind"), arg("returns").noconvert(), arg("smoothing") = 1.0, arg("unit") = 1.0, py::keep_alive<0, 2>());
  m.def("deviation_penalty", [](double lam, double floor) { return mutable_level(make_deviation_penalty(lam, floor)); }, arg("lam"), arg("floor"));
  m.def("elementwise_level", &elementwise, arg("count"), arg("map"), arg("exponent"), arg("scale"), arg("shift"), arg("floor"));
  m.def(
      "linear_level",
      [](const Doubles& a, const Doubles& b) {
        if (a.ndim() != 2) throw py::value_error("A must be two-dimensional, got shape " + shape_of(a));
        return mutable_level(make_linear_level(vector_of(a), vector_of(b), a.shape(1)));
      },
      arg("a"), arg("b"));
  m.def("composed", &composed, arg("levels"), arg("w"), arg("threads") = 0);

  py::class_<NestedEstimator, Estimator, std::shared_ptr<NestedEstimator>>(m, "NestedEstimator")
      .def_property_readonly("size", &NestedEstimator::size)
      .def_property_readonly("counts", [](const NestedEstimator& e) {
        const LevelCounts c = e.counts();
        return py::make_tuple(c.values, c.jacobians, c.products, c.samples, c.guards);
      });
  py::class_<TrackedLevels, NestedEstimator, std::shared_ptr<TrackedLevels>>(m, "TrackedLevels")
      .def(py::init(&make_tracked), arg("levels"), arg("batches"), arg("size"), arg("beta"), arg("stages"), arg("guard"), arg("seed"),
           arg("rule"), arg("norm"), arg("radius"), arg("period"), arg("reach"), py::keep_alive<1, 2>());
  py::class_<AveragedLevels, NestedEstimator, std::shared_ptr<AveragedLevels>>(m, "AveragedLevels")
      .def(py::init(&make_averaged), arg("levels"), arg("batches"), arg("size"), arg("beta"), arg("guard"), arg("seed"), arg("rule"),
           py::keep_alive<1, 2>());
}

}  // namespace leeward::python
