// Oracle, and the linear model's matrix and oracle.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "call.hpp"
#include "leeward/oracle/linear.hpp"
#include "leeward/oracle/page_run.hpp"
#include "leeward/oracle/row_tiles.hpp"
#include "leeward/oracle/squares.hpp"
#include "py_batch.hpp"

namespace leeward::python {
namespace {

void losses(const Oracle& oracle, const Doubles& w, const OptionalIndex& index, Doubles& out, int threads) {
  const double* const at = input(w, oracle.dim(), "w");
  const Batch batch = batch_of(index, oracle);
  double* const to = output(out, batch.size, "out");
  CallResources use(threads);
  const py::gil_scoped_release release;
  oracle.losses(at, batch, to, use);
}

void gradient(const Oracle& oracle, const Doubles& w, const Doubles& weights, const OptionalIndex& index, Doubles& out,
              int threads) {
  const double* const at = input(w, oracle.dim(), "w");
  const Batch batch = batch_of(index, oracle);
  const double* const scale = input(weights, batch.size, "weights");
  double* const to = output(out, oracle.dim(), "out");
  CallResources use(threads);
  const py::gil_scoped_release release;
  oracle.gradient(at, batch, scale, to, use);
}

// The matrix and the arrays it points into.
struct Matrix {
  std::shared_ptr<const LinearMatrix> rows;
  py::object arrays;
};

template <class T>
Matrix dense_matrix(const py::array& x, bool mapped) {
  const auto item = static_cast<py::ssize_t>(sizeof(T));
  const bool rows_in_order = x.shape(1) <= 1 || x.strides(1) == item;
  if (!rows_in_order || x.strides(0) % item != 0) throw py::value_error("X must have contiguous columns");
  return {make_dense<T>({static_cast<const T*>(x.data()), x.shape(0), x.shape(1), x.strides(0) / item}, mapped), x};
}

Matrix make_dense_matrix(const py::array& x, bool mapped) {
  if (x.ndim() != 2) throw py::value_error("X must be two-dimensional, got shape " + shape_of(x));
  if (py::isinstance<py::array_t<double>>(x)) return dense_matrix<double>(x, mapped);
  if (py::isinstance<py::array_t<float>>(x)) return dense_matrix<float>(x, mapped);
  throw py::type_error("X must be float32 or float64, got " + std::string(py::str(x.dtype())));
}

template <class T, class I>
Matrix csr_matrix(const py::array& data, const py::array& indices, const Integers& indptr, std::int64_t cols) {
  const auto* const columns = static_cast<const I*>(indices.data());
  const std::int64_t rows = indptr.shape(0) - 1;
  const CsrFault fault = check_csr<I>(columns, indptr.data(), rows, cols, std::min(data.shape(0), indices.shape(0)));
  if (fault.kind == CsrFault::pointer)
    throw py::value_error("X.indptr is not a valid list of row starts at row " + std::to_string(fault.row));
  if (fault.kind == CsrFault::column)
    throw py::value_error("X.indices[" + std::to_string(fault.entry) + "] is " + std::to_string(columns[fault.entry]) +
                          " (row " + std::to_string(fault.row) + "), must be in [0, " + std::to_string(cols) + ")");
  const CsrView<T, I> view{static_cast<const T*>(data.data()), columns, indptr.data(), rows, cols};
  return {make_csr<T, I>(view), py::make_tuple(data, indices, indptr)};
}

Matrix make_csr_matrix(const py::array& data, const py::array& indices, const Integers& indptr, std::int64_t cols) {
  const bool wide = py::isinstance<py::array_t<double>>(data), narrow = py::isinstance<py::array_t<float>>(data);
  const bool large = py::isinstance<py::array_t<std::int64_t>>(indices), small = py::isinstance<py::array_t<std::int32_t>>(indices);
  if (!(wide || narrow) || !(large || small) || indptr.ndim() != 1 || indptr.shape(0) < 1)
    throw py::type_error("CSR needs float32 or float64 data, int32 or int64 indices and int64 indptr");
  if (wide) return large ? csr_matrix<double, std::int64_t>(data, indices, indptr, cols)
                         : csr_matrix<double, std::int32_t>(data, indices, indptr, cols);
  return large ? csr_matrix<float, std::int64_t>(data, indices, indptr, cols)
               : csr_matrix<float, std::int32_t>(data, indices, indptr, cols);
}

// (row, column) of the first entry that is not a number of magnitude <= limit, or None.
py::object first_bad(const Matrix& matrix, double limit, int threads) {
  const LinearMatrix& x = *matrix.rows;
  const CallResources use(threads);
  const RowTiles tiles = RowTiles::make(x.rows(), x, 1, 0);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(tiles.tasks), -1);
  {
    const py::gil_scoped_release release;
    parallel_blocks(tiles.tasks, use.threads, [&](std::int64_t task) {
      const std::int64_t last = std::min(x.rows(), tiles.first_row(tiles.first_tile(task + 1)));
      std::int64_t i = tiles.first_row(tiles.first_tile(task));
      PageRun pages(x, {nullptr, x.rows()}, last);
      pages.read(i, std::min<std::int64_t>(64, last - i));
      while (i < last && x.first_bad(i, limit) < 0)
        if (++i % 64 == 0) {
          use.poll();
          pages.read(i, std::min<std::int64_t>(64, last - i));
        }
      if (i < last) rows[static_cast<std::size_t>(task)] = i;
    });
  }
  for (const std::int64_t i : rows)
    if (i >= 0) return py::make_tuple(i, x.first_bad(i, limit));
  return py::none();
}

void matrix_scores(const Matrix& matrix, const Doubles& w, std::int64_t outputs, bool intercept, Doubles& out, int threads) {
  const LinearMatrix& x = *matrix.rows;
  const double* const at = input(w, outputs * (x.cols() + (intercept ? 1 : 0)), "w");
  double* const to = output(out, x.rows() * outputs, "out");
  CallResources use(threads);
  const py::gil_scoped_release release;
  linear_scores(x, at, outputs, intercept, {nullptr, x.rows()}, to, use);
}

void matrix_rows(const Matrix& matrix, const Integers& index, Doubles& out) {
  const LinearMatrix& x = *matrix.rows;
  const Batch batch = batch_of(index, x.rows(), x.rows());
  double* const to = output(out, batch.size * x.cols(), "out");
  constexpr std::int64_t kRun = 1024;  // rows of a mapped file between two times that pages are given back
  std::int64_t least = x.rows(), most = -1;
  for (std::int64_t k = 0; k < batch.size; ++k) {
    x.copy_row(batch[k], to + k * x.cols());
    least = std::min(least, batch[k]);
    most = std::max(most, batch[k]);
    if ((k + 1) % kRun == 0 || k + 1 == batch.size) {
      x.give_back(least, most - least + 1);
      least = x.rows();
      most = -1;
    }
  }
}

// (sums, tops) of the columns' squares under weights p.
py::tuple matrix_column_squares(const Matrix& matrix, const std::optional<Doubles>& p, int threads) {
  const LinearMatrix& x = *matrix.rows;
  const double* const weights = p ? input(*p, x.rows(), "p") : nullptr;
  py::array_t<double> sums(x.cols()), tops(x.cols());
  double *const to = sums.mutable_data(), *const top = tops.mutable_data();
  CallResources use(threads);
  {
    const py::gil_scoped_release release;
    column_squares(x, weights, to, top, use);
  }
  return py::make_tuple(sums, tops);
}

py::array_t<double> matrix_row_squares(const Matrix& matrix, const std::optional<Doubles>& metric, int threads) {
  const LinearMatrix& x = *matrix.rows;
  const double* const m = metric ? input(*metric, x.cols(), "metric") : nullptr;
  py::array_t<double> out(x.rows());
  double* const to = out.mutable_data();
  CallResources use(threads);
  const py::gil_scoped_release release;
  row_squares(x, m, to, use);
  return out;
}

hd::LossKind loss_kind(const std::string& name) {
  using hd::LossKind;
  static const std::map<std::string, LossKind> kinds{
      {"squared", LossKind::squared},   {"huber", LossKind::huber},   {"absolute", LossKind::absolute},
      {"quantile", LossKind::quantile}, {"logistic", LossKind::logistic}, {"softmax", LossKind::softmax},
      {"hinge", LossKind::hinge},       {"squared_hinge", LossKind::squared_hinge}, {"poisson", LossKind::poisson},
      {"sigmoid", LossKind::sigmoid}, {"cauchy", LossKind::cauchy}, {"geman_mcclure", LossKind::geman_mcclure},
      {"tukey", LossKind::tukey}};
  const auto found = kinds.find(name);
  if (found == kinds.end()) throw py::value_error("unknown loss " + name);
  return found->second;
}

std::shared_ptr<LinearOracle> make_linear(const Matrix& matrix, const Doubles& labels, const std::string& kind,
                                          double parameter, double smoothing, std::int64_t outputs, bool intercept,
                                          ScoreMemo* memo) {
  const double* const y = input(labels, matrix.rows->rows(), "y");
  const LinearSettings settings{.loss = {loss_kind(kind), parameter, smoothing},
                                .labels = y, .outputs = outputs, .intercept = intercept, .memo = memo};
  return std::make_shared<LinearOracle>(matrix.rows, settings);
}

// slopes and curvatures: at w, one number an output.
template <void (LinearOracle::*what)(const double*, Batch, double*, Resources&) const>
void per_output(const LinearOracle& oracle, const Doubles& w, const OptionalIndex& index, Doubles& out, int threads) {
  const double* const at = input(w, oracle.dim(), "w");
  const Batch batch = batch_of(index, oracle);
  double* const to = output(out, batch.size * oracle.outputs(), "out");
  CallResources use(threads);
  const py::gil_scoped_release release;
  (oracle.*what)(at, batch, to, use);
}

void adjoint(const LinearOracle& oracle, const Doubles& v, Doubles& out, int threads) {
  const double* const from = input(v, oracle.size() * oracle.outputs(), "v");
  double* const to = output(out, oracle.dim(), "out");
  CallResources use(threads);
  const py::gil_scoped_release release;
  oracle.adjoint(from, to, use);
}

void conjugate(const LinearOracle& oracle, const Doubles& s, Doubles& out, int threads) {
  const double* const from = input(s, oracle.size() * oracle.outputs(), "s");
  double* const to = output(out, oracle.size(), "out");
  CallResources use(threads);
  const py::gil_scoped_release release;
  oracle.conjugate(from, to, use);
}

void smoothness(const LinearOracle& oracle, Doubles& out, int threads) {
  double* const to = output(out, oracle.size(), "out");
  CallResources use(threads);
  const py::gil_scoped_release release;
  oracle.smoothness(to, use);
}

}  // namespace

void bind_oracle(py::module_& m) {
  using py::arg;
  py::class_<Oracle, std::shared_ptr<Oracle>>(m, "Oracle")
      .def_property_readonly("size", &Oracle::size)
      .def_property_readonly("dim", &Oracle::dim)
      .def_property_readonly("population", &Oracle::population)
      .def("losses", &losses, arg("w"), arg("index").none(true), arg("out").noconvert(), arg("threads") = 0)
      .def("gradient", &gradient, arg("w"), arg("weights"), arg("index").none(true), arg("out").noconvert(),
           arg("threads") = 0);

  bind_functions(m);

  py::class_<Matrix>(m, "LinearMatrix")
      .def_static("dense", &make_dense_matrix, arg("x"), arg("mapped") = false)
      .def_static("csr", &make_csr_matrix, arg("data"), arg("indices"), arg("indptr"), arg("cols"))
      .def_property_readonly("shape", [](const Matrix& x) { return py::make_tuple(x.rows->rows(), x.rows->cols()); })
      .def("first_bad", &first_bad, arg("limit"), arg("threads") = 0)
      .def("column_squares", &matrix_column_squares, arg("p").none(true), arg("threads") = 0)
      .def("row_squares", &matrix_row_squares, arg("metric").none(true), arg("threads") = 0)
      .def("scores", &matrix_scores, arg("w"), arg("outputs"), arg("intercept"), arg("out").noconvert(), arg("threads") = 0)
      .def("rows", &matrix_rows, arg("index"), arg("out").noconvert());

  py::class_<ScoreMemo>(m, "ScoreMemo").def(py::init<>());

  py::class_<LinearOracle, Oracle, std::shared_ptr<LinearOracle>>(m, "LinearOracle")
      .def(py::init(&make_linear), arg("matrix"), arg("labels"), arg("loss"), arg("parameter"), arg("smoothing"),
           arg("outputs"), arg("intercept"), arg("memo").none(true), py::keep_alive<1, 2>(), py::keep_alive<1, 3>(),
           py::keep_alive<1, 9>())
      .def_property_readonly("outputs", &LinearOracle::outputs)
      .def_property_readonly("score_smoothness", [](const LinearOracle& o) { return hd::score_smoothness(o.settings().loss); })
      .def("slopes", &per_output<&LinearOracle::slopes>, arg("w"), arg("index").none(true), arg("out").noconvert(),
           arg("threads") = 0)
      .def("curvatures", &per_output<&LinearOracle::curvatures>, arg("w"), arg("index").none(true), arg("out").noconvert(),
           arg("threads") = 0)
      .def("adjoint", &adjoint, arg("v"), arg("out").noconvert(), arg("threads") = 0)
      .def("conjugate", &conjugate, arg("s"), arg("out").noconvert(), arg("threads") = 0)
      .def("smoothness", &smoothness, arg("out").noconvert(), arg("threads") = 0);
}

}  // namespace leeward::python
