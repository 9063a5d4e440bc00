#include "py_points.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace leeward::python {
namespace {

std::int64_t times(std::int64_t samples, std::int64_t draws) {
  if (samples < 1 || draws < 1 || samples > (std::int64_t{1} << 62) / draws)
    throw std::invalid_argument("samples and draws must be at least 1, and their product below 2**62");
  return samples * draws;
}

}  // namespace

PyPoints::PyPoints(py::object losses, py::object gradient, py::object costs, std::int64_t samples, std::int64_t dim, std::int64_t draws)
    : functions_(std::move(losses), std::move(gradient), py::object(),
                 PySizes{times(samples, draws), dim, times(samples, draws)}),
      costs_(std::move(costs)),
      draws_(draws) {}

void PyPoints::costs(Batch batch, double* out, Resources&) const {
  const py::gil_scoped_acquire gil;
  py::array_t<std::int64_t> numbers(batch.size);
  for (std::int64_t k = 0; k < batch.size; ++k) numbers.mutable_data()[k] = batch[k];
  const py::object result = costs_(numbers);
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  const Wanted wanted{"costs(numbers)", "one cost for each number"};
  if (!take(result.ptr(), batch.size, wanted, out)) oracle_error("costs(numbers) must return finite numbers");
}

int PyPoints::traverse(visitproc visit, void* arg) const {
  Py_VISIT(costs_.ptr());
  return functions_.traverse(visit, arg);
}

void PyPoints::clear() {
  costs_ = py::none();
  functions_.clear();
}

}  // namespace leeward::python
