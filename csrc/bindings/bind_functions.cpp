// Oracles made of the user's functions: Python functions, one function with its pullback, and C functions by address.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "leeward/oracle/cfunc.hpp"
#include "py_batch.hpp"
#include "py_collect.hpp"
#include "py_oracle.hpp"

namespace leeward::python {
namespace {

// Seconds of one call of losses and of gradient inside a native loop, as algorithms make them.
py::tuple call_seconds(const Oracle& oracle, const Doubles& w, const Doubles& weights, const OptionalIndex& index, std::int64_t calls) {
  using Clock = std::chrono::steady_clock;
  const double* const at = input(w, oracle.dim(), "w");
  const Batch batch = batch_of(index, oracle);
  const double* const scale = input(weights, batch.size, "weights");
  std::vector<double> out(static_cast<std::size_t>(std::max(batch.size, oracle.dim())));
  CallResources use(1);
  Clock::time_point times[3];
  {
    const py::gil_scoped_release release;
    times[0] = Clock::now();
    for (std::int64_t k = 0; k < calls; ++k) oracle.losses(at, batch, out.data(), use);
    times[1] = Clock::now();
    for (std::int64_t k = 0; k < calls; ++k) oracle.gradient(at, batch, scale, out.data(), use);
    times[2] = Clock::now();
  }
  const auto a_call = [&](int k) { return std::chrono::duration<double>(times[k + 1] - times[k]).count() / static_cast<double>(calls); };
  return py::make_tuple(a_call(0), a_call(1));
}

// A function at an address, as ctypes, numba and SciPy give it.
template <class Function>
Function at_address(std::uintptr_t address) {
  return reinterpret_cast<Function>(address);
}

std::shared_ptr<CFunctionOracle> make_cfunction(std::pair<std::uintptr_t, std::uintptr_t> losses,
                                                std::pair<std::uintptr_t, std::uintptr_t> gradient, std::int64_t size,
                                                std::int64_t dim, bool parallel) {
  const CFunctions functions{.losses = at_address<CFunctions::Losses>(losses.first),
                             .gradient = at_address<CFunctions::Gradient>(gradient.first),
                             .losses_user = at_address<void*>(losses.second),
                             .gradient_user = at_address<void*>(gradient.second)};
  return std::make_shared<CFunctionOracle>(functions, size, dim, parallel);
}

void translate_fault(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const OracleFault& fault) {
    const py::object type = py::module_::import("leeward.errors").attr(fault.infinite() ? "InfiniteError" : "OracleError");
    PyErr_SetString(type.ptr(), fault.what());
  }
}

py::object or_null(const py::object& sample) { return sample.is_none() ? py::object() : sample; }

}  // namespace

void bind_functions(py::module_& m) {
  using py::arg;
  py::class_<PyOracle, Oracle, std::shared_ptr<PyOracle>>(m, "PyOracle", py::custom_type_setup(&let_collect<PyOracle>))
      .def(py::init([](py::object losses, py::object gradient, std::int64_t size, std::int64_t dim, const py::object& sample,
                       std::int64_t population) {
             const PySizes sizes{size, dim, population};
             return std::make_shared<PyOracle>(std::move(losses), std::move(gradient), or_null(sample), sizes);
           }),
           arg("losses"), arg("gradient"), arg("size"), arg("dim"), arg("sample").none(true), arg("population"));

  py::class_<PyVjpOracle, Oracle, std::shared_ptr<PyVjpOracle>>(m, "PyVjpOracle", py::custom_type_setup(&let_collect<PyVjpOracle>))
      .def(py::init([](py::object fun, std::int64_t size, std::int64_t dim, const py::object& sample, std::int64_t population) {
             const PySizes sizes{size, dim, population};
             return std::make_shared<PyVjpOracle>(std::move(fun), or_null(sample), sizes);
           }),
           arg("fun"), arg("size"), arg("dim"), arg("sample").none(true), arg("population"));

  py::register_local_exception_translator(&translate_fault);
  py::class_<CFunctionOracle, Oracle, std::shared_ptr<CFunctionOracle>>(m, "CFunctionOracle")
      .def(py::init(&make_cfunction), arg("losses"), arg("gradient"), arg("size"), arg("dim"), arg("parallel"));

  m.def("call_seconds", &call_seconds, arg("oracle"), arg("w"), arg("weights"), arg("index").none(true), arg("calls"));
}

}  // namespace leeward::python
