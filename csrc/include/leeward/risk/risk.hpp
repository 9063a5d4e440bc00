// The risk of a loss vector: its value and the worst-case weights that attain it (mathematics of risks: docs/maths/risks.md).
#pragma once

#include <cstdint>

#include "leeward/core/resources.hpp"

namespace leeward {

// Losses l_i, finite; base weights p_i >= 0 with a positive sum (any scale), or null for uniform.
template <class T>
struct LossVector {
  const T* losses = nullptr;
  const double* base = nullptr;
  std::int64_t size = 0;
};

struct RiskSolution {
  double value = 0;       // R(l)
  double eta = 0;         // dual variable of sum q = 1
  double multiplier = 0;  // of the radius constraint (its price), or the penalty in force; 0 where neither exists
  double gap = 0;         // dual value - primal value of the returned weights, >= 0 up to rounding
  double effective_sample_size = 0;  // 1 / sum q_i^2
  int iterations = 0;     // passes of the inner solve
};

class Risk {
 public:
  virtual ~Risk() = default;
  // weights may be null when only the value is wanted; otherwise weights[0..size) receive q, sum 1.
  virtual RiskSolution solve(LossVector<float> l, float* weights, Resources& use) const = 0;
  virtual RiskSolution solve(LossVector<double> l, double* weights, Resources& use) const = 0;
};

}  // namespace leeward
