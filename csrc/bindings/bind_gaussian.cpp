// The Gaussian Sinkhorn objectives of the scores of a linear model: of one score a sample, and of softmax.
#include <string>

#include "call.hpp"
#include "leeward/oracle/linear.hpp"
#include "leeward/risk/gaussian_smoothing.hpp"
#include "leeward/risk/softmax_smoothing.hpp"

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

std::unique_ptr<SoftmaxSmoothing> make_softmax(const std::string& divergence, double alpha, double T, double beta,
                                               std::int64_t freedom, int threads) {
  const GaussianDivergence kind = divergence_of(divergence);
  CallResources use(threads);
  const py::gil_scoped_release release;
  return std::make_unique<SoftmaxSmoothing>(kind, alpha, T, beta, freedom, use);
}

// Psi / T of the loss 0.
double constant_of(const std::string& divergence, double alpha, double beta, std::int64_t dim, int threads) {
  CallResources use(threads);
  const py::gil_scoped_release release;
  return eta_constant(NoisyConjugate(divergence == "smoothed_cvar" ? alpha : 0.0, beta, dim - 1, use), beta);
}

// The nodes' arrays: move (C, K), weight and cost (K,), shift (C, C, C) and head (C, C), both empty without shifts.
void evaluate_softmax(const SoftmaxSmoothing& smoothing, const Doubles& move, const Doubles& weight, const Doubles& cost,
                      const Doubles& shift, const Doubles& head, const Doubles& scores, const Doubles& labels, const Doubles& p,
                      Doubles& value, Doubles& slope, Doubles& turn, Doubles& mass, Doubles& pull, int threads) {
  const std::int64_t n = labels.size(), K = weight.size(), C = K > 0 ? move.size() / K : 0;
  if (C < 2 || K % kLanes != 0) throw py::value_error("nodes come in lanes of 16, with two classes or more");
  const std::int64_t square = shift.size() == 0 ? 0 : C * C;
  const ScoreNodes nodes{C,
                         K,
                         input(move, C * K, "move"),
                         weight.data(),
                         input(cost, K, "cost"),
                         square == 0 ? nullptr : input(shift, C * square, "shift"),
                         input(head, square, "head")};
  const double* const z = input(scores, n * C, "scores");
  const double* const q = input(p, n, "p");
  const double* const y = labels.data();
  for (std::int64_t i = 0; i < n; ++i)
    if (!(y[i] >= 0.0 && y[i] < static_cast<double>(C))) throw py::value_error("labels must be in 0..C-1");
  const SoftmaxValues out{output(value, n, "value"), output(slope, n * C, "slope"), output(turn, C * K, "turn"),
                          output(mass, square, "mass"), output(pull, C * square, "pull")};
  CallResources use(threads);
  const py::gil_scoped_release release;
  smoothing.evaluate(nodes, z, y, q, n, out, use);
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
  m.def("gaussian_constant", &constant_of, arg("divergence"), arg("alpha"), arg("beta"), arg("dim"), arg("threads") = 0);
  py::class_<SoftmaxSmoothing>(m, "SoftmaxSmoothing")
      .def(py::init(&make_softmax), arg("divergence"), arg("alpha"), arg("T"), arg("beta"), arg("freedom"), arg("threads") = 0)
      .def("evaluate", &evaluate_softmax, arg("move"), arg("weight"), arg("cost"), arg("shift"), arg("head"), arg("scores"),
           arg("labels"), arg("p"), arg("value").noconvert(), arg("slope").noconvert(), arg("turn").noconvert(),
           arg("mass").noconvert(), arg("pull").noconvert(), arg("threads") = 0);
}

}  // namespace leeward::python
