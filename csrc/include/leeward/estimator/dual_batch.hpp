// Stochastic gradients of the dual form of a risk, jointly in w and the dual variables (Levy, Carmon, Duchi and Sidford 2020, section 5):
//
//   G(w, eta, lam) = lam E f*((l - eta)/lam) + eta  (+ lam rho for a radius),   r = (f*)'((l - eta)/lam),
//   dG/dw = E r grad l,   dG/deta = 1 - E r,   dG/dlam = rho - E f(r),
//
// each a mean over n independent draws: no bias, at any n. The dual variables are kept here, and move by their own steps inside
// their own intervals each time a direction is asked for; lam is fixed for a penalty.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "leeward/estimator/dual_variable.hpp"
#include "leeward/estimator/estimator.hpp"
#include "leeward/estimator/population.hpp"
#include "leeward/oracle/oracle.hpp"
#include "leeward/risk/dual_form.hpp"

namespace leeward {

struct DualSettings {
  DualForm form;
  std::int64_t n = 64;
  DualVariable eta, lam;
  bool decaying = false;  // steps fall as 1/sqrt(1 + t/period)
  double period = 1;
  std::uint64_t seed = 0;
};

class DualBatch final : public Estimator {
 public:
  DualBatch(std::shared_ptr<const Oracle> oracle, Population population, DualSettings settings);

  std::int64_t dim() const override { return oracle_->dim(); }
  // The dual variables before the step are those of the direction.
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;

  double eta() const { return state_[0]; }
  double lam() const { return state_[1]; }

 private:
  std::shared_ptr<const Oracle> oracle_;
  Population population_;
  DualSettings settings_;
  std::vector<std::int64_t> index_;
  std::vector<double> losses_, weights_;
  std::vector<double> memory_;  // of the batch, for the gradient
};

}  // namespace leeward
