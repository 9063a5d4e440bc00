// Losses, gradients and what certificates need, of linear models over dense and CSR data.
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fingerprint.hpp"
#include "leeward/core/sampler.hpp"
#include "leeward/oracle/linear.hpp"

using namespace leeward;
using fingerprint::print;

namespace {

constexpr std::int64_t kRows = 5003, kCols = 93;
using Reals = std::vector<double>;

Reals normal(std::int64_t count, int step) {
  Reals x(static_cast<std::size_t>(count));
  fill_normal(Stream(7, Purpose::user, step), 0, count, x.data());
  return x;
}

// Every sixth entry of a dense matrix, as CSR.
template <class T>
struct Sparse {
  std::vector<T> data;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> indptr{0};
  explicit Sparse(const std::vector<T>& dense) {
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = i % 6; j < kCols; j += 6) {
        data.push_back(dense[static_cast<std::size_t>(i * kCols + j)]);
        indices.push_back(static_cast<std::int32_t>(j));
      }
      indptr.push_back(static_cast<std::int64_t>(data.size()));
    }
  }
};

void all_of(const char* name, std::shared_ptr<const LinearMatrix> matrix, hd::LossKind kind, double smoothing) {
  const std::int64_t outputs = kind == hd::LossKind::softmax ? 3 : 1;
  Reals y = normal(kRows, 1);
  for (double& v : y) {
    if (kind == hd::LossKind::softmax) v = v < -0.5 ? 0.0 : (v < 0.5 ? 1.0 : 2.0);
    else if (kind == hd::LossKind::logistic || kind == hd::LossKind::hinge || kind == hd::LossKind::sigmoid || kind == hd::LossKind::poisson) v = v < 0.0 ? -1.0 : 1.0;
    if (kind == hd::LossKind::poisson) v = v * v;
  }
  const LinearOracle oracle(std::move(matrix), {.loss = {kind, 0.3, smoothing}, .labels = y.data(), .outputs = outputs,
                                                .intercept = true, .memo = nullptr});
  Reals w = normal(oracle.dim(), 2);
  for (double& v : w) v *= 0.2;
  const Reals weights = normal(kRows, 3);
  Reals losses(kRows), gradient(w.size()), rows(static_cast<std::size_t>(kRows * outputs)), conjugate(kRows);
  Workspace workspace;
  const Batch all{nullptr, kRows};
  for (int threads = 1; threads <= 3; ++threads) {
    Resources use{workspace, threads};
    const std::string title = name;
    oracle.losses(w.data(), all, losses.data(), use);
    print((title + " losses").c_str(), losses.data(), kRows);
    oracle.gradient(w.data(), all, weights.data(), gradient.data(), use);
    print((title + " gradient").c_str(), gradient.data(), oracle.dim());
    oracle.curvatures(w.data(), all, rows.data(), use);
    print((title + " curvatures").c_str(), rows.data(), kRows * outputs);
    oracle.slopes(w.data(), all, rows.data(), use);
    oracle.conjugate(rows.data(), conjugate.data(), use);
    print((title + " conjugates").c_str(), conjugate.data(), kRows);
    oracle.smoothness(losses.data(), use);
    print((title + " smoothness").c_str(), losses.data(), kRows);
  }
}

template <class T>
void over(const char* storage) {
  const Reals normals = normal(kRows * kCols, 0);
  const std::vector<T> x(normals.begin(), normals.end());
  const Sparse<T> s(x);
  const auto dense = make_dense<T>({x.data(), kRows, kCols, kCols});
  const auto csr = make_csr<T, std::int32_t>({s.data.data(), s.indices.data(), s.indptr.data(), kRows, kCols});
  const std::string name = storage;
  using hd::LossKind;
  for (const auto& [loss, kind, smoothing] : {std::tuple{" logistic", LossKind::logistic, 0.0},
                                              std::tuple{" softmax", LossKind::softmax, 0.0},
                                              std::tuple{" quantile", LossKind::quantile, 0.25},
                                              std::tuple{" huber", LossKind::huber, 0.0},
                                              std::tuple{" hinge", LossKind::hinge, 0.5},
                                              std::tuple{" poisson", LossKind::poisson, 0.0},
                                              std::tuple{" sigmoid", LossKind::sigmoid, 0.0},
                                              std::tuple{" cauchy", LossKind::cauchy, 0.0},
                                              std::tuple{" geman-mcclure", LossKind::geman_mcclure, 0.0},
                                              std::tuple{" tukey", LossKind::tukey, 0.0}}) {
    all_of((name + " dense" + loss).c_str(), dense, kind, smoothing);
    all_of((name + " csr" + loss).c_str(), csr, kind, smoothing);
  }
}

const fingerprint::Section linear("linear models", [] {
  over<float>("float32");
  over<double>("float64");
});

}  // namespace
