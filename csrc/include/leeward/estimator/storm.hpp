// The momentum of STORM (Cutkosky and Orabona 2019) on one level: over a mini-batch S_t,
//
//   d_t = grad f_S(w_t) + (1 - beta_t) (d_{t-1} - grad f_S(w_{t-1})),    d_0 the gradient over a first batch,
//   beta_t = beta / (1 + t / period), or beta where there is no period.
#pragma once

#include <cstdint>
#include <vector>

#include "leeward/estimator/component_mean.hpp"
#include "leeward/estimator/estimator.hpp"

namespace leeward {

struct StormSettings {
  std::int64_t batch = 1, first = 1;  // samples of a step, and of step 0
  double beta = 0.1;                  // in (0, 1]
  double period = 0;                  // 0: beta is constant
};

class Storm final : public Estimator {
 public:
  Storm(ComponentMean mean, const StormSettings& settings);

  std::int64_t dim() const override { return mean_.oracle().dim(); }
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;

 private:
  static constexpr std::size_t kCount = 0, kHeader = 1;  // then d and the point before

  ComponentMean mean_;
  StormSettings settings_;
  std::vector<double> fresh_;
};

}  // namespace leeward
