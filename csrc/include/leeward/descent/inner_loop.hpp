// A routine that makes many steps of a stage at once, in place of estimator -> l2 term -> update, one call of each a step: the
// way in for loops that are fused for one kind of oracle. It must follow the iterates of the steps it replaces to rounding,
// draw what they draw, and stop where they would stop. The driver uses it for plain updates with constant steps and no
// average over steps.
#pragma once

#include <cstdint>

#include "leeward/core/resources.hpp"
#include "leeward/descent/domain.hpp"
#include "leeward/estimator/estimator.hpp"

namespace leeward {

// What a stretch of steps starts from and may use.
struct Stretch {
  double* w = nullptr;             // the iterate, moved in place
  std::uint64_t first = 0;         // number of the first step
  std::int64_t most = 0;           // steps at most, fewer where the stage ends
  std::int64_t evaluations = 0;    // at least one step, but none once so many component gradients have been evaluated in it
  double step = 0;                 // the schedule's; a stage scales it
  const double* metric = nullptr;  // null: 1
  double l2 = 0;                   // of the first `penalised` coordinates
  std::int64_t penalised = 0;
  Domain* domain = nullptr;
};

struct StretchDone {
  std::int64_t steps = 0;
  Estimate estimate;  // the costs of all of them; `after` as of the last one; not finite: w is as it was before the bad step
};

class InnerLoop {
 public:
  virtual ~InnerLoop() = default;
  // Starts a stage at w where none has steps left; the cost, and the share of w where stages ended without a step.
  virtual Estimate begin(const double* w, Resources& use) = 0;
  // Makes at least one step, and comes back about every millisecond, after a number of steps that does not follow from the time.
  // An exception (of the monitor) leaves the state after the last complete step.
  virtual StretchDone run(const Stretch& stretch, Resources& use) = 0;
};

}  // namespace leeward
