// The native inner loop of a stage on a linear model, for tests and benches.
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include <pybind11/stl.h>

#include "call.hpp"
#include "leeward/core/sampler.hpp"
#include "leeward/descent/linear_stage.hpp"

namespace leeward::python {
namespace {

using DomainSettings = std::tuple<int, Doubles, Doubles>;

const double* optional_input(const std::optional<Doubles>& a, std::int64_t size, const char* name) {
  return a ? input(*a, size, name) : nullptr;
}

// w after the steps on the given rows, `cut` steps at a time (0: all at once).
py::array_t<double> stage_steps(const LinearOracle& oracle, const Doubles& w, const Integers& index, std::int64_t batch,
                                double step, double l2, const std::optional<Doubles>& gradient,
                                const std::optional<Doubles>& snapshot, const std::optional<Doubles>& slopes,
                                const std::optional<Doubles>& factors, const std::optional<Doubles>& metric,
                                const DomainSettings& domain, std::int64_t cut) {
  const std::int64_t dim = oracle.dim(), rows = index.size();
  if (batch < 1 || rows % batch != 0) throw py::value_error("index must hold batch rows a step");
  for (std::int64_t k = 0; k < rows; ++k)
    if (index.data()[k] < 0 || index.data()[k] >= oracle.size()) throw py::index_error("index is out of range");
  const StagePoint at{optional_input(snapshot, dim, "snapshot"), optional_input(gradient, dim, "gradient"),
                      optional_input(slopes, oracle.size() * oracle.outputs(), "slopes")};
  const double* const f = optional_input(factors, rows, "factors");
  const auto& [kind, first, second] = domain;
  Domain set;
  if (kind != 0)
    set = Domain(static_cast<DomainKind>(kind), oracle.outputs() * oracle.matrix().cols(), vector_of(first),
                 vector_of(second));
  const StageRule rule{step, l2, optional_input(metric, dim, "metric"), &set};
  LinearStage stage(oracle);
  if (!LinearStage::takes(set)) throw py::value_error("no native stage for this domain");
  py::array_t<double> out(dim, input(w, dim, "w"));
  double* const to = out.mutable_data();
  const std::int64_t stretch = cut > 0 ? cut : rows / batch;
  CallResources use(1);
  const py::gil_scoped_release release;
  for (std::int64_t k = 0; k * batch < rows; k += stretch) {
    const std::int64_t now = std::min(stretch, rows / batch - k);
    stage.begin(rule, at, to);
    stage.steps(index.data() + k * batch, f != nullptr ? f + k * batch : nullptr, now, batch, rows - (k + now) * batch, use);
    stage.end(to);
  }
  return out;
}

}  // namespace

void bind_stage(py::module_& m) {
  using py::arg;
  m.def("stage_steps", &stage_steps, arg("oracle"), arg("w"), arg("index"), arg("batch"), arg("step"), arg("l2"),
        arg("gradient").none(true), arg("snapshot").none(true), arg("slopes").none(true), arg("factors").none(true),
        arg("metric").none(true), arg("domain"), arg("cut") = 0);
}

}  // namespace leeward::python
