// Dense rows, taken one after another: reading is then one stream, which the hardware prefetches at the speed of the memory.
// (Several rows at a time share loads of w, but their streams break the prefetching and are slower by up to two times.)
// Rows picked by number are prefetched here, a few rows ahead.
#include <cstdint>
#include <limits>

#include "leeward/core/lanes.hpp"
#include "leeward/core/simd.hpp"
#include "leeward/oracle/linear_matrix.hpp"
#include "leeward/oracle/prefetch.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kLine = 64;           // bytes
constexpr std::int64_t kPrefetched = 2048;   // bytes of a row fetched ahead; the hardware sees to the rest
constexpr std::int64_t kRowsAhead = 3;

// Asks for the row that will be read kRowsAhead after the k-th.
template <class T>
LEEWARD_INLINE void prefetch_row(DenseView<T> x, Rows rows, std::int64_t k) {
  if (rows.index == nullptr || k + kRowsAhead >= rows.count) return;
  const auto* row = reinterpret_cast<const char*>(x.row(rows.index[k + kRowsAhead]));
  const std::int64_t bytes = x.cols * static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t b = 0; b < bytes && b < kPrefetched; b += kLine) LEEWARD_PREFETCH(row + b);
}

// x . w: entry j goes to lane j mod 16 while 16 remain, then to one of four lanes while four remain, then to a last one.
template <class T>
LEEWARD_INLINE double dot(const T* LEEWARD_RESTRICT x, const double* LEEWARD_RESTRICT w, std::int64_t cols) {
  double a[16] = {}, b[8], c[4] = {}, d[4], rest = 0.0;
  std::int64_t j = 0;
  for (; j + 16 <= cols; j += 16)
    for (int l = 0; l < 16; ++l) a[l] += static_cast<double>(x[j + l]) * w[j + l];
  for (; j + 4 <= cols; j += 4)
    for (int l = 0; l < 4; ++l) c[l] += static_cast<double>(x[j + l]) * w[j + l];
  for (; j < cols; ++j) rest += static_cast<double>(x[j]) * w[j];
  for (int l = 0; l < 8; ++l) b[l] = a[l] + a[l + 8];
  for (int l = 0; l < 4; ++l) d[l] = (b[l] + b[l + 4]) + c[l];
  return ((d[0] + d[2]) + (d[1] + d[3])) + rest;
}

template <class T>
LEEWARD_INLINE void dots_body(DenseView<T> x, Rows rows, const double* LEEWARD_RESTRICT w, double bias,
                              double* LEEWARD_RESTRICT out, std::int64_t stride) {
  for (std::int64_t k = 0; k < rows.count; ++k) {
    prefetch_row(x, rows, k);
    out[k * stride] = dot(x.row(rows[k]), w, x.cols) + bias;
  }
}

// out += r x. Blocks of fixed length keep the compiler from versions of the loop that read in another order.
template <class T>
LEEWARD_INLINE void add_row(const T* LEEWARD_RESTRICT x, double r, double* LEEWARD_RESTRICT out, std::int64_t cols) {
  std::int64_t j = 0;
  for (; j + 32 <= cols; j += 32)
    for (int l = 0; l < 32; ++l) out[j + l] += r * static_cast<double>(x[j + l]);
  for (; j + 8 <= cols; j += 8)
    for (int l = 0; l < 8; ++l) out[j + l] += r * static_cast<double>(x[j + l]);
  for (; j + 4 <= cols; j += 4)
    for (int l = 0; l < 4; ++l) out[j + l] += r * static_cast<double>(x[j + l]);
  if (j < cols) out[j] += r * static_cast<double>(x[j]);
  if (j + 1 < cols) out[j + 1] += r * static_cast<double>(x[j + 1]);
  if (j + 2 < cols) out[j + 2] += r * static_cast<double>(x[j + 2]);
}

template <class T>
LEEWARD_INLINE void add_rows_body(DenseView<T> x, Rows rows, const double* LEEWARD_RESTRICT r, std::int64_t stride,
                                  double* LEEWARD_RESTRICT out) {
  for (std::int64_t k = 0; k < rows.count; ++k) {
    prefetch_row(x, rows, k);
    add_row(x.row(rows[k]), r[k * stride], out, x.cols);
  }
}

// The first column with |x| > limit or NaN, else -1; the search for where is made only in a row that has one.
template <class T>
LEEWARD_INLINE std::int64_t first_bad_body(const T* x, std::int64_t cols, T limit) {
  std::int64_t bad = 0;
  for (std::int64_t j = 0; j < cols; ++j) bad += (x[j] <= limit && x[j] >= -limit) ? 0 : 1;
  if (bad == 0) return -1;
  std::int64_t j = 0;
  while (x[j] <= limit && x[j] >= -limit) ++j;
  return j;
}

#define LEEWARD_DENSE(T)                                                                                             \
  LEEWARD_CLONES void dots_kernel(DenseView<T> x, Rows rows, const double* w, double bias, double* out,              \
                                  std::int64_t stride) {                                                             \
    dots_body(x, rows, w, bias, out, stride);                                                                        \
  }                                                                                                                  \
  LEEWARD_CLONES void add_rows_kernel(DenseView<T> x, Rows rows, const double* r, std::int64_t stride, double* out) { \
    add_rows_body(x, rows, r, stride, out);                                                                          \
  }                                                                                                                  \
  LEEWARD_CLONES std::int64_t first_bad_kernel(const T* x, std::int64_t cols, T limit) {                             \
    return first_bad_body(x, cols, limit);                                                                           \
  }

LEEWARD_DENSE(float)
LEEWARD_DENSE(double)

template <class T>
class DenseMatrix final : public LinearMatrix {
 public:
  explicit DenseMatrix(DenseView<T> x) : LinearMatrix(x.rows, x.cols, x.rows * x.cols), x_(x) {}

  void dots(Rows rows, const double* w, double bias, double* out, std::int64_t stride) const override {
    dots_kernel(x_, rows, w, bias, out, stride);
  }
  void add_rows(Rows rows, const double* r, std::int64_t stride, double* out) const override {
    add_rows_kernel(x_, rows, r, stride, out);
  }
  void copy_row(std::int64_t i, double* out) const override {
    const T* x = x_.row(i);
    for (std::int64_t j = 0; j < x_.cols; ++j) out[j] = static_cast<double>(x[j]);
  }
  double squared_norm(std::int64_t i, double*) const override {
    const T* x = x_.row(i);
    Lanes sum;
    for (std::int64_t j = 0; j < x_.cols; ++j) sum.lane[j % kLanes] += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    return sum.fold();
  }
  std::int64_t first_bad(std::int64_t i, double limit) const override {
    const double largest = static_cast<double>(std::numeric_limits<T>::max());
    return first_bad_kernel(x_.row(i), x_.cols, static_cast<T>(limit < largest ? limit : largest));
  }

 private:
  DenseView<T> x_;
};

}  // namespace

template <class T>
std::shared_ptr<const LinearMatrix> make_dense(DenseView<T> x) {
  return std::make_shared<const DenseMatrix<T>>(x);
}

template std::shared_ptr<const LinearMatrix> make_dense(DenseView<float>);
template std::shared_ptr<const LinearMatrix> make_dense(DenseView<double>);

}  // namespace leeward
