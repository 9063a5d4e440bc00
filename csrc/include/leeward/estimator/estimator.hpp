// An estimator answers a random direction: an estimate of the (sub)gradient of the risk at a point.
//
// A draw is a value of (seed, purpose, step or stage): asking again with the same step gives the same batch. An estimator
// with a memory (a reference point, a running direction) keeps all of it in `state`, numbers in one vector, so that a run cut
// into stretches or taken up from a checkpoint gives the same bits. Adding one: docs/extending/estimator.md.
#pragma once

#include <cstdint>
#include <vector>

#include "leeward/core/resources.hpp"

namespace leeward {

struct Estimate {
  double value = 0;            // risk of the drawn samples; 0 where no losses are evaluated
  double paid = 0;             // for the same draw, sum q l - R(l): the penalty times the divergence of q
  std::int64_t losses = 0;     // component losses evaluated
  std::int64_t gradients = 0;  // component gradients evaluated
  std::int64_t samples = 0;    // samples drawn: one whose gradient is taken at two points counts once
  bool finite = true;          // false: a loss was NaN or infinite and there is no direction
  double scale = 1;            // this step's size is the schedule's times this
  // How much points weigh, in units of the schedule's step, when the answer is a random or an averaged one: w itself, where
  // stages ended without a step, and the iterate after this step; 0 inside a stage.
  double before = 0, after = 1;
};

class Estimator {
 public:
  virtual ~Estimator() = default;
  virtual std::int64_t dim() const = 0;
  // out[0..dim) = the direction at w of draw `step`; the l2 term is not part of it. One with a memory is asked once a step,
  // at the iterates in their order.
  virtual Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) = 0;

  // All that a checkpoint needs; its length never changes. Empty for an estimator without a memory.
  std::vector<double>& state() { return state_; }

 protected:
  std::vector<double> state_;
};

}  // namespace leeward
