// The matrix of a linear model as its oracle sees it: dot products with rows and weighted sums of rows, in double whatever
// is stored. One row's dot product has the same bits in whatever batch it is computed.
#pragma once

#include <cstdint>
#include <memory>

#include "leeward/core/views.hpp"
#include "leeward/oracle/row_steps.hpp"

namespace leeward {

// Some rows of a matrix: index[0..count), or first..first + count - 1 when index is null.
struct Rows {
  const std::int64_t* index = nullptr;
  std::int64_t first = 0, count = 0;
  std::int64_t operator[](std::int64_t k) const { return index ? index[k] : first + k; }
};

class LinearMatrix {
 public:
  virtual ~LinearMatrix() = default;
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  std::int64_t entries() const { return entries_; }  // stored entries: the work of one pass

  // out[k * stride] = x_{rows[k]} . w + bias
  virtual void dots(Rows rows, const double* w, double bias, double* out, std::int64_t stride) const = 0;
  // out[0..cols) += sum_k r[k * stride] x_{rows[k]}
  virtual void add_rows(Rows rows, const double* r, std::int64_t stride, double* out) const = 0;
  // The same for several outputs, of coefficients w + c * cols and r[k * outputs + c]: out[k * outputs + c], and out + c * cols.
  virtual void output_dots(Rows rows, const double* w, std::int64_t outputs, const double* biases, double* out) const {
    for (std::int64_t c = 0; c < outputs; ++c)
      dots(rows, w + c * cols_, biases != nullptr ? biases[c] : 0.0, out + c, outputs);
  }
  virtual void add_output_rows(Rows rows, const double* r, std::int64_t outputs, double* out) const {
    for (std::int64_t c = 0; c < outputs; ++c) add_rows(rows, r + c, outputs, out + c * cols_);
  }
  // out[0..cols) = x_i
  virtual void copy_row(std::int64_t i, double* out) const = 0;
  // |x_i|^2; scratch holds cols zeros before and after.
  virtual double squared_norm(std::int64_t i, double* scratch) const = 0;
  // sums[0..cols) += sum_k p[k] x_kj^2 (p null: 1) and tops[j] at least each of these x_kj^2 with p[k] > 0; entries that name the
  // same column twice count one by one here and below.
  virtual void add_squares(Rows rows, const double* p, double* sums, double* tops) const = 0;
  // out[k] = sum_j metric_j x_kj^2, metric null: 1
  virtual void squares(Rows rows, const double* metric, double* out) const = 0;
  // Column of the first entry of row i that is not a number of magnitude <= limit, else -1.
  virtual std::int64_t first_bad(std::int64_t i, double limit) const = 0;
  // The inner loop of stochastic methods on these rows, which must outlive it.
  virtual std::unique_ptr<RowSteps> steps(StepModel model) const = 0;

  // For rows that lie in a mapped file (see core/pages.hpp): the rows of a stretch, 0 for a matrix in memory.
  virtual std::int64_t stretch() const { return 0; }
  virtual void fetch(std::int64_t, std::int64_t) const {}      // rows first..first + count - 1 are about to be read
  virtual void give_back(std::int64_t, std::int64_t) const {}  // they have been read

 protected:
  LinearMatrix(std::int64_t rows, std::int64_t cols, std::int64_t entries) : rows_(rows), cols_(cols), entries_(entries) {}

 private:
  std::int64_t rows_, cols_, entries_;
};

// T is float or double; I is int32_t or int64_t. `mapped`: the rows lie in a shared mapping of a file. Column numbers of a CSR view must lie in [0, cols).
template <class T>
std::shared_ptr<const LinearMatrix> make_dense(DenseView<T> x, bool mapped = false);
template <class T, class I>
std::shared_ptr<const LinearMatrix> make_csr(CsrView<T, I> x);

// The first place where a CSR matrix is malformed, before anything reads through it.
struct CsrFault {
  enum Kind { none, pointer, column } kind = none;
  std::int64_t row = 0, entry = 0;  // row of a decreasing or out-of-range pointer; entry with a bad column
};
template <class I>
CsrFault check_csr(const I* indices, const std::int64_t* indptr, std::int64_t rows, std::int64_t cols, std::int64_t stored);

}  // namespace leeward
