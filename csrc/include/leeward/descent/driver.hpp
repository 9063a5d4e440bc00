// The one loop of the stochastic algorithms: estimator -> l2 term -> update -> average, for a stretch of steps.
//
// The state is two step numbers, the update's vectors and the average, and nothing else: a run cut into stretches, or taken
// up from a checkpoint, gives the same bits as one stretch. Nothing is allocated inside the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "leeward/descent/averaging.hpp"
#include "leeward/descent/domain.hpp"
#include "leeward/descent/result.hpp"
#include "leeward/descent/schedule.hpp"
#include "leeward/descent/update.hpp"
#include "leeward/estimator/estimator.hpp"

namespace leeward {

struct DescentSettings {
  Schedule schedule;
  Averaging averaging = Averaging::last;
  double l2 = 0;                // (l2/2) |w[0..penalised)|^2 is part of the objective, taken exactly
  std::int64_t penalised = 0;
  std::vector<double> metric;   // empty, or positive (dim): the move along j is step * metric[j]
};

class Descent {
 public:
  Descent(std::shared_ptr<Estimator> estimator, std::unique_ptr<Update> update, Domain domain, DescentSettings settings);

  // Makes at most `steps` steps, and stops early after about `seconds`. The monitor is asked before each step; when it
  // throws, the state is that after the last complete step.
  // Returns false when it stopped because a loss was NaN or infinite.
  bool advance(std::int64_t steps, double seconds, Resources& use);

  std::int64_t steps() const { return t_; }
  const Work& done() const { return done_; }  // everything since the start, never set back
  const double* answer() const { return average_.active() ? average_.mean().data() : update_->iterate(); }
  std::int64_t dim() const { return update_->dim(); }

  // For checkpoints and for going back: the step number, the step at which schedule and average began, the vectors.
  void set_steps(std::int64_t t, std::int64_t origin) {
    t_ = t;
    origin_ = origin;
  }
  std::int64_t origin() const { return origin_; }
  std::vector<double>& vectors() { return update_->state(); }
  std::vector<double>& mean() { return average_.mean(); }
  Schedule& schedule() { return settings_.schedule; }

 private:
  std::shared_ptr<Estimator> estimator_;
  std::unique_ptr<Update> update_;
  Domain domain_;
  DescentSettings settings_;
  Average average_;
  std::vector<double> direction_;
  std::int64_t t_ = 0, origin_ = 0;
  Work done_;
};

}  // namespace leeward
