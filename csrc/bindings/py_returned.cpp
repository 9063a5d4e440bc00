#include "py_returned.hpp"

#include <functional>
#include <string>

#include "leeward/core/check.hpp"

namespace leeward::python {
namespace {

using py::detail::npy_api;

// An exact, contiguous, aligned ndarray of native doubles with shape (rows,), or (rows, cols) where cols is not negative.
bool is_plain(PyObject* result, std::int64_t rows, std::int64_t cols = -1) {
  if (Py_TYPE(result) != npy_api::get().PyArray_Type_) return false;
  const auto* const a = py::detail::array_proxy(result);
  constexpr int kNeeded = npy_api::NPY_ARRAY_C_CONTIGUOUS_ | npy_api::NPY_ARRAY_ALIGNED_;
  if (a->nd != (cols < 0 ? 1 : 2) || a->dimensions[0] != rows || (a->flags & kNeeded) != kNeeded) return false;
  if (cols >= 0 && a->dimensions[1] != cols) return false;
  const auto* const type = py::detail::array_descriptor_proxy(a->descr);
  return type->type_num == npy_api::NPY_DOUBLE_ && (type->byteorder == '=' || type->byteorder == '|');
}

bool is_masked(py::handle result) {
  const py::module_ sys = py::module_::import("sys");
  const py::object numpy_ma = sys.attr("modules").attr("get")("numpy.ma");  // no masked array where it was never imported
  return !numpy_ma.is_none() && py::isinstance(result, numpy_ma.attr("MaskedArray"));
}

// Doubles of `result`, which must have one of these shapes; `shape` names the first of them.
py::array_t<double> converted(py::handle result, const std::string& shape, const Wanted& wanted,
                              const std::function<bool(const py::array&)>& fits) {
  const std::string must = std::string(wanted.call) + " must return an array of shape " + shape + ", " + wanted.meaning;
  if (is_masked(result)) oracle_error(must + "; got a masked array: fill or drop the masked entries");
  const py::array array = py::array::ensure(result);
  if (!array) oracle_error(must + "; got an object of type " + std::string(py::str(py::type::of(result).attr("__name__"))));
  if (std::string("fiub").find(array.dtype().kind()) == std::string::npos)
    oracle_error(must + "; got an array of dtype " + std::string(py::str(array.dtype())));
  if (!fits(array))
    oracle_error(must + "; got shape " + std::string(py::str(array.attr("shape"))));
  constexpr int kWanted = py::array::c_style | py::array::forcecast | py::detail::npy_api::NPY_ARRAY_ALIGNED_;
  const auto values = py::array_t<double, kWanted>::ensure(array);
  if (!values) throw py::error_already_set();
  return py::reinterpret_borrow<py::array_t<double>>(values);
}

}  // namespace

void oracle_error(const std::string& message, bool infinite) {
  const py::object type = py::module_::import("leeward.errors").attr(infinite ? "InfiniteError" : "OracleError");
  PyErr_SetString(type.ptr(), message.c_str());
  throw py::error_already_set();
}

bool take(PyObject* result, std::int64_t count, const Wanted& wanted, double* out) {
  bool finite = false;
  if (take_plain(result, count, out, &finite)) return finite;
  const py::array_t<double> values =
      converted(result, "(" + std::to_string(count) + ",)", wanted,
                [count](const py::array& a) { return a.ndim() == 1 && a.shape(0) == count; });
  return copy_and_check(values.data(), count, out);
}

bool take_table(PyObject* result, std::int64_t rows, std::int64_t cols, const Wanted& wanted, double* out) {
  const py::array_t<double> values =
      converted(result, "(" + std::to_string(rows) + ", " + std::to_string(cols) + ")", wanted, [rows, cols](const py::array& a) {
        if (a.ndim() == 2) return a.shape(0) == rows && a.shape(1) == cols;
        return a.ndim() == 1 && (rows == 1 || cols == 1) && a.size() == rows * cols;
      });
  return copy_and_check(values.data(), rows * cols, out);
}

bool take_plain(PyObject* result, std::int64_t count, double* out, bool* finite) {
  if (!is_plain(result, count)) return false;
  *finite = copy_and_check(static_cast<const double*>(static_cast<const void*>(py::detail::array_proxy(result)->data)), count, out);
  return true;
}

bool take_plain(PyObject* result, std::int64_t rows, std::int64_t cols, double* out, bool* finite) {
  if (!is_plain(result, rows, cols)) return false;
  *finite = copy_and_check(static_cast<const double*>(static_cast<const void*>(py::detail::array_proxy(result)->data)), rows * cols, out);
  return true;
}

}  // namespace leeward::python
