// The one loop of the stochastic algorithms: estimator -> l2 term -> update -> average or output, for a stretch of steps.
//
// The state is two step numbers, the vectors of estimator and update, the average and the output, and nothing else: a run cut
// into stretches, or taken up from a checkpoint, gives the same bits as one stretch. Nothing is allocated inside the loop.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "leeward/descent/averaging.hpp"
#include "leeward/descent/domain.hpp"
#include "leeward/descent/inner_loop.hpp"
#include "leeward/descent/output.hpp"
#include "leeward/descent/result.hpp"
#include "leeward/descent/schedule.hpp"
#include "leeward/descent/update.hpp"
#include "leeward/estimator/estimator.hpp"

namespace leeward {

struct DescentSettings {
  Schedule schedule;
  Averaging averaging = Averaging::last;
  OutputRule output = OutputRule::last;  // one of the two is `last`
  std::uint64_t seed = 0;                // of the random output
  double l2 = 0;                // (l2/2) |w[0..penalised)|^2 is part of the objective, taken exactly
  std::int64_t penalised = 0;
  std::vector<double> metric;   // empty, or positive (dim): the move along j is step * metric[j]
};

class Descent {
 public:
  Descent(std::shared_ptr<Estimator> estimator, std::unique_ptr<Update> update, Domain domain, DescentSettings settings);

  // Makes at most `steps` steps, stops early after about `seconds`, and after the step by which `evaluations` component
  // gradients have been evaluated. The monitor is asked every half millisecond or at each step, whichever is longer; when it
  // throws, the state is that after the last complete step.
  // Returns false when it stopped because a loss or a direction was NaN or infinite.
  bool advance(std::int64_t steps, double seconds, Resources& use,
               std::int64_t evaluations = std::numeric_limits<std::int64_t>::max());
  // Steps are made by this routine from now on, wherever it can (inner_loop.hpp); null: one by one.
  void set_inner_loop(std::unique_ptr<InnerLoop> loop) { inner_loop_ = std::move(loop); }

  std::int64_t steps() const { return t_; }
  const Work& done() const { return done_; }  // everything since the start, never set back
  const double* answer() const;
  const double* iterate() const { return update_->iterate(); }
  std::int64_t dim() const { return update_->dim(); }

  // For checkpoints and for going back: the step number, the step at which schedule and average began, the vectors.
  void set_steps(std::int64_t t, std::int64_t origin) {
    t_ = t;
    origin_ = origin;
  }
  std::int64_t origin() const { return origin_; }
  std::vector<double>& vectors() { return update_->state(); }
  std::vector<double>& mean() { return average_.mean(); }
  std::vector<double>& memory() { return estimator_->state(); }
  std::vector<double>& output() { return output_.state(); }
  Schedule& schedule() { return settings_.schedule; }

 private:
  bool step(Resources& use);
  bool stretch(std::int64_t most, std::int64_t evaluations, Resources& use);
  void charge(const Estimate& e, std::int64_t steps);

  std::shared_ptr<Estimator> estimator_;
  std::unique_ptr<Update> update_;
  Domain domain_;
  DescentSettings settings_;
  Average average_;
  Output output_;
  std::unique_ptr<InnerLoop> inner_loop_;
  std::vector<double> direction_;
  std::int64_t t_ = 0, origin_ = 0;
  Work done_;
};

}  // namespace leeward
