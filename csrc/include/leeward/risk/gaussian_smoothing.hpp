// The Gaussian Sinkhorn objective of many samples with linear scores: Psi and its derivatives for each score.
//
// All samples share tau, so Psi is one function of m = y z or z - y. It is tabulated over the range of m when that
// takes fewer solves than there are samples, to about 1e-12 of its size (and of the steepest slope), else solved for each.
#pragma once

#include <memory>

#include "leeward/core/resources.hpp"
#include "leeward/risk/gaussian_profile.hpp"

namespace leeward {

enum class GaussianDivergence { kl, chi_square, smoothed_cvar };

struct GaussianSettings {
  hd::LossSpec loss;
  GaussianDivergence divergence = GaussianDivergence::kl;
  double alpha = 0;       // of the smoothed CVaR
  double lam = 1, entropy = 1, noise = 1;
  std::int64_t dim = 1;   // number of noisy features
};

// Psi less its constant, dPsi/dscore and dPsi/dtau; n each.
struct GaussianValues {
  double *value, *slope, *spread;
};

class GaussianSmoothing {
 public:
  // std::invalid_argument for a loss that is not supported and for settings that are too extreme.
  GaussianSmoothing(const GaussianSettings& settings, const Resources& use);

  double constant() const { return constant_; }  // Psi of the loss 0

  // Infinite values, with slopes NaN, where KL has no finite mean.
  void evaluate(const double* scores, const double* labels, std::int64_t n, double tau, GaussianValues out, Resources& use) const;

 private:
  void solve(const double* m, double tau, Profile& out) const;

  GaussianSettings settings_;
  double T_, beta_, rho_, constant_ = 0;
  bool margin_ = false;
  std::unique_ptr<const NoisyConjugate> conjugate_;
};

}  // namespace leeward
