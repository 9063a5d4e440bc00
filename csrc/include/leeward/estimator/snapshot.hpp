// The snapshot difference of SVRG and SCSG (Lei, Ju, Chen and Jordan 2017, Algorithm 1). Stage j, from the point x~:
//
//   g = grad f_I(x~), I a batch of B_j;   then N_j times, over a mini-batch S of b_j:   v = grad f_S(x) - grad f_S(x~) + g.
//
// SVRG is B = n; loopless SVRG is B = n with lengths drawn by a coin. The rules are in stages.hpp, the draws in
// component_mean.hpp. A stage evaluates B + 2 b N component gradients; the paper counts its B + b N samples.
//
// Where the mini-batches are the slices of the batch, grad f_S(x~) is a part of g: the batch is evaluated slice by slice, the
// N = B/b gradients are kept, and g is their mean, so that a stage evaluates 2 B component gradients. Slices that would take
// too many bytes are evaluated anew at x~, and counted.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "leeward/estimator/component_mean.hpp"
#include "leeward/estimator/estimator.hpp"
#include "leeward/estimator/stages.hpp"

namespace leeward {

// Steps of a stage after Barzilai and Borwein (Tan, Ma, Dai and Qian 2016): with d the move from one reference point to the next
// and N the steps in between,  eta = |d|^2 / (N d . (change of the gradient, l2 term included)),  |d|^2 in the metric 1/metric;
// kept within [first/range, first range]. Stages whose batch, or the one before, is not all samples keep the step before.
struct BarzilaiBorwein {
  double first = 0;  // the schedule's step; 0: no such rule
  double range = 1;
  double l2 = 0;
  std::int64_t penalised = 0;
  std::vector<double> metric;  // (dim), or empty: 1
};

class SnapshotDifference final : public Estimator {
 public:
  static constexpr std::int64_t kKeptBytes = std::int64_t{1} << 30;  // of the gradients of slices, (B/b) dim doubles

  SnapshotDifference(ComponentMean mean, const StageSettings& settings, std::uint64_t seed);

  std::int64_t dim() const override { return mean_.oracle().dim(); }
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;

  // For a routine that makes inner steps of its own. begin() starts stages at w until one has steps left, owed() gives what that
  // cost, once; the routine makes at most left() steps with reference() and gradient(), and advance() gives what these cost.
  void begin(const double* w, Resources& use);
  Estimate owed();
  // points: at how many the samples of these steps were evaluated, 1 where their part of the reference point is kept.
  Estimate advance(std::int64_t steps, std::int64_t samples, std::int64_t points);
  std::int64_t number() const { return static_cast<std::int64_t>(state_[kNumber]); }  // of the stage; 0 before the first
  std::int64_t done() const { return static_cast<std::int64_t>(state_[kDone]); }      // inner steps of it
  std::int64_t left() const { return stage_of(number()).length - done(); }
  const Stage& stage() const { return stage_of(number()); }
  double scale() const { return stage().scale * state_[kScale]; }  // of the steps of the stage
  const double* reference() const { return state_.data() + kHeader; }
  const double* gradient() const { return reference() + dim(); }
  const Stages& stages() const { return stages_; }
  ComponentMean& mean() { return mean_; }
  void set_steps(BarzilaiBorwein rule) { steps_ = std::move(rule); }
  // Instead of kKeptBytes, before the first stage; 0 for a routine that has its own way of keeping.
  void keep_at_most(std::int64_t bytes) { kept_bytes_ = bytes; }

 private:
  // Then the reference point and its gradient. Owed: batches evaluated and shares of empty stages not yet reported. Mark: of
  // the stage and its reference point, where slices are kept.
  static constexpr std::size_t kNumber = 0, kDone = 1, kOwed = 2, kBefore = 3, kScale = 4, kMark = 5, kHeader = 6;
  const Stage& stage_of(std::int64_t j) const;
  double share() const { return stage().share() * state_[kScale]; }
  void renew_step(const double* w, const double* new_gradient);
  bool keeps(const Stage& stage) const;
  void keep_slices(std::int64_t j, const Stage& stage, const double* w, Resources& use);

  ComponentMean mean_;
  Stages stages_;
  BarzilaiBorwein steps_;
  std::vector<double> other_;
  // No part of the state: a run that is taken up again makes them anew, with the same bits and without counting them.
  std::vector<double> kept_;  // (N, dim), grad f_S(x~) of the slices
  double kept_mark_ = 0;      // of the stage they belong to; 0: of none
  std::int64_t kept_bytes_ = kKeptBytes;
  mutable Stage stage_;  // of stage number known_
  mutable std::int64_t known_ = 0;
};

}  // namespace leeward
