// The chi-square radius through its penalty form (Levy, Carmon, Duchi and Sidford 2020, section 6):
//
//   R_rho(l) = min_lam  R_lam(l) + lam rho,    d/dlam = rho - D(q_lam),
//
// with multi-level estimates of R_lam's gradient in w and of D, both from one batch. lam is kept here and moves by its own steps
// inside its interval each time a direction is asked for. The memory is lam and a factor of its steps.
#pragma once

#include "leeward/estimator/dual_variable.hpp"
#include "leeward/estimator/mlmc.hpp"

namespace leeward {

struct PenaltySearchSettings {
  double radius = 1;
  DualVariable lam;
  bool decaying = false;  // the step of lam falls as 1/sqrt(1 + t/period)
  double period = 1;
};

class PenaltySearch final : public Estimator {
 public:
  PenaltySearch(std::shared_ptr<const Oracle> oracle, Population population, MlmcSettings levels, PenaltySearchSettings settings);

  std::int64_t dim() const override { return estimate_.dim(); }
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;
  double lam() const { return state_[0]; }

 private:
  Mlmc estimate_;
  PenaltySearchSettings settings_;
};

}  // namespace leeward
