#include "leeward/risk/gaussian_smoothing.hpp"

#include <cmath>
#include <stdexcept>

namespace leeward {
namespace {

constexpr std::int64_t kRow = 1024;     // samples of one block of parallel work
constexpr double kLargestBeta = 1e10;   // with an eta to be found: beyond, r > 0 is an event of the far tail
constexpr std::int64_t kFewest = 256;   // samples from which a table may pay

// m of each sample.
LEEWARD_CLONES void positions(const double* LEEWARD_RESTRICT z, const double* LEEWARD_RESTRICT y, std::int64_t n, bool margin,
                              double* LEEWARD_RESTRICT m) {
  for (std::int64_t i = 0; i < n; ++i) m[i] = margin ? z[i] * y[i] : z[i] - y[i];
}

struct Range {
  double low, high;
};

Range range_of(const double* m, std::int64_t n) {
  Range r{m[0], m[0]};
  for (std::int64_t i = 1; i < n; ++i) {
    r.low = m[i] < r.low ? m[i] : r.low;
    r.high = m[i] > r.high ? m[i] : r.high;
  }
  return r;
}

// Which tails of coefficients are small: beside values on the panel, or beside the steepest slope. Chi-square with few
// features has isolated m at which Psi is only some times differentiable: past kDeep halvings less will do.
struct SmallTails {
  double steepest, width, noise;
  bool smooth;
  bool operator()(const double* tail, const double* size, int depth) const {
    constexpr int kDeep = 8;
    const double precision = smooth || depth < kDeep ? 1e-12 : 1e-9;
    return tail[0] <= precision * (0.1 * size[0] + steepest * width) + noise && tail[1] <= precision * steepest &&
           tail[2] <= precision * (steepest + size[2]);
  }
};

}  // namespace

GaussianSmoothing::GaussianSmoothing(const GaussianSettings& settings, const Resources& use)
    : settings_(settings), T_(settings.lam * settings.entropy) {
  const double ratio = settings.noise / std::sqrt(settings.entropy);
  beta_ = ratio * ratio;
  rho_ = 1.0 / std::sqrt(1.0 + 2.0 * beta_);
  if (!(beta_ > 0.0 && std::isfinite(beta_) && T_ > 0.0 && std::isfinite(T_)))
    throw std::invalid_argument("lam * entropy and noise^2 / entropy must be positive and finite");
  if (!with_shape(settings.loss, [](const auto&) {})) throw std::invalid_argument("the exact Gaussian objective does not cover this loss");
  using hd::LossKind;
  const LossKind kind = settings.loss.kind;
  margin_ = kind == LossKind::logistic || kind == LossKind::hinge || kind == LossKind::squared_hinge;
  const auto dim = static_cast<double>(settings.dim);
  if (settings.divergence == GaussianDivergence::kl) {
    constant_ = -0.5 * dim * T_ * hd::log1p(2.0 * beta_);
    return;
  }
  if (beta_ > kLargestBeta)
    throw std::invalid_argument("noise^2 / entropy must be at most 1e10 for chi-square and the smoothed CVaR");
  const double alpha = settings.divergence == GaussianDivergence::smoothed_cvar ? settings.alpha : 0.0;
  conjugate_ = std::make_unique<const NoisyConjugate>(alpha, beta_, settings.dim - 1, use);
  constant_ = T_ * eta_constant(*conjugate_, beta_);
}

void GaussianSmoothing::solve(const double* m, double tau, Profile& out) const {
  with_shape(settings_.loss, [&](const auto& shape) {
    if (conjugate_ == nullptr)
      kl_profile(shape, KlScale{T_, rho_ * tau, rho_}, m, out);
    else
      eta_profile(shape, EtaScale{T_, tau, beta_, conjugate_.get(), constant_ / T_}, m, out);
  });
}

void GaussianSmoothing::evaluate(const double* scores, const double* labels, std::int64_t n, double tau, GaussianValues out,
                                 Resources& use) const {
  if (n <= 0) return;
  const Workspace::Scope scope(use.workspace);
  double* const m = use.workspace.take<double>(n);
  const std::int64_t blocks = block_count(n, kRow);
  parallel_blocks(blocks, use.threads, [&](std::int64_t b) {
    const std::int64_t first = b * kRow;
    positions(scores + first, labels + first, std::min(kRow, n - first), margin_, m + first);
  });

  ChebyshevTable<3> table;
  bool tabulated = false;
  const bool closed = conjugate_ == nullptr && settings_.loss.kind == hd::LossKind::squared;
  if (!closed && n >= kFewest) {
    const Range range = range_of(m, n);
    Profile ends;
    double at[kLanes];
    for (int l = 0; l < kLanes; ++l) at[l] = l < kLanes / 2 ? range.low : range.high;
    solve(at, tau, ends);
    const double steepest = std::max(std::abs(ends.slope[0]), std::abs(ends.slope[kLanes - 1]));
    const double largest = std::max(std::abs(ends.value[0]), std::abs(ends.value[kLanes - 1]));
    const double noise = conjugate_ == nullptr ? 0.0 : 1e-13 * T_;
    const SmallTails small{steepest, std::min(tau, 1.0), noise, conjugate_ == nullptr || conjugate_->smooth()};
    if (range.high > range.low && std::isfinite(largest) && steepest > 0.0)
      tabulated = table.build(
          range.low, range.high, n / (2 * kLanes), use,
          [&](const double* x, double(*y)[kLanes]) {
            Profile p;
            solve(x, tau, p);
            for (int l = 0; l < kLanes; ++l) {
              y[0][l] = p.value[l];
              y[1][l] = p.slope[l];
              y[2][l] = p.spread[l];
            }
          },
          small);
  }
  parallel_blocks(blocks, use.threads, [&](std::int64_t b) {
    use.poll();
    const std::int64_t first = b * kRow, last = std::min(n, first + kRow);
    for (std::int64_t i = first; i < last; i += kLanes) {
      const int count = static_cast<int>(std::min<std::int64_t>(kLanes, last - i));
      Profile p;
      if (tabulated) {
        for (int l = 0; l < count; ++l) {
          double y[3];
          table.at(m[i + l], y);
          p.value[l] = y[0];
          p.slope[l] = y[1];
          p.spread[l] = y[2];
        }
      } else {
        double at[kLanes];
        for (int l = 0; l < kLanes; ++l) at[l] = m[i + (l < count ? l : count - 1)];
        solve(at, tau, p);
      }
      for (int l = 0; l < count; ++l) {
        out.value[i + l] = p.value[l];
        out.slope[i + l] = margin_ ? labels[i + l] * p.slope[l] : p.slope[l];
        out.spread[i + l] = p.spread[l];
      }
    }
  });
}

}  // namespace leeward
