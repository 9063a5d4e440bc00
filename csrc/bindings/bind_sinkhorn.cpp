// Points around samples, and the inner problems of Sinkhorn DRO over them.
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <pybind11/stl.h>

#include "leeward/estimator/sinkhorn_batch.hpp"
#include "leeward/estimator/sinkhorn_mlmc.hpp"
#include "leeward/risk/bisection.hpp"
#include "py_batch.hpp"
#include "py_collect.hpp"
#include "py_points.hpp"

namespace leeward::python {
namespace {

std::vector<double> numbers_of(const std::optional<Doubles>& a) {
  return a ? std::vector<double>(a->data(), a->data() + a->size()) : std::vector<double>{};
}

// reference: (kind, scale, rows or None, lower or None, upper or None, label noise); cost: (kind, scale, label scale).
using ReferenceSpec = std::tuple<int, Doubles, std::optional<Doubles>, std::optional<Doubles>, std::optional<Doubles>, double>;
using CostSpec = std::tuple<int, double, double>;

std::shared_ptr<PerturbedLinear> make_perturbed(std::shared_ptr<LinearOracle> model, const ReferenceSpec& reference, const CostSpec& cost,
                                                std::int64_t draws, std::uint64_t seed) {
  const auto& [kind, scale, rows, lower, upper, label_noise] = reference;
  Reference r{.kind = static_cast<ReferenceKind>(kind),
              .scale = numbers_of(scale),
              .rows = {},
              .lower = numbers_of(lower),
              .upper = numbers_of(upper),
              .label_noise = label_noise};
  if (rows) {
    if (rows->ndim() != 2) throw py::value_error("rows must be two-dimensional, got shape " + python::shape_of(*rows));
    r.rows = {rows->data(), rows->shape(0), rows->shape(1), rows->shape(1)};
  }
  const TransportCost c{.kind = static_cast<CostKind>(std::get<0>(cost)), .scale = std::get<1>(cost), .label_scale = std::get<2>(cost)};
  return std::make_shared<PerturbedLinear>(std::move(model), std::move(r), c, draws, seed);
}

// Numbers of points or of sets are checked against 2^63 / m alone: fresh sets have no end.
Batch batch_of_numbers(const OptionalIndex& index, const Oracle& oracle, std::int64_t per_number) {
  return batch_of(index, oracle.size(), std::numeric_limits<std::int64_t>::max() / per_number);
}

py::tuple drawn_points(const PerturbedLinear& oracle, const OptionalIndex& index, int threads) {
  const Batch batch = batch_of_numbers(index, oracle, 1);
  const std::int64_t cols = oracle.model().matrix().cols();
  py::array_t<double> x({batch.size, cols}), labels(batch.size);
  double *const to = x.mutable_data(), *const y = labels.mutable_data();
  CallResources use(threads);
  {
    const py::gil_scoped_release release;
    oracle.points(batch, to, y, use);
  }
  return py::make_tuple(x, labels);
}

py::array_t<double> point_costs(const PerturbedOracle& oracle, const OptionalIndex& index, int threads) {
  const Batch batch = batch_of_numbers(index, oracle, 1);
  py::array_t<double> out(batch.size);
  double* const to = out.mutable_data();
  CallResources use(threads);
  const py::gil_scoped_release release;
  oracle.costs(batch, to, use);
  return out;
}

// (values, gradient, eta, effective numbers of draws) of all samples.
py::tuple evaluate_all(const SinkhornOracle& oracle, const Doubles& w, const std::optional<Doubles>& p, int threads) {
  const double* const at = input(w, oracle.dim(), "w");
  const double* const base = p ? input(*p, oracle.size(), "p") : nullptr;
  py::array_t<double> values(oracle.size()), eta(oracle.size()), effective(oracle.size()), gradient(oracle.dim());
  const SinkhornAnswers out{values.mutable_data(), eta.mutable_data(), effective.mutable_data(), gradient.mutable_data()};
  CallResources use(threads);
  {
    const py::gil_scoped_release release;
    oracle.evaluate(at, base, out, use);
  }
  return py::make_tuple(values, gradient, eta, effective);
}

template <void (SinkhornOracle::*what)(const double*, Batch, double*, Resources&) const>
py::array_t<double> of_points(const SinkhornOracle& oracle, const Doubles& w, const OptionalIndex& index, int threads) {
  const double* const at = input(w, oracle.dim(), "w");
  const std::int64_t m = oracle.points().draws();
  const Batch batch = batch_of_numbers(index, oracle, m);
  py::array_t<double> out({batch.size, m});
  double* const to = out.mutable_data();
  CallResources use(threads);
  const py::gil_scoped_release release;
  (oracle.*what)(at, batch, to, use);
  return out;
}

// form: (kind, parameter); inner: (lam eps, steps, step, first eta or NaN).
std::shared_ptr<SinkhornBatch> make_sinkhorn_batch(std::shared_ptr<SinkhornOracle> oracle, const std::optional<Doubles>& base,
                                          const std::tuple<int, double>& form, std::int64_t n,
                                          const std::tuple<double, std::int64_t, double, double>& inner, bool fresh, std::uint64_t seed) {
  Population population(oracle->size(), base ? input(*base, oracle->size(), "base") : nullptr, nullptr);
  const SinkhornBatchSettings settings{.form = {.kind = static_cast<DualKind>(std::get<0>(form)), .parameter = std::get<1>(form)},
                                       .reach = std::get<0>(inner),
                                       .n = n,
                                       .inner_steps = std::get<1>(inner),
                                       .inner_step = std::get<2>(inner),
                                       .start = std::get<3>(inner),
                                       .fresh = fresh,
                                       .seed = seed};
  return std::make_shared<SinkhornBatch>(std::move(oracle), std::move(population), settings);
}

// draws: (m0, levels).
std::shared_ptr<SinkhornMlmc> make_sinkhorn_mlmc(std::shared_ptr<SinkhornOracle> oracle, const std::optional<Doubles>& base,
                                                 std::int64_t n, const std::tuple<std::int64_t, int>& draws, std::int64_t unit,
                                                 std::uint64_t seed) {
  Population population(oracle->size(), base ? input(*base, oracle->size(), "base") : nullptr, nullptr);
  const SinkhornMlmcSettings settings{
      .n = n, .m0 = std::get<0>(draws), .levels = std::get<1>(draws), .unit = unit, .seed = seed};
  return std::make_shared<SinkhornMlmc>(std::move(oracle), std::move(population), settings);
}

}  // namespace

void bind_sinkhorn(py::module_& m) {
  using py::arg;
  py::class_<PerturbedOracle, Oracle, std::shared_ptr<PerturbedOracle>>(m, "PerturbedOracle")
      .def_property_readonly("draws", &PerturbedOracle::draws)
      .def("costs", &point_costs, arg("index").none(true), arg("threads") = 0);

  py::class_<PerturbedLinear, PerturbedOracle, std::shared_ptr<PerturbedLinear>>(m, "PerturbedLinear")
      .def(py::init(&make_perturbed), arg("model"), arg("reference"), arg("cost"), arg("draws"), arg("seed"), py::keep_alive<1, 2>(),
           py::keep_alive<1, 3>())
      .def("points", &drawn_points, arg("index").none(true), arg("threads") = 0, "(points, labels) by number.");

  py::class_<PyPoints, PerturbedOracle, std::shared_ptr<PyPoints>>(m, "PyPoints", py::custom_type_setup(&let_collect<PyPoints>))
      .def(py::init([](py::object losses, py::object gradient, py::object costs, std::int64_t samples, std::int64_t dim,
                       std::int64_t draws) {
             return std::make_shared<PyPoints>(std::move(losses), std::move(gradient), std::move(costs), samples, dim, draws);
           }),
           arg("losses"), arg("gradient"), arg("costs"), arg("samples"), arg("dim"), arg("draws"));

  py::class_<SinkhornOracle, Oracle, std::shared_ptr<SinkhornOracle>>(m, "SinkhornOracle")
      .def(py::init([](std::shared_ptr<PerturbedOracle> points, std::shared_ptr<Risk> inner, double lam, double constant) {
             return std::make_shared<SinkhornOracle>(std::move(points), std::move(inner), SinkhornSettings{lam, constant});
           }),
           arg("points"), arg("inner"), arg("lam"), arg("constant"), py::keep_alive<1, 2>(), py::keep_alive<1, 3>())
      .def("evaluate", &evaluate_all, arg("w"), arg("p").none(true), arg("threads") = 0)
      .def("shifted", &of_points<&SinkhornOracle::shifted>, arg("w"), arg("index").none(true), arg("threads") = 0)
      .def("weights", &of_points<&SinkhornOracle::weights>, arg("w"), arg("index").none(true), arg("threads") = 0);

  py::class_<SinkhornBatch, Estimator, std::shared_ptr<SinkhornBatch>>(m, "SinkhornBatch")
      .def(py::init(&make_sinkhorn_batch), arg("oracle"), arg("base").none(true), arg("form"), arg("n"), arg("inner"), arg("fresh"), arg("seed"),
           py::keep_alive<1, 2>())
      .def_property_readonly("size", &SinkhornBatch::size)
      .def_property_readonly(
          "eta",
          [](SinkhornBatch& e) { return py::array_t<double>(static_cast<py::ssize_t>(e.state().size()), e.state().data()); },
          "Each sample's eta; for those never drawn the first eta.");

  py::class_<SinkhornMlmc, Estimator, std::shared_ptr<SinkhornMlmc>>(m, "SinkhornMlmc")
      .def(py::init(&make_sinkhorn_mlmc), arg("oracle"), arg("base").none(true), arg("n"), arg("draws"), arg("unit"), arg("seed"),
           py::keep_alive<1, 2>())
      .def(
          "draw",
          [](SinkhornMlmc& e, std::uint64_t step) {
            const SinkhornMlmc::Drawn& drawn = e.draw(step);
            const auto n = static_cast<py::ssize_t>(drawn.set.size());
            return py::make_tuple(py::array_t<std::int64_t>(n, drawn.set.data()), py::array_t<int>(n, drawn.level.data()));
          },
          arg("step"), "The sets of points and the levels of a step's samples.");

  m.def(
      "make_bisection",
      [](const std::tuple<int, double>& form, double lam, double tol) {
        return make_bisection({.kind = static_cast<DualKind>(std::get<0>(form)), .parameter = std::get<1>(form)}, lam, tol);
      },
      arg("form"), arg("lam"), arg("tol"));
}

}  // namespace leeward::python
