// Estimators that follow each level by moving averages, u_0 = w, b = beta_i(t), g the product of the sampled Jacobians:
//
//   scgd     u_i <- (1 - b) u_i + b f_i(u_{i-1}; xi),   J_i at (u_{i-1}; xi)                     SCGD (Wang, Fang and Liu 2017)
//   atscgd   z = (1 - 1/b) u_{i-1}^old + (1/b) u_{i-1},  u_i <- (1 - b) u_i + b f_i(z; xi'),  i < K,  J_i at (u_{i-1}; xi)
//                                                            A-TSCGD (Yang, Wang and Fang 2019); ASC-PG (Wang, Liu and Fang 2017) for K = 2
//   nasa     u_i <- (1 - b) u_i + b f_i,  d <- (1 - b) d + b g,  level 1 at w, level 2 at u_1^old    NASA (Ghadimi et al. 2020), K <= 2
//   nlasg    u_i <- (1 - b) u_i + b f_i(u_{i-1}^old; xi) + J_i (u_{i-1} - u_{i-1}^old),  d <- (1 - b) d + b g,  J_i at (u_{i-1}^old; xi)
//                                                                                NLASG (Balasubramanian, Ghadimi and Nguyen 2022)
//   plain    values and Jacobians of the draw alone: a biased direction without a memory, on which default steps are chosen
// The direction is g, or d where there is one.
#pragma once

#include "leeward/estimator/nested.hpp"

namespace leeward {

enum class AverageRule : int { scgd = 0, atscgd = 1, nasa = 2, nlasg = 3, plain = 4 };

class AveragedLevels final : public NestedEstimator {
 public:
  AveragedLevels(std::vector<std::shared_ptr<const Level>> levels, NestedSettings settings, AverageRule rule);

 protected:
  void advance(const Turn& turn, double* out, Resources& use) override;

 private:
  bool averages() const { return rule_ == AverageRule::nasa || rule_ == AverageRule::nlasg; }
  void extrapolated(const Turn& turn, Resources& use);
  void followed(const Turn& turn, Resources& use);

  AverageRule rule_;
  std::vector<double> fresh_, point_, moved_, jacobians_;
  std::vector<const double*> asked_;  // where the Jacobian of each level was taken
};

}  // namespace leeward
