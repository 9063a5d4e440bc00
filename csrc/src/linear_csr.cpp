// CSR rows, sorted or not; entries that name the same column twice add up.
#include <cstdint>

#include "leeward/core/lanes.hpp"
#include "leeward/core/simd.hpp"
#include "leeward/oracle/linear_matrix.hpp"

namespace leeward {
namespace {

// Entry e of a row goes to lane e mod 4: four additions under way at a time.
template <class T, class I>
void dots_kernel(CsrView<T, I> x, Rows rows, const double* LEEWARD_RESTRICT w, double bias, double* LEEWARD_RESTRICT out,
                 std::int64_t stride) {
  for (std::int64_t k = 0; k < rows.count; ++k) {
    const std::int64_t i = rows[k];
    const T* v = x.data + x.indptr[i];
    const I* c = x.indices + x.indptr[i];
    const std::int64_t n = x.indptr[i + 1] - x.indptr[i];
    double a0 = 0, a1 = 0, a2 = 0, a3 = 0;
    std::int64_t e = 0;
    for (; e + 4 <= n; e += 4) {
      a0 += static_cast<double>(v[e]) * w[c[e]];
      a1 += static_cast<double>(v[e + 1]) * w[c[e + 1]];
      a2 += static_cast<double>(v[e + 2]) * w[c[e + 2]];
      a3 += static_cast<double>(v[e + 3]) * w[c[e + 3]];
    }
    if (e < n) a0 += static_cast<double>(v[e]) * w[c[e]];
    if (e + 1 < n) a1 += static_cast<double>(v[e + 1]) * w[c[e + 1]];
    if (e + 2 < n) a2 += static_cast<double>(v[e + 2]) * w[c[e + 2]];
    out[k * stride] = (a0 + a2) + (a1 + a3) + bias;
  }
}

template <class T, class I>
void add_rows_kernel(CsrView<T, I> x, Rows rows, const double* LEEWARD_RESTRICT r, std::int64_t stride,
                     double* LEEWARD_RESTRICT out) {
  for (std::int64_t k = 0; k < rows.count; ++k) {
    const std::int64_t i = rows[k];
    const double rk = r[k * stride];
    const std::int64_t last = x.indptr[i + 1];
    for (std::int64_t e = x.indptr[i]; e < last; ++e) out[x.indices[e]] += static_cast<double>(x.data[e]) * rk;
  }
}

template <class T, class I>
class CsrMatrix final : public LinearMatrix {
 public:
  explicit CsrMatrix(CsrView<T, I> x) : LinearMatrix(x.rows, x.cols, x.entries()), x_(x) {}

  void dots(Rows rows, const double* w, double bias, double* out, std::int64_t stride) const override {
    dots_kernel(x_, rows, w, bias, out, stride);
  }
  void add_rows(Rows rows, const double* r, std::int64_t stride, double* out) const override {
    add_rows_kernel(x_, rows, r, stride, out);
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
  std::int64_t first_bad(std::int64_t i, double limit) const override {
    for (std::int64_t e = x_.indptr[i]; e < x_.indptr[i + 1]; ++e) {
      const double v = static_cast<double>(x_.data[e]);
      if (!(v <= limit && v >= -limit)) return static_cast<std::int64_t>(x_.indices[e]);
    }
    return -1;
  }

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
