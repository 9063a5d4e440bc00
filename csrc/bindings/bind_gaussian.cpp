// The Gaussian Sinkhorn objective of the scores of a linear model.
#include <string>

#include "call.hpp"
#include "leeward/oracle/linear.hpp"
#include "leeward/risk/gaussian_smoothing.hpp"

namespace leeward::python {
namespace {

GaussianDivergence divergence_of(const std::string& name) {
  if (name == "kl") return GaussianDivergence::kl;
  if (name == "chi_square") return GaussianDivergence::chi_square;
  if (name == "smoothed_cvar") return GaussianDivergence::smoothed_cvar;
  throw py::value_error("unknown divergence " + name);
}

std::unique_ptr<GaussianSmoothing> make(const LinearOracle& oracle, const std::string& divergence, double alpha, double lam,
                                        double entropy, double noise, int threads) {
  const GaussianSettings settings{oracle.settings().loss, divergence_of(divergence), alpha, lam, entropy, noise,
                                  oracle.matrix().cols()};
  CallResources use(threads);
  const py::gil_scoped_release release;
  return std::make_unique<GaussianSmoothing>(settings, use);
}

void evaluate(const GaussianSmoothing& smoothing, const LinearOracle& oracle, const Doubles& scores, double tau, Doubles& value,
              Doubles& slope, Doubles& spread, int threads) {
  const std::int64_t n = oracle.size();
  const double* const z = input(scores, n, "scores");
  const GaussianValues out{output(value, n, "value"), output(slope, n, "slope"), output(spread, n, "spread")};
  CallResources use(threads);
  const py::gil_scoped_release release;
  smoothing.evaluate(z, oracle.settings().labels, n, tau, out, use);
}

}  // namespace

void bind_gaussian(py::module_& m) {
  using py::arg;
  py::class_<GaussianSmoothing>(m, "GaussianSmoothing")
      .def(py::init(&make), arg("oracle"), arg("divergence"), arg("alpha"), arg("lam"), arg("entropy"), arg("noise"),
           arg("threads") = 0)
      .def_property_readonly("constant", &GaussianSmoothing::constant)
      .def("evaluate", &evaluate, arg("oracle"), arg("scores"), arg("tau"), arg("value").noconvert(), arg("slope").noconvert(),
           arg("spread").noconvert(), arg("threads") = 0);
}

}  // namespace leeward::python
