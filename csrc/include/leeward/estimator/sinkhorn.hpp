// The inner problems of generalised Sinkhorn DRO as the losses of an oracle: with m points xi_j around zeta_i, their losses l_j and
// costs c_j,
//
//   Psi_i(w) = min_eta  mean_j lam eps f*((l_j - lam c_j - eta)/(lam eps)) + eta,     grad Psi_i = sum_j q_j grad l_j,
//
// the risk with penalty lam eps of the shifted losses l - lam c, solved exactly, and its worst-case weights q. So everything that
// minimises a mean of losses minimises E Psi. Sample number s of this oracle is set s of the points (oracle/perturbed.hpp).
#pragma once

#include <cstdint>
#include <memory>

#include "leeward/oracle/perturbed.hpp"
#include "leeward/risk/risk.hpp"

namespace leeward {

struct SinkhornSettings {
  double lam = 1;       // price of a unit of cost, in units of the loss
  double constant = 0;  // added to every Psi
};

// What one evaluation of all samples finds; arrays of n numbers, gradient of dim.
struct SinkhornAnswers {
  double *values, *eta, *effective, *gradient;  // `effective`: 1 / sum_j q_j^2
};

class SinkhornOracle final : public Oracle {
 public:
  SinkhornOracle(std::shared_ptr<const PerturbedOracle> points, std::shared_ptr<const Risk> inner, SinkhornSettings settings);

  std::int64_t size() const override { return points_->size() / points_->draws(); }
  std::int64_t dim() const override { return points_->dim(); }
  std::int64_t memory_per_sample() const override { return points_->draws() * (1 + points_->memory_per_sample()); }
  const PerturbedOracle& points() const { return *points_; }
  const Risk& inner() const { return *inner_; }
  const SinkhornSettings& settings() const { return settings_; }

  // A loss of a point that is not finite makes Psi infinite, or NaN.
  void losses(const double* w, Batch batch, double* out, Resources& use) const override;
  void gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const override;

  // Psi and sum_i p_i grad Psi_i (p null: 1/n) of all samples, in one pass.
  void evaluate(const double* w, const double* p, SinkhornAnswers out, Resources& use) const;
  // The shifted losses l - lam c of samples' points (batch.size, m), row by row.
  void shifted(const double* w, Batch batch, double* out, Resources& use) const;
  // The weights q (batch.size, m).
  void weights(const double* w, Batch batch, double* out, Resources& use) const;

 private:
  struct Part;  // some samples, so that memory stays bounded
  std::int64_t part() const;
  template <class F>
  void for_parts(Batch batch, Resources& use, const F& f) const;
  void shifted_losses(const double* w, const Part& part, double* out, Resources& use) const;
  void solve(const double* shifted, std::int64_t count, double* q, double* values, double* eta, double* effective,
             Resources& use) const;

  std::shared_ptr<const PerturbedOracle> points_;
  std::shared_ptr<const Risk> inner_;
  SinkhornSettings settings_;
};

}  // namespace leeward
