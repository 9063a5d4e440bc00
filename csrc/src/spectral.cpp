#include "leeward/core/spectral.hpp"

#include <algorithm>
#include <cmath>

namespace leeward {
namespace {

// Square root of the sum of squares, without overflow.
double length(const double* a, std::int64_t count) {
  double top = 0.0;
  for (std::int64_t k = 0; k < count; ++k) top = std::max(top, std::fabs(a[k]));
  if (!(top > 0.0)) return 0.0;
  double sum = 0.0;
  for (std::int64_t k = 0; k < count; ++k) sum += (a[k] / top) * (a[k] / top);
  return top * std::sqrt(sum);
}

// Eigenvectors of the symmetric g (n, n) into the columns of q, its eigenvalues onto its diagonal: Jacobi's rotations, in cyclic
// order.
void eigen(double* g, std::int64_t n, double* q) {
  constexpr int kSweeps = 60;
  constexpr double kEnough = 1e-16;
  std::fill(q, q + n * n, 0.0);
  for (std::int64_t i = 0; i < n; ++i) q[i * n + i] = 1.0;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool turned = false;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = i + 1; j < n; ++j) {
        const double off = g[i * n + j], a = g[i * n + i], b = g[j * n + j];
        if (!(std::fabs(off) > kEnough * std::sqrt(std::fabs(a * b)))) continue;
        turned = true;
        const double theta = (b - a) / (2.0 * off);
        const double t = std::copysign(1.0, theta) / (std::fabs(theta) + std::sqrt(1.0 + theta * theta));
        const double c = 1.0 / std::sqrt(1.0 + t * t), s = t * c;
        for (std::int64_t k = 0; k < n; ++k) {  // columns
          const double x = g[k * n + i], y = g[k * n + j];
          g[k * n + i] = c * x - s * y;
          g[k * n + j] = s * x + c * y;
        }
        for (std::int64_t k = 0; k < n; ++k) {  // rows
          const double x = g[i * n + k], y = g[j * n + k];
          g[i * n + k] = c * x - s * y;
          g[j * n + k] = s * x + c * y;
        }
        g[i * n + j] = g[j * n + i] = 0.0;
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = q[k * n + i], y = q[k * n + j];
          q[k * n + i] = c * x - s * y;
          q[k * n + j] = s * x + c * y;
        }
      }
    if (!turned) return;
  }
}

}  // namespace

void clip_frobenius(double* a, std::int64_t count, double radius) {
  const double norm = length(a, count);
  if (!(norm > radius)) return;
  for (std::int64_t k = 0; k < count; ++k) a[k] *= radius / norm;
}

// a - sum over singular triples with s > radius of (1 - radius/s) s u v^T, the u (or v) from the smaller Gram matrix.
void clip_spectral(double* a, std::int64_t rows, std::int64_t cols, double radius, double* scratch) {
  const double norm = length(a, rows * cols);
  if (!(norm > radius)) return;
  if (rows == 1 || cols == 1) {
    for (std::int64_t k = 0; k < rows * cols; ++k) a[k] *= radius / norm;
    return;
  }
  const bool wide = rows <= cols;
  const std::int64_t small = wide ? rows : cols, large = wide ? cols : rows;
  const std::int64_t step = wide ? cols : 1, along = wide ? 1 : cols;  // entry (i, k) of the wide form: a[i * step + k * along]
  double* const g = scratch;
  double* const q = g + small * small;
  double* const image = q + small * small;
  for (std::int64_t i = 0; i < small; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < large; ++k) sum += (a[i * step + k * along] / norm) * (a[j * step + k * along] / norm);
      g[i * small + j] = g[j * small + i] = sum;
    }
  eigen(g, small, q);
  for (std::int64_t e = 0; e < small; ++e) {
    const double value = g[e * small + e];
    const double singular = value > 0.0 ? norm * std::sqrt(value) : 0.0;
    if (!(singular > radius)) continue;
    const double share = 1.0 - radius / singular;
    for (std::int64_t k = 0; k < large; ++k) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < small; ++i) sum += q[i * small + e] * a[i * step + k * along];
      image[k] = sum;
    }
    for (std::int64_t i = 0; i < small; ++i)
      for (std::int64_t k = 0; k < large; ++k) a[i * step + k * along] -= share * q[i * small + e] * image[k];
  }
}

}  // namespace leeward
