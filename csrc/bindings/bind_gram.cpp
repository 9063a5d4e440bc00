// weighted_gram, cholesky and triangular solves for the full-batch solvers. Arrays arrive C-contiguous in double.
#include <algorithm>
#include <stdexcept>

#include "call.hpp"
#include "leeward/core/gram.hpp"

namespace leeward::python {
namespace {

using Array = py::array_t<double, py::array::c_style>;

Array gram(const Array& rows, const Array& weights, bool ones, int threads) {
  if (rows.ndim() != 2 || weights.ndim() != 1 || weights.shape(0) != rows.shape(0))
    throw std::invalid_argument("rows must be (m, d) and weights (m,)");
  const std::int64_t dim = rows.shape(1) + (ones ? 1 : 0);
  Array out({dim, dim});
  const DenseView<double> view{rows.data(), rows.shape(0), rows.shape(1), rows.shape(1)};
  double* result = out.mutable_data();
  CallResources use(threads);
  {
    const py::gil_scoped_release release;
    weighted_gram(view, weights.data(), ones, result, use);
  }
  return out;
}

Array sum(const Array& rows, const Array& weights, bool ones) {
  if (rows.ndim() != 2 || weights.ndim() != 1 || weights.shape(0) != rows.shape(0))
    throw std::invalid_argument("rows must be (m, d) and weights (m,)");
  Array out(rows.shape(1) + (ones ? 1 : 0));
  const DenseView<double> view{rows.data(), rows.shape(0), rows.shape(1), rows.shape(1)};
  double* result = out.mutable_data();
  py::gil_scoped_release release;
  weighted_sum(view, weights.data(), ones, result);
  return out;
}

std::int64_t square(const Array& a) {
  if (a.ndim() != 2 || a.shape(0) != a.shape(1)) throw std::invalid_argument("the matrix must be square");
  return a.shape(0);
}

std::int64_t factor(Array& a) {
  const std::int64_t n = square(a);
  double* data = a.mutable_data();
  py::gil_scoped_release release;
  return cholesky(data, n);
}

Array solve_triangular(const Array& a, const Array& x, bool transposed) {
  const std::int64_t n = square(a);
  if (x.ndim() != 1 || x.shape(0) != n) throw std::invalid_argument("the vector must be as long as the matrix");
  Array out(n);
  double* result = out.mutable_data();
  std::copy(x.data(), x.data() + n, result);
  py::gil_scoped_release release;
  if (transposed)
    solve_lower_transposed(a.data(), n, result);
  else
    solve_lower(a.data(), n, result);
  return out;
}

}  // namespace

void bind_gram(py::module_& m) {
  m.def("weighted_gram", &gram, py::arg("rows").noconvert(), py::arg("weights").noconvert(), py::arg("ones"), py::arg("threads") = 1,
        "sum_k weights[k] x~_k x~_k^T with x~ = (x, 1) when ones, else x");
  m.def("weighted_sum", &sum, py::arg("rows").noconvert(), py::arg("weights").noconvert(), py::arg("ones"),
        "sum_k weights[k] x~_k with x~ = (x, 1) when ones, else x");
  m.def("cholesky", &factor, py::arg("a").noconvert(),
        "Overwrites the lower triangle of a by its factor; returns len(a), or the first row without a positive pivot");
  m.def("solve_triangular", &solve_triangular, py::arg("factor").noconvert(), py::arg("x").noconvert(), py::arg("transposed") = false,
        "L^-1 x, or L^-T x when transposed");
}

}  // namespace leeward::python
