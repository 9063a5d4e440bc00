// Data, risks and descents that several C++ tests use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "leeward/core/stream.hpp"
#include "leeward/descent/acsa.hpp"
#include "leeward/descent/driver.hpp"
#include "leeward/descent/sgd.hpp"
#include "leeward/estimator/minibatch.hpp"
#include "leeward/estimator/snapshot.hpp"
#include "leeward/estimator/spider.hpp"
#include "leeward/estimator/storm.hpp"
#include "leeward/oracle/linear.hpp"
#include "leeward/risk/factories.hpp"

namespace samples {

using leeward::RiskPointer;
using Reals = std::vector<double>;

inline Reals normal(std::int64_t count, std::uint64_t step) {
  Reals x(static_cast<std::size_t>(count));
  leeward::fill_normal(leeward::Stream(11, leeward::Purpose::user, step), 0, count, x.data());
  return x;
}

// One of each risk, with the forms that have solvers of their own.
inline std::vector<std::pair<std::string, RiskPointer>> risks() {
  using namespace leeward;
  constexpr double kNone = -1.0;
  return {{"mean", make_mean()},
          {"worst", make_worst()},
          {"cvar", make_cvar(0.1)},
          {"total variation", make_total_variation(0.3)},
          {"chi-square penalty", make_chi_square(0.5, kNone)},
          {"chi-square radius", make_chi_square(kNone, 1.0)},
          {"chi-square both", make_chi_square(0.2, 1.0)},
          {"kl penalty", make_kl(0.3, kNone)},
          {"kl radius", make_kl(kNone, 0.5)},
          {"tilted", make_tilted(-2.0)},
          {"kl-cvar", make_kl_cvar(0.1, 0.2)},
          {"smoothed cvar", make_smoothed_cvar(0.1, 0.2)},
          {"cressie-read penalty", make_cressie_read(3.0, 0.5, kNone)},
          {"cressie-read radius", make_cressie_read(1.5, kNone, 0.5)},
          {"smoothed total variation", make_smoothed_total_variation(0.3, 0.1)},
          {"extremile", make_extremile(5.0, kNone)},
          {"smoothed extremile", make_extremile(5.0, 0.1)},
          {"exponential spectrum", make_exponential_spectrum(3.0, kNone)}};
}

// Logistic data, dense and with every third entry as CSR.
class Logistic {
 public:
  Logistic(std::int64_t rows, std::int64_t cols) : rows_(rows), cols_(cols), x_(normal(rows * cols, 1)), y_(normal(rows, 2)) {
    for (std::int64_t i = 0; i < rows; ++i) {
      double& y = y_[static_cast<std::size_t>(i)];
      y = y + x_[static_cast<std::size_t>(i * cols)] > 0.0 ? 1.0 : -1.0;
      for (std::int64_t j = i % 3; j < cols; j += 3) {
        entries_.push_back(static_cast<float>(x_[static_cast<std::size_t>(i * cols + j)]));
        columns_.push_back(static_cast<std::int32_t>(j));
      }
      starts_.push_back(static_cast<std::int64_t>(entries_.size()));
    }
  }
  Logistic(const Logistic&) = delete;
  Logistic& operator=(const Logistic&) = delete;

  std::int64_t rows() const { return rows_; }
  std::int64_t dim() const { return cols_ + 1; }
  std::shared_ptr<const leeward::LinearOracle> dense() const {
    return over(leeward::make_dense<double>({x_.data(), rows_, cols_, cols_}));
  }
  std::shared_ptr<const leeward::LinearOracle> csr() const {
    return over(leeward::make_csr<float, std::int32_t>({entries_.data(), columns_.data(), starts_.data(), rows_, cols_}));
  }

 private:
  std::shared_ptr<const leeward::LinearOracle> over(std::shared_ptr<const leeward::LinearMatrix> matrix) const {
    const leeward::LinearSettings settings{.loss = {leeward::hd::LossKind::logistic, 0.0, 0.0},
                                           .labels = y_.data(), .outputs = 1, .intercept = true, .memo = nullptr};
    return std::make_shared<leeward::LinearOracle>(std::move(matrix), settings);
  }

  std::int64_t rows_, cols_;
  Reals x_, y_;
  std::vector<float> entries_;
  std::vector<std::int32_t> columns_;
  std::vector<std::int64_t> starts_{0};
};

inline std::shared_ptr<leeward::Minibatch> minibatch(std::shared_ptr<const leeward::Oracle> oracle, RiskPointer risk,
                                                     std::int64_t n, bool replace = true) {
  leeward::Population population(oracle->size(), nullptr, nullptr);
  return std::make_shared<leeward::Minibatch>(std::move(oracle), std::move(risk), std::move(population),
                                              leeward::MinibatchSettings{.n = n, .replace = replace, .seed = 3}, false);
}

// One of each estimator of the mean loss.
inline std::vector<std::pair<std::string, std::shared_ptr<leeward::Estimator>>> finite_sums(
    const std::shared_ptr<const leeward::Oracle>& oracle, std::int64_t batch, std::int64_t inner) {
  using namespace leeward;
  const auto mean = [&] { return ComponentMean(oracle, nullptr, nullptr, 3); };
  const StageSettings fixed{.batch = batch, .inner = inner};
  const StageSettings growing{.batch_rule = BatchRule::growing, .fraction = 0.25};
  const StageSettings slices{.batch = batch, .inner = inner, .length_rule = LengthRule::slices};
  return {{"scsg", std::make_shared<SnapshotDifference>(mean(), fixed, 3)},
          {"scsg growing", std::make_shared<SnapshotDifference>(mean(), growing, 3)},
          {"scsg slices", std::make_shared<SnapshotDifference>(mean(), slices, 3)},
          {"spider", std::make_shared<Spider>(mean(), fixed, 3)},
          {"storm", std::make_shared<Storm>(mean(), StormSettings{.batch = inner, .first = batch})}};
}

enum class Kind { sgd, momentum, acsa };

inline leeward::Descent descent(Kind kind, std::shared_ptr<leeward::Estimator> estimator, leeward::Domain domain = {}) {
  using namespace leeward;
  const Reals start(static_cast<std::size_t>(estimator->dim()), 0.0);
  std::unique_ptr<Update> update;
  if (kind == Kind::acsa)
    update = std::make_unique<AcsaUpdate>(start);
  else
    update = std::make_unique<SgdUpdate>(start, kind == Kind::momentum ? 0.9 : 0.0, kind == Kind::momentum);
  const std::int64_t penalised = estimator->dim() - 1;
  return Descent(std::move(estimator), std::move(update), std::move(domain),
                 {.schedule = {.step = 0.01, .halves = 1, .period = 50.0}, .averaging = Averaging::uniform, .l2 = 1e-3,
                  .penalised = penalised, .metric = {}});
}

}  // namespace samples
