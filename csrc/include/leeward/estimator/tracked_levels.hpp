// Estimators that follow each level by differences at two points of one draw (nested STORM), u_0 = w:
//
//   u_i <- f_i(u_{i-1}; xi) + (1 - beta) (u_i^old - f_i(u_{i-1}^old; xi))
//
// and the gradient v = V_1^T ... V_K^T by one of
//   tracked   V_i <- P[J_i(u_{i-1}; xi) + (1 - beta) (V_i^old - J_i(u_{i-1}^old; xi))]      SMVR (Jiang et al. 2022), with P a projection;
//             with beta = 0 and plain values of a large batch every `period` steps           Nested-SPIDER (Zhang and Xiao 2021)
//   plain     V_i <- J_i(u_{i-1}; xi)                                                        SCSC (Chen, Sun and Yin 2021)
//   product   v <- g + (1 - beta) (v^old - g^old), g and g^old the products of the sampled Jacobians at the new and the old u:
//             for levels that answer products only, with a memory of O(d)
//   average   v <- (1 - beta) v^old + beta g: the same memory, and products at the new u only
#pragma once

#include "leeward/core/spectral.hpp"
#include "leeward/estimator/nested.hpp"

namespace leeward {

enum class JacobianRule : int { tracked = 0, plain = 1, product = 2, average = 3 };
enum class BallNorm : int { none = 0, spectral = 1, frobenius = 2 };

struct TrackedSettings {
  JacobianRule rule = JacobianRule::tracked;
  BallNorm norm = BallNorm::none;
  std::vector<double> radius;  // one a level
  std::int64_t period = 0;     // steps from one restart to the next; 0: none
  double reach = 0;            // > 0: a step's size is at most reach / |v|, in units of the schedule's
};

class TrackedLevels final : public NestedEstimator {
 public:
  TrackedLevels(std::vector<std::shared_ptr<const Level>> levels, NestedSettings settings, TrackedSettings tracked);

 protected:
  void advance(const Turn& turn, double* out, Resources& use) override;
  double scale(std::int64_t t, const double* v) const override;

 private:
  bool keeps() const { return tracked_.rule == JacobianRule::tracked; }
  bool remembers() const { return tracked_.rule == JacobianRule::product || tracked_.rule == JacobianRule::average; }
  bool pairs() const { return tracked_.rule == JacobianRule::tracked || tracked_.rule == JacobianRule::product; }
  void project(std::size_t i, double* jacobian);
  void difference(const Turn& turn, double* out, Resources& use);

  TrackedSettings tracked_;
  std::vector<double> fresh_, stale_;                // values at the new and at the old point
  std::vector<double> jacobians_, old_jacobians_;    // of all levels
  std::vector<double> product_, scratch_;
  std::vector<const double*> points_before_;
};

}  // namespace leeward
