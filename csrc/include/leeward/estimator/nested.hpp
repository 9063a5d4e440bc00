// What the estimators of a composition's gradient share: a tracker u_i of each level's value, Jacobians V_i where they are kept, and
// in `state_` the number of steps, the counts of work, and these vectors. A step that does not come to its end leaves all as it was.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "leeward/core/power_law.hpp"
#include "leeward/estimator/estimator.hpp"
#include "leeward/estimator/level_chain.hpp"

namespace leeward {

// Stages s = 1, 2, ... of max(first 2^(s-1), second 2^((s-1)/2)) steps each; in stage s the step's size is that of the first one times
// 2^(-(s-1)/2) and beta that of the first one times 2^-(s-1).
struct LevelStages {
  double first = 0, second = 0;  // 0 and 0: no stages
  bool active() const { return first > 0.0; }
};

struct NestedSettings {
  std::int64_t batch = 1;      // samples of a level and step
  std::int64_t first = 1;      // of step 0
  PowerLaw size;               // of the steps, in units of the schedule's
  std::vector<PowerLaw> beta;  // of the averages, one a level (or one for all), clipped to 1
  LevelStages stages;
  double guard = 0.1;          // a tracker that must be positive keeps at least this share of what it was
  std::uint64_t seed = 0;
};

class NestedEstimator : public Estimator {
 public:
  std::int64_t dim() const override { return chain_.dim(); }
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;

  // Everything since the start: evaluations of values, Jacobians and products, samples, numbers guarded.
  LevelCounts counts() const;
  std::int64_t size() const { return settings_.batch; }

 protected:
  // `entries` numbers for Jacobians and `extra` more are kept from step to step.
  NestedEstimator(std::vector<std::shared_ptr<const Level>> levels, NestedSettings settings, std::int64_t entries, std::int64_t extra);

  struct Turn {
    std::int64_t t;      // steps before this one
    std::uint64_t step;  // names the draws
  };
  // Makes next_ from state_ (u_0 is there already) and the direction from it. `out` may be written at any time.
  virtual void advance(const Turn& turn, double* out, Resources& use) = 0;
  virtual double scale(std::int64_t t, const double*) const { return size_at(t); }

  // Plain values and Jacobians of a batch at u_0, and the direction of the chain rule.
  void start(const Turn& turn, std::int64_t batch, double* entries, double* out, Resources& use);
  double beta(std::size_t level, std::int64_t t) const;  // of step t = 1, 2, ...
  double size_at(std::int64_t t) const;

  const double* before(std::size_t i) const { return state_.data() + kHeader + chain_.at(i); }
  double* now(std::size_t i) { return next_.data() + chain_.at(i); }
  const double* entries_before() const { return state_.data() + kHeader + chain_.numbers(); }
  double* entries_now() { return next_.data() + chain_.numbers(); }
  const double* extra_before() const { return entries_before() + entries_; }
  double* extra_now() { return entries_now() + entries_; }
  const double* const* points_now();

  LevelChain chain_;
  NestedSettings settings_;

 private:
  static constexpr std::size_t kSteps = 0, kCounts = 1, kHeader = 6;
  double stage_of(std::int64_t t) const;

  std::int64_t entries_;
  std::vector<double> next_;
  std::vector<const double*> points_;
  mutable std::int64_t stage_from_ = 0, stage_to_ = 0;  // steps of the stage that was asked for last
  mutable double stage_ = 0;
};

}  // namespace leeward
