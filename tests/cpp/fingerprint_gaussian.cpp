// The Gaussian Sinkhorn objective of tabulated and of single samples, and of softmax, for each divergence and one to three threads.
#include <string>
#include <vector>

#include "fingerprint.hpp"
#include "leeward/core/stream.hpp"
#include "leeward/risk/softmax_smoothing.hpp"

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

void evaluate_softmax(bool shifted) {
  constexpr std::int64_t n = 40, C = 5, K = 48;
  std::vector<double> z(n * C), y(n), p(n, 1.0 / n), move(C * K), weight(K, 1.0 / K), cost(K), value(n), slope(n * C), turn(C * K);
  std::vector<double> shift(C * C * C), head(C * C), mass(C * C), pull(C * C * C);
  fill_normal(Stream(8, Purpose::user, 1), 0, n * C, z.data());
  fill_normal(Stream(8, Purpose::user, 2), 0, C * K, move.data());
  fill_uniform(Stream(8, Purpose::user, 3), 0, K, cost.data());
  fill_uniform(Stream(8, Purpose::user, 4), 0, C * C, head.data());
  fill_uniform(Stream(8, Purpose::user, 5), 0, C * C * C, shift.data());
  for (std::int64_t i = 0; i < n; ++i) y[static_cast<std::size_t>(i)] = static_cast<double>(i % C);
  const ScoreNodes nodes{C, K, move.data(), weight.data(), cost.data(), shifted ? shift.data() : nullptr, head.data()};
  const SoftmaxValues out{value.data(), slope.data(), turn.data(), mass.data(), pull.data()};
  Workspace workspace;
  for (const auto divergence : {GaussianDivergence::kl, GaussianDivergence::chi_square, GaussianDivergence::smoothed_cvar})
    for (int threads = 1; threads <= 3 && !(shifted && divergence != GaussianDivergence::kl); ++threads) {
      Resources use{workspace, threads};
      const SoftmaxSmoothing smoothing(divergence, 0.2, 0.3, 0.4, 20, use);
      smoothing.evaluate(nodes, z.data(), y.data(), p.data(), n, out, use);
      fingerprint::print("softmax", value.data(), n);
      fingerprint::print("  slopes", slope.data(), n * C);
      fingerprint::print("  turns", turn.data(), C * K);
      if (shifted) fingerprint::print("  pulls", pull.data(), C * C * C);
    }
}

const fingerprint::Section around("gaussian softmax, nodes around 0", [] { evaluate_softmax(false); });
const fingerprint::Section apart("gaussian softmax, nodes around each class", [] { evaluate_softmax(true); });
const fingerprint::Section few("gaussian, 50 samples", [] { evaluate_all(50); });
const fingerprint::Section many("gaussian, 20000 samples", [] { evaluate_all(20000); });

}  // namespace
