#include "py_oracle.hpp"

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace leeward::python {
namespace {

[[noreturn]] void oracle_error(const std::string& message) {
  const py::object type = py::module_::import("leeward.errors").attr("OracleError");
  PyErr_SetString(type.ptr(), message.c_str());
  throw py::error_already_set();
}

std::string number(double x) {
  if (std::isnan(x)) return "nan";
  return x > 0 ? "inf" : "-inf";
}

// "samples 3, 5, 8, ..." for messages.
std::string samples_of(Batch batch) {
  std::string text = "samples ";
  for (std::int64_t k = 0; k < batch.size && k < 5; ++k) text += (k ? ", " : "") + std::to_string(batch[k]);
  return batch.size > 5 ? text + ", ..." : text;
}

// Copies what a user's function returned, which must be `count` finite real numbers in one dimension.
void take(const py::object& result, std::int64_t count, const std::string& call, const std::string& meaning, double* out) {
  const std::string wanted = call + " must return an array of shape (" + std::to_string(count) + ",), " + meaning;
  const py::array array = py::array::ensure(result);
  if (!array) oracle_error(wanted + "; got an object of type " + std::string(py::str(py::type::of(result).attr("__name__"))));
  const std::string kinds = "fiub";
  if (kinds.find(array.dtype().kind()) == std::string::npos)
    oracle_error(wanted + "; got an array of dtype " + std::string(py::str(array.dtype())));
  if (array.ndim() != 1 || array.shape(0) != count)
    oracle_error(wanted + "; got shape " + std::string(py::str(array.attr("shape"))));
  const auto values = py::array_t<double, py::array::c_style | py::array::forcecast>::ensure(array);
  if (!values) throw py::error_already_set();
  std::memcpy(out, values.data(), static_cast<std::size_t>(count) * sizeof(double));
}

}  // namespace

template <class T>
py::array PyOracle::Shown::show(const T* values, std::int64_t count) {
  if (!store || store.shape(0) < count) {
    store = py::array_t<T>(count);
    view = py::array();
  }
  if (count > 0) std::memcpy(store.mutable_data(), values, static_cast<std::size_t>(count) * sizeof(T));
  if (!view || view.ndim() != 1 || view.shape(0) != count) {
    view = store[py::slice(0, count, 1)];
    view.attr("setflags")(py::arg("write") = false);
  }
  return view;
}

// Sole use of the kept arguments, or fresh ones. Made and destroyed under the GIL.
class PyOracle::Lease {
 public:
  explicit Lease(const PyOracle& owner) : owner_(owner), kept_(!owner.taken_.test_and_set(std::memory_order_acquire)) {
    if (!kept_) fresh_.emplace();
  }
  ~Lease() {
    if (kept_) owner_.taken_.clear(std::memory_order_release);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Arguments& get() { return kept_ ? owner_.kept_ : *fresh_; }

 private:
  const PyOracle& owner_;
  bool kept_;
  std::optional<Arguments> fresh_;
};

PyOracle::PyOracle(py::object losses, py::object gradient, std::int64_t size, std::int64_t dim)
    : losses_(std::move(losses)), gradient_(std::move(gradient)), size_(size), dim_(dim) {}

py::array PyOracle::show_index(Arguments& to, Batch batch) const {
  if (batch.index != nullptr) return to.index.show(batch.index, batch.size);
  if (to.all.size() != size_) {
    to.all = py::module_::import("numpy").attr("arange")(size_, py::arg("dtype") = "int64");
    to.all.attr("setflags")(py::arg("write") = false);
  }
  return to.all;
}

void PyOracle::losses(const double* w, Batch batch, double* out, Resources&) const {
  const py::gil_scoped_acquire gil;
  Lease lease(*this);
  Arguments& a = lease.get();
  const py::object result = losses_(a.w.show(w, dim_), show_index(a, batch));
  take(result, batch.size, "losses(w, index)", "one loss for each entry of index", out);
  for (std::int64_t k = 0; k < batch.size; ++k)
    if (!std::isfinite(out[k]))
      oracle_error("losses(w, index) must return finite numbers, got " + number(out[k]) + " for sample " +
                   std::to_string(batch[k]) + " (entry " + std::to_string(k) + " of the batch)");
}

void PyOracle::gradient(const double* w, Batch batch, const double* weights, double* out, Resources&) const {
  const py::gil_scoped_acquire gil;
  Lease lease(*this);
  Arguments& a = lease.get();
  const py::object result = gradient_(a.w.show(w, dim_), a.weights.show(weights, batch.size), show_index(a, batch));
  take(result, dim_, "gradient(w, weights, index)", "the sum of weights[k] times the gradient of loss index[k]", out);
  for (std::int64_t j = 0; j < dim_; ++j)
    if (!std::isfinite(out[j]))
      oracle_error("gradient(w, weights, index) must return finite numbers, got " + number(out[j]) + " in coordinate " +
                   std::to_string(j) + " for a batch of " + samples_of(batch));
}

}  // namespace leeward::python
