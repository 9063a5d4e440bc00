// CSR rows, sorted or not; entries that name the same column twice add up.
//
// What a pass costs is the random access to w (or to the gradient), which misses the L1 cache, beside the stream of entries.
// The misses keep the hardware from fetching the stream ahead, so this is done here: into L2, which leaves the L1 cache and
// its queue of misses to the random access, and more often than once a line, since the processor drops some.
#include <cstdint>

#include "leeward/core/simd.hpp"
#include "leeward/oracle/linear_matrix.hpp"
#include "leeward/oracle/prefetch.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kAhead = 6144;  // bytes of values; of the narrower column numbers half as many
constexpr std::int64_t kRowsAhead = 2;
// Entries between prefetches: 16 bytes of values in a dot product, 32 in a weighted sum, whose writes leave less room for them.
template <class T>
constexpr int kDotStep = 16 / sizeof(T);
template <class T>
constexpr int kSumStep = 32 / sizeof(T);

LEEWARD_INLINE void prefetch_bytes(const void* address, std::int64_t distance) {
  LEEWARD_PREFETCH(static_cast<const char*>(address) + distance);
}

// The stream beyond entry e, for rows taken in order.
template <class T, class I>
LEEWARD_INLINE void prefetch_stream(CsrView<T, I> x, std::int64_t e) {
  LEEWARD_PREFETCH_L2(reinterpret_cast<const char*>(x.data + e) + kAhead);
  LEEWARD_PREFETCH_L2(reinterpret_cast<const char*>(x.indices + e) + kAhead / 2);
}

// The start of a row to come, for rows picked by number.
template <class T, class I>
LEEWARD_INLINE void prefetch_row(CsrView<T, I> x, Rows rows, std::int64_t k) {
  if (k + kRowsAhead >= rows.count) return;
  const std::int64_t e = x.indptr[rows.index[k + kRowsAhead]];
  for (std::int64_t b = 0; b < 256; b += 64) {
    prefetch_bytes(x.data + e, b);
    prefetch_bytes(x.indices + e, b);
  }
}

// Entry e of a row goes to lane e mod 2 while two remain, then to the first.
template <bool kInOrder, class T, class I>
void dots_kernel(CsrView<T, I> x, Rows rows, const double* LEEWARD_RESTRICT w, double bias, double* LEEWARD_RESTRICT out,
                 std::int64_t stride) {
  for (std::int64_t k = 0; k < rows.count; ++k) {
    if constexpr (!kInOrder) prefetch_row(x, rows, k);
    const std::int64_t i = rows[k], last = x.indptr[i + 1];
    double a = 0.0, b = 0.0;
    std::int64_t e = x.indptr[i];
    const auto add_two = [&](std::int64_t first) {
      a += static_cast<double>(x.data[first]) * w[x.indices[first]];
      b += static_cast<double>(x.data[first + 1]) * w[x.indices[first + 1]];
    };
    for (; e + kDotStep<T> <= last; e += kDotStep<T>) {
      if constexpr (kInOrder) prefetch_stream(x, e);
      for (int l = 0; l < kDotStep<T>; l += 2) add_two(e + l);
    }
    if constexpr (kInOrder) prefetch_stream(x, e);
    for (; e + 2 <= last; e += 2) add_two(e);
    if (e < last) a += static_cast<double>(x.data[e]) * w[x.indices[e]];
    out[k * stride] = (a + b) + bias;
  }
}

template <bool kInOrder, class T, class I>
void add_rows_kernel(CsrView<T, I> x, Rows rows, const double* LEEWARD_RESTRICT r, std::int64_t stride,
                     double* LEEWARD_RESTRICT out) {
  for (std::int64_t k = 0; k < rows.count; ++k) {
    if constexpr (!kInOrder) prefetch_row(x, rows, k);
    const std::int64_t i = rows[k], last = x.indptr[i + 1];
    const double rk = r[k * stride];
    std::int64_t e = x.indptr[i];
    for (; e + kSumStep<T> <= last; e += kSumStep<T>) {
      if constexpr (kInOrder) prefetch_stream(x, e);
      for (int l = 0; l < kSumStep<T>; ++l) out[x.indices[e + l]] += static_cast<double>(x.data[e + l]) * rk;
    }
    if constexpr (kInOrder) prefetch_stream(x, e);
    for (; e < last; ++e) out[x.indices[e]] += static_cast<double>(x.data[e]) * rk;
  }
}

template <class T, class I>
class CsrMatrix final : public LinearMatrix {
 public:
  explicit CsrMatrix(CsrView<T, I> x) : LinearMatrix(x.rows, x.cols, x.entries()), x_(x) {}

  void dots(Rows rows, const double* w, double bias, double* out, std::int64_t stride) const override {
    if (rows.index == nullptr) return dots_kernel<true>(x_, rows, w, bias, out, stride);
    dots_kernel<false>(x_, rows, w, bias, out, stride);
  }
  void add_rows(Rows rows, const double* r, std::int64_t stride, double* out) const override {
    if (rows.index == nullptr) return add_rows_kernel<true>(x_, rows, r, stride, out);
    add_rows_kernel<false>(x_, rows, r, stride, out);
  }
  void copy_row(std::int64_t i, double* out) const override {
    for (std::int64_t j = 0; j < cols(); ++j) out[j] = 0.0;
    for (std::int64_t e = x_.indptr[i]; e < x_.indptr[i + 1]; ++e) out[x_.indices[e]] += static_cast<double>(x_.data[e]);
  }
  double squared_norm(std::int64_t i, double* scratch) const override {
    const std::int64_t first = x_.indptr[i], last = x_.indptr[i + 1];
    for (std::int64_t e = first; e < last; ++e) scratch[x_.indices[e]] += static_cast<double>(x_.data[e]);
    double sum = 0;
    for (std::int64_t e = first; e < last; ++e) {  // a column met a second time has been squared and cleared
      double& s = scratch[x_.indices[e]];
      sum += s * s;
      s = 0.0;
    }
    return sum;
  }
  void add_squares(Rows rows, const double* p, double* sums, double* tops) const override {
    for (std::int64_t k = 0; k < rows.count; ++k) {
      const double share = p != nullptr ? p[k] : 1.0;
      if (!(share > 0.0)) continue;
      for (std::int64_t e = x_.indptr[rows[k]]; e < x_.indptr[rows[k] + 1]; ++e) {
        const double square = static_cast<double>(x_.data[e]) * static_cast<double>(x_.data[e]);
        sums[x_.indices[e]] += share * square;
        double& top = tops[x_.indices[e]];
        top = square > top ? square : top;
      }
    }
  }
  void squares(Rows rows, const double* metric, double* out) const override {
    for (std::int64_t k = 0; k < rows.count; ++k) {
      double sum = 0.0;
      for (std::int64_t e = x_.indptr[rows[k]]; e < x_.indptr[rows[k] + 1]; ++e) {
        const double v = static_cast<double>(x_.data[e]);
        sum += v * v * (metric != nullptr ? metric[x_.indices[e]] : 1.0);
      }
      out[k] = sum;
    }
  }
  std::int64_t first_bad(std::int64_t i, double limit) const override {
    for (std::int64_t e = x_.indptr[i]; e < x_.indptr[i + 1]; ++e) {
      const double v = static_cast<double>(x_.data[e]);
      if (!(v <= limit && v >= -limit)) return static_cast<std::int64_t>(x_.indices[e]);
    }
    return -1;
  }
  std::unique_ptr<RowSteps> steps(StepModel model) const override { return make_csr_steps(x_, model); }

 private:
  CsrView<T, I> x_;
};

}  // namespace

template <class T, class I>
std::shared_ptr<const LinearMatrix> make_csr(CsrView<T, I> x) {
  return std::make_shared<const CsrMatrix<T, I>>(x);
}

template <class I>
CsrFault check_csr(const I* indices, const std::int64_t* indptr, std::int64_t rows, std::int64_t cols, std::int64_t stored) {
  if (indptr[0] != 0) return {CsrFault::pointer, 0, 0};
  for (std::int64_t i = 0; i < rows; ++i)
    if (indptr[i + 1] < indptr[i] || indptr[i + 1] > stored) return {CsrFault::pointer, i, 0};
  bool good = true;
  const std::int64_t entries = indptr[rows];
  for (std::int64_t e = 0; e < entries; ++e) good = good && indices[e] >= 0 && static_cast<std::int64_t>(indices[e]) < cols;
  if (good) return {};
  std::int64_t i = 0;
  for (std::int64_t e = 0;; ++e) {
    while (indptr[i + 1] <= e) ++i;
    if (indices[e] < 0 || static_cast<std::int64_t>(indices[e]) >= cols) return {CsrFault::column, i, e};
  }
}

template std::shared_ptr<const LinearMatrix> make_csr(CsrView<float, std::int32_t>);
template std::shared_ptr<const LinearMatrix> make_csr(CsrView<float, std::int64_t>);
template std::shared_ptr<const LinearMatrix> make_csr(CsrView<double, std::int32_t>);
template std::shared_ptr<const LinearMatrix> make_csr(CsrView<double, std::int64_t>);
template CsrFault check_csr(const std::int32_t*, const std::int64_t*, std::int64_t, std::int64_t, std::int64_t);
template CsrFault check_csr(const std::int64_t*, const std::int64_t*, std::int64_t, std::int64_t, std::int64_t);

}  // namespace leeward
