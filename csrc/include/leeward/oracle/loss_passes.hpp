// The scalar losses over arrays: z and y of one batch in, one number (or C) a sample out. Vectorised at each SIMD level.
#pragma once

#include <cstdint>

#include "leeward/hd/scalar_loss.hpp"

namespace leeward {

// Sample k has label y[k] and the scores z[k * outputs .. ); outputs is 1 except for softmax, whose labels are 0..outputs-1.
struct LossInputs {
  const double* z;  // scores, or slopes for loss_conjugates
  const double* y;
  std::int64_t count;
  std::int64_t outputs;
};

void loss_values(const hd::LossSpec& loss, LossInputs in, double* out);      // (count,)
// Both; scalar losses share their exponential.
void loss_values_and_slopes(const hd::LossSpec& loss, LossInputs in, double* values, double* slopes);
void loss_slopes(const hd::LossSpec& loss, LossInputs in, double* out);      // (count, outputs)
void weighted_slopes(const hd::LossSpec& loss, LossInputs in, const double* weights, double* out);  // weights[k] times these
void loss_curvatures(const hd::LossSpec& loss, LossInputs in, double* out);  // (count, outputs)
void loss_conjugates(const hd::LossSpec& loss, LossInputs in, double* out);  // (count,)

}  // namespace leeward
