// Steps row by row on dense and CSR matrices: both element types, scalar and many-output losses, one and many rows a step,
// slopes at the snapshot given or found, with and without a metric, for each prox.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fingerprint.hpp"
#include "leeward/core/sampler.hpp"
#include "leeward/oracle/linear_matrix.hpp"

using namespace leeward;

namespace {

constexpr std::int64_t kRows = 211, kSteps = 90;
using Reals = std::vector<double>;

Reals normal(std::int64_t count, int number, double scale) {
  Reals x(static_cast<std::size_t>(count));
  fill_normal(Stream(8, Purpose::user, static_cast<std::uint64_t>(number)), 0, count, x.data());
  for (double& v : x) v *= scale;
  return x;
}

template <class T>
struct Data {
  std::int64_t cols;
  std::vector<T> x, entries;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> indptr{0};

  explicit Data(std::int64_t columns) : cols(columns) {
    const Reals z = normal(kRows * cols, 0, 1.0);
    x.assign(z.begin(), z.end());
    for (std::int64_t k = 0; k < kRows * cols; ++k) {
      if (z[static_cast<std::size_t>(k)] > 0.8) {
        indices.push_back(static_cast<std::int32_t>(k % cols));
        entries.push_back(x[static_cast<std::size_t>(k)]);
      }
      if ((k + 1) % cols == 0) indptr.push_back(static_cast<std::int64_t>(entries.size()));
    }
  }
  std::shared_ptr<const LinearMatrix> dense() const { return make_dense<T>({x.data(), kRows, cols, cols}); }
  std::shared_ptr<const LinearMatrix> csr() const {
    return make_csr<T, std::int32_t>({entries.data(), indices.data(), indptr.data(), kRows, cols});
  }
};

struct Way {
  const char* name;
  std::int64_t batch;
  bool slopes, metric;
};

void steps_of(const std::string& title, const LinearMatrix& matrix, hd::LossKind kind, const Way& way) {
  const std::int64_t outputs = kind == hd::LossKind::softmax ? 3 : 1, dim = outputs * (matrix.cols() + 1);
  const std::int64_t total = kSteps * way.batch;
  Reals labels = normal(total, 1, 1.0), metric = normal(dim, 2, 0.2);
  for (double& v : labels) v = outputs > 1 ? (v < -0.5 ? 0.0 : (v < 0.5 ? 1.0 : 2.0)) : (v < 0.0 ? -1.0 : 1.0);
  for (double& v : metric) v = 1.0 + v * v;
  const Reals start = normal(dim, 3, 0.4), base = normal(dim, 4, 0.01), snapshot = normal(dim, 5, 0.4);
  const Reals slopes = normal(total * outputs, 6, 0.1), factors = normal(total, 7, 0.3);
  const Reals lower(static_cast<std::size_t>(dim), -0.15), upper(static_cast<std::size_t>(dim), 0.2);
  std::vector<std::int64_t> index(static_cast<std::size_t>(total));
  sample_with_replacement(Stream(8, Purpose::user, 9), kRows, 0, total, index.data());
  const std::pair<const char*, CoordinateProx> proxes[] = {
      {" free", {}},
      {" box", {CoordinateProx::box, lower.data(), upper.data(), 0.0, 0.0}},
      {" elastic net", {CoordinateProx::shrink, nullptr, nullptr, 0.01, 0.1}}};
  for (const auto& [prox, how] : proxes) {
    const auto rows = matrix.steps({.loss = {kind, 0.3, 0.0}, .outputs = outputs, .intercept = true});
    Reals w = start;
    rows->begin({.step = 0.3 / static_cast<double>(matrix.cols()),
                 .l2 = 0.1,
                 .metric = way.metric ? metric.data() : nullptr,
                 .prox = how,
                 .base = base.data(),
                 .snapshot = way.slopes ? nullptr : snapshot.data()},
                w.data());
    rows->run({.index = index.data(),
               .steps = kSteps,
               .batch = way.batch,
               .labels = labels.data(),
               .factors = way.metric ? factors.data() : nullptr,
               .slopes = way.slopes ? slopes.data() : nullptr});
    rows->finish(w.data());
    fingerprint::print((title + way.name + prox).c_str(), w.data(), dim);
  }
}

template <class T>
void over(const char* element) {
  constexpr Way kWays[] = {{" one row", 1, false, false},
                           {" one row, slopes, metric", 1, true, true},
                           {" five rows, slopes", 5, true, false},
                           {" five rows, metric", 5, false, true}};
  const std::pair<const char*, hd::LossKind> kinds[] = {{" logistic", hd::LossKind::logistic},
                                                        {" huber", hd::LossKind::huber},
                                                        {" squared hinge", hd::LossKind::squared_hinge},
                                                        {" cauchy", hd::LossKind::cauchy},
                                                        {" softmax", hd::LossKind::softmax}};
  for (const std::int64_t cols : {7, 93}) {
    const Data<T> data(cols);
    for (const auto& [loss, kind] : kinds)
      for (const Way& way : kWays) {
        const std::string rest = std::string(element) + loss + " " + std::to_string(cols);
        steps_of("dense " + rest, *data.dense(), kind, way);
        steps_of("csr " + rest, *data.csr(), kind, way);
      }
  }
}

const fingerprint::Section rows("steps row by row", [] {
  over<float>("float32");
  over<double>("float64");
});

}  // namespace
