// Small dense symmetric linear algebra whose bits do not depend on the number of threads: a weighted Gram matrix, its
// Cholesky factor, and the two triangular solves. A threaded BLAS would cut its sums by the number of threads instead.
// Used for changes of variables in full-batch solvers: sizes up to a few thousand, all in double.
#pragma once

#include <cstdint>

#include "leeward/core/resources.hpp"
#include "leeward/core/views.hpp"

namespace leeward {

// out[(d + b) x (d + b)], row-major, symmetric = sum_k weights[k] x~_k x~_k^T with x~ = (x, 1) when `ones` (b = 1), else x.
void weighted_gram(DenseView<double> rows, const double* weights, bool ones, double* out, Resources& use);

// out[d + b] = sum_k weights[k] x~_k, one thread.
void weighted_sum(DenseView<double> rows, const double* weights, bool ones, double* out);

// Overwrites the lower triangle of a[n x n] (row-major) by L with a = L L^T; the strict upper triangle is not touched.
// Returns n, or the first row whose pivot was not positive (a is then half done and useless).
std::int64_t cholesky(double* a, std::int64_t n);

// x <- L^-1 x and x <- L^-T x for the lower triangle of factor[n x n].
void solve_lower(const double* factor, std::int64_t n, double* x);
void solve_lower_transposed(const double* factor, std::int64_t n, double* x);

}  // namespace leeward
