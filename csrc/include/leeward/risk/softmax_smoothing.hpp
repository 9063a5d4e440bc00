// The Gaussian Sinkhorn objective of softmax scores, by a rule of K nodes in the few directions that move the scores.
//
// With x_k = z + move_k the scores at node k, l_k = l(x_k; y), weights p_k that sum to 1 and T = lam entropy,
//
//     KL:      Psi = T log sum_k p_k exp(l_k / T)                         (the cost is in the nodes' variance and a
//     constant) others:  Psi = min_eta  T sum_k p_k F((l_k - eta) / T - b_k) + eta,   b_k the cost of node k in units of
//     entropy,
//
// F the noisy conjugate over the directions that do not move the scores. Both leave the constant out that Psi has for no
// loss.
//
// Under KL with a far tilt, nodes around 0 miss the worst case. There exp(l / T) = sum_c exp((x_c - x_y) / T) g(x), and each
// term of the sum shifts the Gaussian: Psi = T log sum_c exp(head(y, c)) exp((z_c - z_y) / T) sum_k p_k g(z + shift(y, c) +
// move_k), with log g = l / T - log sum_c exp((x_c - x_y) / T), which is bounded.
#pragma once

#include <memory>

#include "leeward/core/resources.hpp"
#include "leeward/risk/conjugate_table.hpp"
#include "leeward/risk/gaussian_smoothing.hpp"
#include "leeward/risk/softmax_nodes.hpp"

namespace leeward {

// For n samples with weights p: Psi less its constant, dPsi/dscores (n, C), and sums over samples with r the densities and
// g = dl/dscores:  turn (C, K) = sum_i p_i r_k g_k;  with shifts also  mass (C, C) = sum_{i: y_i = y} p_i Q_c, Q_c the
// density of shift c, and  pull (C, C, C) = the same sums of r_k (pi(x_k) - pi(x_k / T)), which is then g_k of `turn` too.
struct SoftmaxValues {
  double *value, *slope, *turn, *mass, *pull;
};

class SoftmaxSmoothing {
 public:
  // freedom: of the directions that do not move the scores. std::invalid_argument for settings that are too extreme.
  SoftmaxSmoothing(GaussianDivergence divergence, double alpha, double T, double beta, std::int64_t freedom,
                   const Resources& use);

  void evaluate(const ScoreNodes& nodes, const double* scores, const double* labels, const double* p, std::int64_t n,
                SoftmaxValues out, Resources& use) const;

 private:
  double T_;
  std::unique_ptr<const ConjugateTable> conjugate_;  // none under KL
};

}  // namespace leeward
