// The primal-dual method: gradients of samples drawn from the adversary's q, and losses of samples drawn from the base weights by which q
// moves (Namkoong and Duchi 2016; Curi, Levy, Jegelka and Krause 2020). Per step, with batches I ~ q and J ~ p of n samples:
//
//   direction = mean over I of grad l(w; i),     S_j += dual_step (l_j - b)/(n p_j) for j in J,     b <- the running mean of l_j.
//
// The baseline b adds a constant to all scores on average, which changes no q, and takes away variance.
#pragma once

#include <memory>
#include <vector>

#include "leeward/estimator/adversary.hpp"
#include "leeward/estimator/estimator.hpp"
#include "leeward/oracle/oracle.hpp"

namespace leeward {

struct PrimalDualSettings {
  AdversaryKind kind = AdversaryKind::cvar;
  double parameter = 1;  // alpha or rho
  std::int64_t n = 1;
  double dual_step = 0;
  std::uint64_t seed = 0;
};

class PrimalDual final : public Estimator {
 public:
  PrimalDual(std::shared_ptr<const Oracle> oracle, Population population, PrimalDualSettings settings);

  std::int64_t dim() const override { return oracle_->dim(); }
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;

  const Population& population() const { return population_; }
  const Adversary& adversary() const { return adversary_; }
  // The state may have been put back: the adversary follows it.
  void follow_state();

 private:
  std::shared_ptr<const Oracle> oracle_;
  Population population_;
  PrimalDualSettings settings_;
  Adversary adversary_;
  std::vector<std::int64_t> index_, position_;
  std::vector<double> weights_, losses_;
  double version_ = 0;
};

}  // namespace leeward
