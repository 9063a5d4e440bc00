// Losses and gradients of linear models, dense and CSR, in both element types, for one to three threads.
#include <vector>

#include "fingerprint.hpp"
#include "leeward/core/stream.hpp"
#include "leeward/oracle/linear.hpp"

using namespace leeward;

namespace {

constexpr std::int64_t kRows = 3001, kCols = 37;

template <class T>
struct Data {
  std::vector<T> x = std::vector<T>(kRows * kCols);
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<T> entries;

  Data() {
    std::vector<double> z(x.size());
    fill_normal(Stream(6, Purpose::user, 0), 0, kRows * kCols, z.data());
    for (std::size_t k = 0; k < x.size(); ++k) {
      x[k] = static_cast<T>(z[k]);
      if (z[k] > 0.8) {
        indices.push_back(static_cast<std::int32_t>(k % kCols));
        entries.push_back(x[k]);
      }
      if ((k + 1) % kCols == 0) indptr.push_back(static_cast<std::int64_t>(entries.size()));
    }
  }
};

void evaluate(const std::shared_ptr<const LinearMatrix>& matrix) {
  std::vector<double> labels(kRows), w(4 * (kCols + 1)), weights(kRows), losses(kRows), gradient(w.size());
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<double>(i % 3);
  fill_normal(Stream(6, Purpose::user, 1), 0, static_cast<std::int64_t>(w.size()), w.data());
  fill_uniform(Stream(6, Purpose::user, 2), 0, kRows, weights.data());
  Workspace workspace;
  const std::pair<const char*, hd::LossKind> kinds[] = {
      {"squared", hd::LossKind::squared},   {"huber", hd::LossKind::huber},     {"quantile", hd::LossKind::quantile},
      {"logistic", hd::LossKind::logistic}, {"softmax", hd::LossKind::softmax}, {"hinge", hd::LossKind::hinge},
      {"poisson", hd::LossKind::poisson}};
  for (const auto& [name, kind] : kinds)
    for (int threads = 1; threads <= 3; ++threads) {
      const bool softmax = kind == hd::LossKind::softmax;
      std::vector<double> y = labels;
      if (kind == hd::LossKind::logistic || kind == hd::LossKind::hinge)
        for (double& v : y) v = v > 0.0 ? 1.0 : -1.0;
      const LinearOracle oracle(matrix, {.loss = {kind, 0.5, 0.0}, .labels = y.data(), .outputs = softmax ? 3 : 1});
      Resources use{workspace, threads};
      oracle.losses(w.data(), {nullptr, kRows}, losses.data(), use);
      oracle.gradient(w.data(), {nullptr, kRows}, weights.data(), gradient.data(), use);
      fingerprint::print(name, losses.data(), kRows);
      fingerprint::print("  gradient", gradient.data(), oracle.dim());
    }
}

template <class T>
void dense_and_csr() {
  const Data<T> data;
  evaluate(make_dense(DenseView<T>{data.x.data(), kRows, kCols, kCols}));
  evaluate(make_csr(CsrView<T, std::int32_t>{data.entries.data(), data.indices.data(), data.indptr.data(), kRows, kCols}));
}

const fingerprint::Section wide("linear models, float64", [] { dense_and_csr<double>(); });
const fingerprint::Section narrow("linear models, float32", [] { dense_and_csr<float>(); });

}  // namespace
