// The recursive gradient of SARAH (Nguyen, Liu, Scheinberg and Takac 2017) and SPIDER (Fang, Li, Lin and Zhang 2018): a stage of
// N_j steps begins with v = grad f_I(w) over a batch I of B_j, and its other steps take, over a mini-batch S of b_j,
//
//   v <- grad f_S(w) - grad f_S(w_before) + v.
#pragma once

#include <cstdint>
#include <vector>

#include "leeward/estimator/component_mean.hpp"
#include "leeward/estimator/estimator.hpp"
#include "leeward/estimator/stages.hpp"

namespace leeward {

class Spider final : public Estimator {
 public:
  Spider(ComponentMean mean, const StageSettings& settings, std::uint64_t seed);

  std::int64_t dim() const override { return mean_.oracle().dim(); }
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;
  const Stages& stages() const { return stages_; }
  ComponentMean& mean() { return mean_; }

 private:
  static constexpr std::size_t kNumber = 0, kDone = 1, kLength = 2, kInner = 3, kHeader = 4;  // then v and the point before

  ComponentMean mean_;
  Stages stages_;
  std::vector<double> fresh_;
};

}  // namespace leeward
