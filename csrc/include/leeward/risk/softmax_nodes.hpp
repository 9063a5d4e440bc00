// The softmax loss of one sample at K nodes around its scores, node k in lane k mod 16.
#pragma once

#include <cstdint>

#include "leeward/core/simd.hpp"

namespace leeward {

// Nodes in lanes: K is a multiple of kLanes, and the weights that fill it up are 0.
struct ScoreNodes {
  std::int64_t classes, count;  // C, K
  const double* move;           // (C, K)
  const double* weight;         // (K,)
  const double* cost;           // (K,), of divergences other than KL
  const double* shift;          // (C, C, C): shift[y][c] of the scores, or null; KL alone
  const double* head;           // (C, C), with shifts
};

// Exponentials of the moves and of the moves over T, which all samples share: products with those of the scores take the
// place of exponentials at each node. Null where a move is too large for that.
struct MoveExponentials {
  const double *hot, *cold;  // (C, K)
};
inline constexpr double kLargestMove = 300.0;
inline constexpr std::int64_t kMostClasses = 64;  // with such exponentials

// One sample at one shift of its scores: relative to the label's, base_c = x_c - x_y without the nodes' moves.
struct ScorePlace {
  const double* base;
  std::int64_t y;
};

// loss_k, and the class probabilities pi (C, K).
void plain_visit(const ScoreNodes& nodes, MoveExponentials of, ScorePlace at, double* loss, double* pi);

// With 1/T: log g_k = log(sum_c e^(x_c - top)) / T - log sum_c e^((x_c - top) / T), and pi - pi(x / T) (C, K); or log g_k
// alone.
void cold_visit(const ScoreNodes& nodes, MoveExponentials of, ScorePlace at, double inverse, double* shares, double* pi);
void shares_of(const ScoreNodes& nodes, MoveExponentials of, ScorePlace at, double inverse, double* shares);

}  // namespace leeward
