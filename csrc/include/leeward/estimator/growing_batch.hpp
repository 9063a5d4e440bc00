// A mini-batch that grows geometrically from step to step: n_t = ceil(n0 growth^t) independent draws from the base weights, until
// n_t reaches the number of samples; from then on the batch is all samples with their weights, and the direction is exact.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "leeward/estimator/estimator.hpp"
#include "leeward/estimator/population.hpp"
#include "leeward/oracle/oracle.hpp"
#include "leeward/risk/risk.hpp"

namespace leeward {

struct GrowingBatchSettings {
  std::int64_t n0 = 32;
  double growth = 1.05;  // a step, at least 1
  std::uint64_t seed = 0;
};

class GrowingBatch final : public Estimator {
 public:
  GrowingBatch(std::shared_ptr<const Oracle> oracle, std::shared_ptr<const Risk> risk, Population population,
               GrowingBatchSettings settings);

  std::int64_t dim() const override { return oracle_->dim(); }
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;

  // Samples of draw `step`.
  std::int64_t size(std::uint64_t step) const;

 private:
  std::shared_ptr<const Oracle> oracle_;
  std::shared_ptr<const Risk> risk_;
  Population population_;
  GrowingBatchSettings settings_;
  std::vector<std::int64_t> index_;
  std::vector<double> base_, losses_, weights_;
  std::vector<double> memory_;  // of the batch, for the gradient
};

}  // namespace leeward
