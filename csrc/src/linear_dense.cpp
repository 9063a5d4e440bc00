// Dense rows. The kernels take several rows at a time, so that one load of w (or of the gradient) serves them all.
#include <cstdint>
#include <limits>

#include "leeward/core/lanes.hpp"
#include "leeward/core/simd.hpp"
#include "leeward/oracle/linear_matrix.hpp"

#if defined(__GNUC__)
#define LEEWARD_PREFETCH(address) __builtin_prefetch(address)
#else
#define LEEWARD_PREFETCH(address) static_cast<void>(address)
#endif

namespace leeward {
namespace {

constexpr std::int64_t kAhead = 4096;  // bytes: how far before the reading the prefetch runs

// One row's dot product: element j goes to lane j mod 16.
template <class T>
LEEWARD_INLINE double dot_row(const T* x, const double* w, std::int64_t cols) {
  double a[kLanes] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= cols; j += kLanes)
    for (int l = 0; l < kLanes; ++l) a[l] += static_cast<double>(x[j + l]) * w[j + l];
  for (int l = 0; j < cols; ++j, ++l) a[l] += static_cast<double>(x[j]) * w[j];
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) a[l] = a[l] + a[l + width];
  return a[0];
}

template <class T>
LEEWARD_INLINE void dots_body(DenseView<T> x, Rows rows, const double* LEEWARD_RESTRICT w, double bias,
                              double* LEEWARD_RESTRICT out, std::int64_t stride) {
  for (std::int64_t k = 0; k < rows.count; ++k) out[k * stride] = dot_row(x.row(rows[k]), w, x.cols) + bias;
}

template <class T>
LEEWARD_INLINE void add_rows_body(DenseView<T> x, Rows rows, const double* LEEWARD_RESTRICT r, std::int64_t stride,
                                  double* LEEWARD_RESTRICT out) {
  std::int64_t k = 0;
  for (; k + 4 <= rows.count; k += 4) {
    const T *a = x.row(rows[k]), *b = x.row(rows[k + 1]), *c = x.row(rows[k + 2]), *d = x.row(rows[k + 3]);
    const double ra = r[k * stride], rb = r[(k + 1) * stride], rc = r[(k + 2) * stride], rd = r[(k + 3) * stride];
    for (std::int64_t j = 0; j < x.cols; ++j)
      out[j] += (ra * static_cast<double>(a[j]) + rb * static_cast<double>(b[j])) +
                (rc * static_cast<double>(c[j]) + rd * static_cast<double>(d[j]));
  }
  for (; k < rows.count; ++k) {
    const T* a = x.row(rows[k]);
    const double ra = r[k * stride];
    for (std::int64_t j = 0; j < x.cols; ++j) out[j] += ra * static_cast<double>(a[j]);
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
