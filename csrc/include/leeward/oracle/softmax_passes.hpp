// The softmax loss over arrays: C scores a sample in, one number or C a sample out. Vectorised at each SIMD level.
#pragma once

#include "leeward/oracle/loss_passes.hpp"

namespace leeward {

void softmax_values(LossInputs in, double* out);                         // (count,)
void softmax_slopes(LossInputs in, const double* weights, double* out);  // (count, outputs), times weights[k] unless null
void softmax_curvatures(LossInputs in, double* out);                     // (count, outputs)
void softmax_conjugates(LossInputs in, double* out);                     // (count,)

}  // namespace leeward
