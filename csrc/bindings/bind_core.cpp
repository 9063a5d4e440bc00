// Threads, SIMD level, real functions, sums: what the floors offer to tests, to `leeward info` and to teaching.
#include <optional>

#include "call.hpp"
#include "leeward/core/check.hpp"
#include "leeward/core/real_arrays.hpp"
#include "leeward/core/simd.hpp"
#include "leeward/core/sum.hpp"

namespace leeward::python {
namespace {

constexpr std::int64_t kReleaseFrom = 16384;  // below this many numbers releasing the GIL costs as much as the work

using Map = void (*)(const double*, std::int64_t, double*);

struct RealMath {};  // a namespace in the stub, where a submodule would need a folder

void bind_map(py::class_<RealMath>& scope, const char* name, Map map, const char* doc) {
  scope.def_static(
      name,
      [map](const Doubles& x) {
        Doubles out(std::vector<py::ssize_t>(x.shape(), x.shape() + x.ndim()));
        const double* from = x.data();
        double* to = out.mutable_data();
        const std::int64_t n = x.size();
        const py::gil_scoped_release release;
        map(from, n, to);
        return out;
      },
      py::arg("x").noconvert(), doc);
}

template <class T>
void bind_passes(py::module_& m) {
  using Array = py::array_t<T, py::array::c_style>;
  m.def(
      "sum",
      [](const Array& x, int threads) {
        CallResources use(threads);
        const T* data = x.data();
        const std::int64_t n = x.size();
        const py::gil_scoped_release release;
        return sum(data, n, use);
      },
      py::arg("x").noconvert(), py::arg("threads") = 0, "Sum in double by fixed lanes and a fixed tree over blocks.");
  m.def(
      "dot",
      [](const Array& x, const Doubles& y, int threads) {
        const double* other = input(y, x.size(), "y");
        CallResources use(threads);
        const T* data = x.data();
        const std::int64_t n = x.size();
        std::optional<py::gil_scoped_release> release;
        if (n >= kReleaseFrom) release.emplace();
        return dot(data, other, n, use);
      },
      py::arg("x").noconvert(), py::arg("y").noconvert(), py::arg("threads") = 0,
      "sum x y in double by fixed lanes and a fixed tree over blocks.");
  m.def(
      "first_non_finite",
      [](const Array& x, int threads) {
        const T* data = x.data();
        const std::int64_t n = x.size();
        const CallResources use(threads);
        const py::gil_scoped_release release;
        return first_non_finite(data, n, use);
      },
      py::arg("x").noconvert(), py::arg("threads") = 0, "Position of the first infinite or NaN element, or -1.");
}

}  // namespace

void bind_core(py::module_& m) {
  m.attr("__version__") = LEEWARD_VERSION;
  m.def("resolve_threads", &resolve_threads, py::arg("requested"), "Threads a call may use; a request of 0 is the default.");
  m.def("parallel_backend", &parallel_backend, "What parallel blocks run on.");
  m.def("simd_level", &simd_level, "The level the kernels run at: 'baseline', 'avx2' or 'avx512'.");
  bind_passes<double>(m);
  bind_passes<float>(m);
  py::class_<RealMath> real(m, "real_math", "The core's own real functions, the same bits at each SIMD level.");
  bind_map(real, "exp", &exp_array, "e^x");
  bind_map(real, "expm1", &expm1_array, "e^x - 1");
  bind_map(real, "log", &log_array, "log x");
  bind_map(real, "log1p", &log1p_array, "log(1 + x)");
  bind_map(real, "sigmoid", &sigmoid_array, "1 / (1 + e^-x)");
  bind_map(real, "softplus", &softplus_array, "log(1 + e^x)");
  bind_draws(m);
}

}  // namespace leeward::python
