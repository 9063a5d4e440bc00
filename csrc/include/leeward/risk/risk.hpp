// The risk of a loss vector: its value and the worst-case weights that attain it (mathematics of risks: docs/maths/risks.md).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "leeward/core/resources.hpp"

namespace leeward {

// Losses l_i, finite; base weights p_i >= 0 with a positive sum (any scale), or null for uniform.
template <class T>
struct LossVector {
  const T* losses = nullptr;
  const double* base = nullptr;
  std::int64_t size = 0;
};

// Loss vectors under the same base weights, row by row.
template <class T>
struct LossRows {
  const T* losses = nullptr;
  const double* base = nullptr;
  std::int64_t rows = 0, size = 0;
  LossVector<T> row(std::int64_t i) const { return {losses + i * size, base, size}; }
};

// For risks with a divergence f, the weights are q_i = p_i (f*)'((l_i - eta) / multiplier).
struct RiskSolution {
  double value = 0;       // R(l), from the dual formula
  double eta = 0;         // dual variable of sum q = 1
  double multiplier = 0;  // of the radius constraint (its price), or the penalty in force; 0 where neither exists
  double gap = 0;         // dual value - primal value of the returned weights, >= 0 up to rounding; NaN without weights
  double effective_sample_size = 0;  // 1 / sum q_i^2; NaN without weights
  int iterations = 0;     // passes of the inner solve
};

// A loss or a base weight that no risk accepts, with its position.
class InvalidEntry : public std::invalid_argument {
 public:
  enum class Where { kLosses, kBase };
  InvalidEntry(Where where, std::int64_t position, double value);
  Where where;
  std::int64_t position;
  double value;
  // The message for the name of an index, "3" or "1, 3".
  std::string message(const std::string& index) const;
};

class Risk {
 public:
  virtual ~Risk() = default;
  // weights may be null when only the value is wanted; otherwise weights[0..size) receive q, sum 1.
  virtual RiskSolution solve(LossVector<float> l, float* weights, Resources& use) const = 0;
  virtual RiskSolution solve(LossVector<double> l, double* weights, Resources& use) const = 0;

  // out[i] and weights[i size ...) as solve gives them for row i, to the last bit.
  virtual void solve_rows(LossRows<float> l, float* weights, RiskSolution* out, Resources& use) const { one_by_one(l, weights, out, use); }
  virtual void solve_rows(LossRows<double> l, double* weights, RiskSolution* out, Resources& use) const { one_by_one(l, weights, out, use); }

 private:
  template <class T>
  void one_by_one(const LossRows<T>& l, T* weights, RiskSolution* out, Resources& use) const {
    for (std::int64_t i = 0; i < l.rows; ++i) out[i] = solve(l.row(i), weights == nullptr ? nullptr : weights + i * l.size, use);
  }
};

}  // namespace leeward
