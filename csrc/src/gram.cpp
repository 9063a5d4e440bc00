// gram.hpp by register tiles of 4 x 16 over panels of 64 packed rows. Every element of the result is summed over the rows in
// order, whoever computes it, so threads share tiles and never sums.
#include "leeward/core/gram.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "leeward/core/lanes.hpp"
#include "leeward/core/parallel.hpp"
#include "leeward/core/simd.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kPanel = 64;     // rows of a panel; 64 x 784 doubles stay in a 1 MiB cache
constexpr std::int64_t kChunk = 1024;   // rows packed between two parallel regions
constexpr std::int64_t kTileRows = 4;   // tile: 4 rows of the result ...
constexpr std::int64_t kTileCols = 16;  // ... by 16 columns
constexpr std::int64_t kStrip = 16;     // rows of the result handled by one block of parallel work

#if defined(__GNUC__)
using Lane8 = double __attribute__((vector_size(64)));
LEEWARD_INLINE Lane8 load8(const double* p) {
  Lane8 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
LEEWARD_INLINE void store8(double* p, Lane8 v) { std::memcpy(p, &v, sizeof v); }
#else
struct Lane8 {
  double lane[8];
};
LEEWARD_INLINE Lane8 load8(const double* p) {
  Lane8 v;
  std::memcpy(v.lane, p, sizeof v.lane);
  return v;
}
LEEWARD_INLINE void store8(double* p, Lane8 v) { std::memcpy(p, v.lane, sizeof v.lane); }
LEEWARD_INLINE Lane8 operator*(double a, Lane8 b) {
  for (double& x : b.lane) x = a * x;
  return b;
}
LEEWARD_INLINE Lane8 operator+(Lane8 a, Lane8 b) {
  for (int l = 0; l < 8; ++l) a.lane[l] = a.lane[l] + b.lane[l];
  return a;
}
#endif

// Rows [first, first + count) of the data into plain[count x width] and, times their weights, into scaled[count x width];
// columns past the data are 1 (the intercept, once) and 0.
LEEWARD_CLONES void pack(const DenseView<double>& rows, const double* weights, bool ones, std::int64_t first, std::int64_t count,
                         std::int64_t width, double* LEEWARD_RESTRICT plain, double* LEEWARD_RESTRICT scaled) {
  for (std::int64_t k = 0; k < count; ++k) {
    const double* LEEWARD_RESTRICT x = rows.row(first + k);
    const double a = weights[first + k];
    double* LEEWARD_RESTRICT p = plain + k * width;
    double* LEEWARD_RESTRICT s = scaled + k * width;
    for (std::int64_t j = 0; j < rows.cols; ++j) {
      p[j] = x[j];
      s[j] = a * x[j];
    }
    for (std::int64_t j = rows.cols; j < width; ++j) {
      p[j] = ones && j == rows.cols ? 1.0 : 0.0;
      s[j] = a * p[j];
    }
  }
}

// gram[i..i+4, j..j+16] += sum_k scaled[k, i..i+4]^T plain[k, j..j+16]
LEEWARD_INLINE void tile(const double* plain, const double* scaled, std::int64_t count, std::int64_t width, std::int64_t i,
                         std::int64_t j, double* gram) {
  Lane8 low[kTileRows], high[kTileRows];
  for (std::int64_t r = 0; r < kTileRows; ++r) {
    low[r] = load8(gram + (i + r) * width + j);
    high[r] = load8(gram + (i + r) * width + j + 8);
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const Lane8 a = load8(plain + k * width + j), b = load8(plain + k * width + j + 8);
    const double* s = scaled + k * width + i;
    for (std::int64_t r = 0; r < kTileRows; ++r) {
      low[r] = low[r] + s[r] * a;
      high[r] = high[r] + s[r] * b;
    }
  }
  for (std::int64_t r = 0; r < kTileRows; ++r) {
    store8(gram + (i + r) * width + j, low[r]);
    store8(gram + (i + r) * width + j + 8, high[r]);
  }
}

// Rows [strip, strip + 16) of the upper triangle (whole tiles).
LEEWARD_CLONES void gram_strip(const double* plain, const double* scaled, std::int64_t count, std::int64_t width,
                               std::int64_t strip, double* gram) {
  for (std::int64_t j = strip; j < width; j += kTileCols)
    for (std::int64_t i = strip; i < strip + kStrip; i += kTileRows) tile(plain, scaled, count, width, i, j, gram);
}

// sum a[k] b[k], k < n, in 16 lanes
LEEWARD_CLONES double dot(const double* LEEWARD_RESTRICT a, const double* LEEWARD_RESTRICT b, std::int64_t n) {
  Lanes sum;
  std::int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes)
    for (int l = 0; l < kLanes; ++l) sum.lane[l] += a[k + l] * b[k + l];
  for (int l = 0; k < n; ++k, ++l) sum.lane[l] += a[k] * b[k];
  return sum.fold();
}

// x[k] -= a * row[k], k < n
LEEWARD_CLONES void subtract(double a, const double* LEEWARD_RESTRICT row, std::int64_t n, double* LEEWARD_RESTRICT x) {
  for (std::int64_t k = 0; k < n; ++k) x[k] -= a * row[k];
}

}  // namespace

void weighted_gram(DenseView<double> rows, const double* weights, bool ones, double* out, Resources& use) {
  const std::int64_t dim = rows.cols + (ones ? 1 : 0);
  const std::int64_t width = (dim + kStrip - 1) / kStrip * kStrip;
  const std::int64_t chunk = std::min(kChunk, rows.rows);
  Workspace::Scope scope(use.workspace);
  double* gram = use.workspace.take<double>(width * width);
  double* plain = use.workspace.take<double>(chunk * width);
  double* scaled = use.workspace.take<double>(chunk * width);
  std::fill(gram, gram + width * width, 0.0);
  for (std::int64_t first = 0; first < rows.rows; first += kChunk) {
    const std::int64_t count = std::min(kChunk, rows.rows - first);
    const int threads = width * width * count > 4000000 ? use.threads : 1;
    use.poll();
    parallel_blocks(block_count(count, kPanel), threads, [&](std::int64_t b) {
      const std::int64_t at = b * kPanel, part = std::min(kPanel, count - at);
      pack(rows, weights, ones, first + at, part, width, plain + at * width, scaled + at * width);
    });
    parallel_blocks(width / kStrip, threads, [&](std::int64_t b) {
      for (std::int64_t at = 0; at < count; at += kPanel)
        gram_strip(plain + at * width, scaled + at * width, std::min(kPanel, count - at), width, b * kStrip, gram);
    });
  }
  for (std::int64_t i = 0; i < dim; ++i)
    for (std::int64_t j = i; j < dim; ++j) out[i * dim + j] = out[j * dim + i] = gram[i * width + j];
}

void weighted_sum(DenseView<double> rows, const double* weights, bool ones, double* out) {
  std::fill(out, out + rows.cols + (ones ? 1 : 0), 0.0);
  for (std::int64_t k = 0; k < rows.rows; ++k) {
    subtract(-weights[k], rows.row(k), rows.cols, out);
    if (ones) out[rows.cols] += weights[k];
  }
}

std::int64_t cholesky(double* a, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    double* row = a + i * n;
    for (std::int64_t j = 0; j < i; ++j) row[j] = (row[j] - dot(row, a + j * n, j)) / a[j * n + j];
    const double pivot = row[i] - dot(row, row, i);
    if (!(pivot > 0.0) || !std::isfinite(pivot)) return i;
    row[i] = std::sqrt(pivot);
  }
  return n;
}

void solve_lower(const double* factor, std::int64_t n, double* x) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = (x[i] - dot(factor + i * n, x, i)) / factor[i * n + i];
}

void solve_lower_transposed(const double* factor, std::int64_t n, double* x) {
  for (std::int64_t i = n - 1; i >= 0; --i) {
    x[i] /= factor[i * n + i];
    subtract(x[i], factor + i * n, i, x);
  }
}

}  // namespace leeward
