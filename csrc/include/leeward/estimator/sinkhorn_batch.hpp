// Nested SGD with inexact inner solutions (Yang, Zhou and Lu 2025, algorithms 1 and 2): B samples, m points each, and for each sample
// some steps on its own eta, on the m points,
//
//   v(eta) = 1 - mean_j r_j,   r_j = (f*)'((l_j - lam c_j - eta)/(lam eps)),   eta <- eta - inner_step v(eta),
//
// of which the eta with the smallest |v| is taken, the last of equal ones (of all so far: the rule as printed keeps the last that
// improves). The direction is
// the mean over the batch of mean_j r_j grad l_j. Every sample's eta is kept for its next visit.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "leeward/estimator/estimator.hpp"
#include "leeward/estimator/population.hpp"
#include "leeward/estimator/sinkhorn.hpp"
#include "leeward/risk/dual_form.hpp"

namespace leeward {

struct SinkhornBatchSettings {
  DualForm form;
  double reach = 0.1;  // lam eps
  std::int64_t n = 64;
  std::int64_t inner_steps = 8;
  double inner_step = 0.1;  // a step of eta
  double start = std::numeric_limits<double>::quiet_NaN();  // eta at a sample's first visit; NaN: the mean of its shifted losses
  bool fresh = true;        // other points at each step
  std::uint64_t seed = 0;
};

class SinkhornBatch final : public Estimator {
 public:
  SinkhornBatch(std::shared_ptr<const SinkhornOracle> oracle, Population population, SinkhornBatchSettings settings);

  std::int64_t dim() const override { return oracle_->dim(); }
  std::int64_t size() const { return settings_.n; }
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;

 private:
  // The best eta from `eta` on, for m shifted losses; `room` holds m numbers.
  double improve(const double* shifted, double eta, double* room) const;

  std::shared_ptr<const SinkhornOracle> oracle_;
  Population population_;
  SinkhornBatchSettings settings_;
  std::vector<std::int64_t> index_, points_;
  std::vector<double> shifted_, weights_;
};

}  // namespace leeward
