// The real functions of hd/real_math.hpp over arrays, compiled for each SIMD level: out[i] = f(x[i]). out may be x.
#pragma once

#include <cstdint>

namespace leeward {

void exp_array(const double* x, std::int64_t n, double* out);
void expm1_array(const double* x, std::int64_t n, double* out);
void log_array(const double* x, std::int64_t n, double* out);
void log1p_array(const double* x, std::int64_t n, double* out);
void sigmoid_array(const double* x, std::int64_t n, double* out);
void softplus_array(const double* x, std::int64_t n, double* out);

}  // namespace leeward
