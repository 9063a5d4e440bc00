// Squares of a matrix's entries by column and by row: what step sizes and scalings of stochastic methods are made of.
#pragma once

#include "leeward/core/resources.hpp"
#include "leeward/oracle/linear_matrix.hpp"

namespace leeward {

// sums[j] = sum_i p_i x_ij^2 and tops[j] = max_{i: p_i > 0} x_ij^2; p null: 1 / rows. Both (cols).
void column_squares(const LinearMatrix& x, const double* p, double* sums, double* tops, Resources& use);
// out[i] = sum_j metric_j x_ij^2, metric null: 1.
void row_squares(const LinearMatrix& x, const double* metric, double* out, Resources& use);

}  // namespace leeward
