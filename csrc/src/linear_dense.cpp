// Dense rows, taken one after another: reading is then one stream, which the hardware prefetches at the speed of the memory.
// (Several rows at a time share loads of w, but their streams break the prefetching and are slower by up to three times, even
// for rows that lie side by side.) Rows picked by number are fetched here, a few rows ahead.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "leeward/core/lanes.hpp"
#include "leeward/core/pages.hpp"
#include "leeward/core/simd.hpp"
#include "leeward/oracle/dense_outputs.hpp"
#include "leeward/oracle/dense_wide.hpp"
#include "leeward/oracle/linear_matrix.hpp"
#include "leeward/oracle/prefetch.hpp"

namespace leeward {
namespace {

constexpr int kFolded = 8;           // rows whose lanes are folded together

// lane[l] of 8: entry j of x . w goes to lane j mod 16 (in the tail, j - first), then lane l + 8 is added to lane l.
// Halves of eight, so that float32 is converted as it is loaded.
template <bool kPicked, class T>
LEEWARD_INLINE void dot_lanes(const T* LEEWARD_RESTRICT x, const T* ahead, const double* LEEWARD_RESTRICT w,
                              const double* LEEWARD_RESTRICT w_tail, const Tail& tail, double* LEEWARD_RESTRICT lane) {
  double low[8] = {}, high[8] = {};
  for (std::int64_t j = 0; j < tail.whole; j += 16) {
    if constexpr (kPicked) prefetch_step(ahead + j);
    LEEWARD_LANES
    for (int l = 0; l < 8; ++l) low[l] += static_cast<double>(x[j + l]) * w[j + l];
    LEEWARD_LANES
    for (int l = 0; l < 8; ++l) high[l] += static_cast<double>(x[j + 8 + l]) * w[j + 8 + l];
  }
  if (tail.width > 0) {
    LEEWARD_LANES
    for (int l = 0; l < 8; ++l) low[l] += static_cast<double>(x[tail.first + l]) * w_tail[l];
  }
  if (tail.width > 8) {
    LEEWARD_LANES
    for (int l = 0; l < 8; ++l) high[l] += static_cast<double>(x[tail.first + 8 + l]) * w_tail[8 + l];
  }
  LEEWARD_LANES
  for (int l = 0; l < 8; ++l) lane[l] = low[l] + high[l];
}

template <class T>
LEEWARD_INLINE double short_dot(const T* LEEWARD_RESTRICT x, const double* LEEWARD_RESTRICT w, std::int64_t cols) {
  double sum = 0.0;
  for (std::int64_t j = 0; j < cols; ++j) sum += static_cast<double>(x[j]) * w[j];
  return sum;
}

template <bool kPicked, class T>
LEEWARD_INLINE void dots_body(DenseView<T> x, Rows rows, const double* LEEWARD_RESTRICT w, double bias,
                              double* LEEWARD_RESTRICT out, std::int64_t stride) {
  if (x.cols < kShort) {
    for (std::int64_t k = 0; k < rows.count; ++k) {
      if constexpr (kPicked) LEEWARD_PREFETCH(row_ahead(x, rows, k));
      out[k * stride] = short_dot(x.row(rows[k]), w, x.cols) + bias;
    }
    return;
  }
  const Tail tail(x.cols);
  alignas(64) double w_tail[16] = {}, lane[kFolded * 8];
  for (int l = 0; l < tail.width; ++l) w_tail[l] = tail.fresh(l) ? w[tail.first + l] : 0.0;
  std::int64_t k = 0;
  for (; k + kFolded <= rows.count; k += kFolded) {
    for (int g = 0; g < kFolded; ++g) {
      const T* const row = x.row(rows[k + g]);
      const T* const ahead = kPicked ? row_ahead(x, rows, k + g) : row;
      dot_lanes<kPicked>(row, ahead, w, w_tail, tail, lane + 8 * g);
    }
    double sum[kFolded];
    LEEWARD_LANES
    for (int g = 0; g < kFolded; ++g) sum[g] = fold(lane + 8 * g) + bias;
    for (int g = 0; g < kFolded; ++g) out[(k + g) * stride] = sum[g];
  }
  for (; k < rows.count; ++k) {
    const T* const row = x.row(rows[k]);
    dot_lanes<false>(row, row, w, w_tail, tail, lane);
    out[k * stride] = fold(lane) + bias;
  }
}

// out += r x for the whole steps of a row, rest += r x for its tail.
template <bool kPicked, class T>
LEEWARD_INLINE void add_row(const T* LEEWARD_RESTRICT x, const T* ahead, double r, const Tail& tail, double* LEEWARD_RESTRICT out,
                            double* LEEWARD_RESTRICT rest) {
  for (std::int64_t j = 0; j < tail.whole; j += 16) {
    if constexpr (kPicked) prefetch_step(ahead + j);
    LEEWARD_LANES
    for (int l = 0; l < 8; ++l) out[j + l] += r * static_cast<double>(x[j + l]);
    LEEWARD_LANES
    for (int l = 8; l < 16; ++l) out[j + l] += r * static_cast<double>(x[j + l]);
  }
  if (tail.width > 0) {
    LEEWARD_LANES
    for (int l = 0; l < 8; ++l) rest[l] += r * static_cast<double>(x[tail.first + l]);
  }
  if (tail.width > 8) {
    LEEWARD_LANES
    for (int l = 8; l < 16; ++l) rest[l] += r * static_cast<double>(x[tail.first + l]);
  }
}

template <bool kPicked, class T>
LEEWARD_INLINE void add_rows_body(DenseView<T> x, Rows rows, const double* LEEWARD_RESTRICT r, std::int64_t stride,
                                  double* LEEWARD_RESTRICT out) {
  if (x.cols < kShort) {
    for (std::int64_t k = 0; k < rows.count; ++k) {
      if constexpr (kPicked) LEEWARD_PREFETCH(row_ahead(x, rows, k));
      const T* const row = x.row(rows[k]);
      for (std::int64_t j = 0; j < x.cols; ++j) out[j] += r[k * stride] * static_cast<double>(row[j]);
    }
    return;
  }
  const Tail tail(x.cols);
  alignas(64) double rest[16] = {};
  for (std::int64_t k = 0; k < rows.count; ++k) {
    const T* const row = x.row(rows[k]);
    const T* const ahead = kPicked ? row_ahead(x, rows, k) : row;
    add_row<kPicked>(row, ahead, r[k * stride], tail, out, rest);
  }
  for (int l = 0; l < tail.width; ++l)
    if (tail.fresh(l)) out[tail.first + l] += rest[l];
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

template <class T>
LEEWARD_INLINE void add_squares_body(DenseView<T> x, Rows rows, const double* p, double* LEEWARD_RESTRICT sums,
                                     double* LEEWARD_RESTRICT tops) {
  for (std::int64_t k = 0; k < rows.count; ++k) {
    const double share = p != nullptr ? p[k] : 1.0;
    if (!(share > 0.0)) continue;
    const T* LEEWARD_RESTRICT row = x.row(rows[k]);
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double square = static_cast<double>(row[j]) * static_cast<double>(row[j]);
      sums[j] += share * square;
      tops[j] = square > tops[j] ? square : tops[j];
    }
  }
}

template <class T>
LEEWARD_INLINE void squares_body(DenseView<T> x, Rows rows, const double* LEEWARD_RESTRICT metric, double* LEEWARD_RESTRICT out) {
  for (std::int64_t k = 0; k < rows.count; ++k) {
    const T* LEEWARD_RESTRICT row = x.row(rows[k]);
    Lanes sum;
    std::int64_t j = 0;
    for (; j + kLanes <= x.cols; j += kLanes) {
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) {
        const double v = static_cast<double>(row[j + l]);
        sum.lane[l] += v * v * (metric != nullptr ? metric[j + l] : 1.0);
      }
    }
    for (int l = 0; j < x.cols; ++j, ++l) {
      const double v = static_cast<double>(row[j]);
      sum.lane[l] += v * v * (metric != nullptr ? metric[j] : 1.0);
    }
    out[k] = sum.fold();
  }
}

#define LEEWARD_DENSE(T)                                                                                             \
  LEEWARD_CLONES void dots_kernel(DenseView<T> x, Rows rows, const double* w, double bias, double* out,              \
                                  std::int64_t stride) {                                                             \
    if (rows.index != nullptr) return dots_body<true>(x, rows, w, bias, out, stride);                                \
    dots_body<false>(x, rows, w, bias, out, stride);                                                                 \
  }                                                                                                                  \
  LEEWARD_CLONES void add_rows_kernel(DenseView<T> x, Rows rows, const double* r, std::int64_t stride, double* out) { \
    if (rows.index != nullptr) return add_rows_body<true>(x, rows, r, stride, out);                                  \
    add_rows_body<false>(x, rows, r, stride, out);                                                                   \
  }                                                                                                                  \
  LEEWARD_CLONES void add_squares_kernel(DenseView<T> x, Rows rows, const double* p, double* sums, double* tops) {   \
    add_squares_body(x, rows, p, sums, tops);                                                                        \
  }                                                                                                                  \
  LEEWARD_CLONES void squares_kernel(DenseView<T> x, Rows rows, const double* metric, double* out) {                 \
    squares_body(x, rows, metric, out);                                                                              \
  }                                                                                                                  \
  LEEWARD_CLONES std::int64_t first_bad_kernel(const T* x, std::int64_t cols, T limit) {                             \
    return first_bad_body(x, cols, limit);                                                                           \
  }

LEEWARD_DENSE(float)
LEEWARD_DENSE(double)

template <class T>
class DenseMatrix final : public LinearMatrix {
 public:
  DenseMatrix(DenseView<T> x, bool mapped) : LinearMatrix(x.rows, x.cols, x.rows * x.cols), x_(x), mapped_(mapped && x.stride >= x.cols) {}

  void dots(Rows rows, const double* w, double bias, double* out, std::int64_t stride) const override {
    if (stride == 1 && wide_dots(x_, rows, w, bias, out)) return;
    dots_kernel(x_, rows, w, bias, out, stride);
  }
  void add_rows(Rows rows, const double* r, std::int64_t stride, double* out) const override {
    if (wide_sums(x_, rows, r, stride, out)) return;
    add_rows_kernel(x_, rows, r, stride, out);
  }
  void output_dots(Rows rows, const double* w, std::int64_t outputs, const double* biases, double* out) const override {
    if (outputs > 1) return dense_output_dots(x_, rows, w, outputs, biases, out);
    dots(rows, w, biases != nullptr ? biases[0] : 0.0, out, 1);
  }
  void add_output_rows(Rows rows, const double* r, std::int64_t outputs, double* out) const override {
    if (outputs > 1) return dense_output_sums(x_, rows, r, outputs, out);
    add_rows(rows, r, 1, out);
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
  void add_squares(Rows rows, const double* p, double* sums, double* tops) const override {
    add_squares_kernel(x_, rows, p, sums, tops);
  }
  void squares(Rows rows, const double* metric, double* out) const override { squares_kernel(x_, rows, metric, out); }
  std::int64_t first_bad(std::int64_t i, double limit) const override {
    const double largest = static_cast<double>(std::numeric_limits<T>::max());
    return first_bad_kernel(x_.row(i), x_.cols, static_cast<T>(limit < largest ? limit : largest));
  }
  std::unique_ptr<RowSteps> steps(StepModel model) const override { return make_dense_steps(x_, model); }
  std::int64_t stretch() const override { return mapped_ ? std::max<std::int64_t>(1, kStretch / row_bytes()) : 0; }
  void fetch(std::int64_t first, std::int64_t count) const override {
    if (mapped_) fetch_pages(x_.row(first), bytes(count));
  }
  void give_back(std::int64_t first, std::int64_t count) const override {
    if (mapped_) give_back_pages(x_.row(first), bytes(count));
  }

 private:
  static constexpr std::int64_t kStretch = std::int64_t{4} << 20;  // bytes
  std::int64_t row_bytes() const { return std::max<std::int64_t>(x_.stride, x_.cols) * static_cast<std::int64_t>(sizeof(T)); }
  // From the first of some rows to the end of the last.
  std::size_t bytes(std::int64_t count) const {
    return count > 0 ? static_cast<std::size_t>((count - 1) * x_.stride + x_.cols) * sizeof(T) : 0;
  }
  DenseView<T> x_;
  bool mapped_;
};

}  // namespace

template <class T>
std::shared_ptr<const LinearMatrix> make_dense(DenseView<T> x, bool mapped) {
  return std::make_shared<const DenseMatrix<T>>(x, mapped);
}

template std::shared_ptr<const LinearMatrix> make_dense(DenseView<float>, bool);
template std::shared_ptr<const LinearMatrix> make_dense(DenseView<double>, bool);

}  // namespace leeward
