#include "leeward/oracle/row_steps.hpp"

#include "leeward/oracle/loss_passes.hpp"

namespace leeward {

StepSlope::StepSlope(const StepModel& model)
    : loss_(model.loss), kind_(model.loss.kind), clipped_(hd::clipped_of(model.loss)), outputs_(model.outputs) {}

double StepSlope::other(double z, double y) const {
  double out = 0.0;
  loss_slopes(loss_, {&z, &y, 1, 1}, &out);
  return out;
}

void StepSlope::many(const double* z, double y, double* out) const { loss_slopes(loss_, {z, &y, 1, outputs_}, out); }

}  // namespace leeward
