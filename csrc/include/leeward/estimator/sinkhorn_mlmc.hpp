// Sinkhorn problems by multi-level Monte Carlo in the number of draws (randomised truncation; Hu, Chen and He 2021, Wang, Gao and Xie
// 2021): with G_m = sum_j q_j grad l_j over m points of a sample, q the worst-case weights on them, a level L in 1..levels and
// k = 2^L m0 points,
//
//   G = G_m0 + (G_k - (G_first half + G_second half)/2) / P(L),    P(L >= j) = 2^(-3 (j - 1)/2),
//
// whose mean is that of G on 2^levels m0 points. The difference has a variance of order 4^-L where the weights are smooth in the losses,
// so that both the variance and the mean cost, about 4.4 m0 points, stay bounded however many levels there are. Each sample of a
// batch has a level of its own. All points of a batch share one call for the losses and one signed weighted gradient.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "leeward/estimator/estimator.hpp"
#include "leeward/estimator/population.hpp"
#include "leeward/estimator/sinkhorn.hpp"

namespace leeward {

struct SinkhornMlmcSettings {
  std::int64_t n = 64;   // samples a step
  std::int64_t m0 = 4;
  int levels = 14;       // the oracle's points have 2^levels m0 draws a sample
  std::int64_t unit = 8; // points that count as one evaluation
  std::uint64_t seed = 0;
};

class SinkhornMlmc final : public Estimator {
 public:
  SinkhornMlmc(std::shared_ptr<const SinkhornOracle> oracle, Population population, SinkhornMlmcSettings settings);

  std::int64_t dim() const override { return oracle_->dim(); }
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;

  // Samples and levels of draw `step`, valid until the next draw. Numbers are those of the samples' sets of points.
  struct Drawn {
    std::vector<std::int64_t> set;
    std::vector<int> level;
  };
  const Drawn& draw(std::uint64_t step);

 private:
  // Adds factor times the worst-case weights of points [first, first + count) to the signed weights; returns factor times their Psi.
  double add(std::int64_t first, std::int64_t count, double factor, Resources& use);

  std::shared_ptr<const SinkhornOracle> oracle_;
  Population population_;
  SinkhornMlmcSettings settings_;
  Drawn drawn_;
  std::vector<std::int64_t> points_;
  std::vector<double> losses_, costs_, weights_, part_, memory_;
};

}  // namespace leeward
