// The multi-level Monte Carlo estimator of Levy, Carmon, Duchi and Sidford (2020), section 4. With F(S) = sum_i q_i grad l(w; S_i), q the
// worst-case weights of the batch S, a level J in 1..levels, P(J = j) = 2^-j below the last and 2^-(levels - 1) there, and k = 2^J n0
// independent draws from the base weights,
//
//   M = F(S_1..S_n0) + (F(S_1..S_k) - F(S_1..S_k/2)/2 - F(S_k/2+1..S_k)/2) / P(J).
//
// Its mean is that of F on 2^levels n0 samples, at a mean cost of n0 (1 + levels). The four risks share one batch: one call for
// the losses and one signed weighted gradient.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "leeward/estimator/estimator.hpp"
#include "leeward/estimator/population.hpp"
#include "leeward/oracle/oracle.hpp"
#include "leeward/risk/risk.hpp"

namespace leeward {

struct MlmcSettings {
  std::int64_t n0 = 8;
  int levels = 9;  // at least 1
  std::uint64_t seed = 0;
};

class Mlmc final : public Estimator {
 public:
  Mlmc(std::shared_ptr<const Oracle> oracle, std::shared_ptr<const Risk> risk, Population population, MlmcSettings settings);

  std::int64_t dim() const override { return oracle_->dim(); }
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;

  void set_risk(std::shared_ptr<const Risk> risk) { risk_ = std::move(risk); }
  int level(std::uint64_t step) const;
  // Samples of draw `step`, and which ones, valid until the next draw.
  std::int64_t size(std::uint64_t step) const { return settings_.n0 << level(step); }
  const std::int64_t* draw(std::uint64_t step);

 private:
  // Adds factor times the worst-case weights of samples [first, first + count) to the signed weights, and what the risk of these
  // samples and the cost of its divergence (sum q l - R) come to.
  void add_risk(std::int64_t first, std::int64_t count, double factor, Estimate* e, Resources& use);

  std::shared_ptr<const Oracle> oracle_;
  std::shared_ptr<const Risk> risk_;
  Population population_;
  MlmcSettings settings_;
  std::vector<std::int64_t> index_;
  std::vector<double> losses_, weights_, part_;
  std::vector<double> memory_;  // of the batch, for the gradient
};

}  // namespace leeward
