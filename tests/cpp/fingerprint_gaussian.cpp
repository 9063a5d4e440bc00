// The Gaussian Sinkhorn objective of tabulated and of single samples, for each divergence and one to three threads.
#include <string>
#include <vector>

#include "fingerprint.hpp"
#include "leeward/core/stream.hpp"
#include "leeward/risk/gaussian_smoothing.hpp"

using namespace leeward;

namespace {

void evaluate_all(std::int64_t n) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<double> scores(size), labels(size), value(size), slope(size), spread(size);
  fill_normal(Stream(7, Purpose::user, 1), 0, n, scores.data());
  fill_uniform(Stream(7, Purpose::user, 2), 0, n, labels.data());
  for (double& y : labels) y = y < 0.5 ? -1.0 : 1.0;
  Workspace workspace;
  for (const auto divergence : {GaussianDivergence::kl, GaussianDivergence::chi_square, GaussianDivergence::smoothed_cvar})
    for (const hd::LossKind kind : {hd::LossKind::logistic, hd::LossKind::hinge, hd::LossKind::huber, hd::LossKind::squared})
      for (int threads = 1; threads <= 3; ++threads) {
        Resources use{workspace, threads};
        const GaussianSmoothing smoothing({{kind, 0.7, 0.0}, divergence, 0.2, 1.5, 0.3, 0.4, 20}, use);
        smoothing.evaluate(scores.data(), labels.data(), n, 0.5, {value.data(), slope.data(), spread.data()}, use);
        const double constant = smoothing.constant();
        fingerprint::print("constant", &constant, 1);
        fingerprint::print("  values", value.data(), n);
        fingerprint::print("  slopes", slope.data(), n);
        fingerprint::print("  spreads", spread.data(), n);
      }
}

const fingerprint::Section few("gaussian, 50 samples", [] { evaluate_all(50); });
const fingerprint::Section many("gaussian, 20000 samples", [] { evaluate_all(20000); });

}  // namespace
