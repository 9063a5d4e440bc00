// The inner loop of SVRG and SCSG on linear models: the steps that the snapshot difference and the plain update would make,
// up to rounding, by LinearStage. Draws, counts and stages are the estimator's.
//
// Where the batch of a stage is all samples, or steps walk its slices, the slopes of its samples at the snapshot are kept;
// elsewhere a row's slope there is computed with that at w. Lazy coordinates are brought up to date after a number of steps that follows from the sizes
// alone, so that a run stopped and taken up again has the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "leeward/descent/inner_loop.hpp"
#include "leeward/descent/linear_stage.hpp"
#include "leeward/estimator/snapshot.hpp"

namespace leeward {

class LinearLoop final : public InnerLoop {
 public:
  // oracle is that of the estimator.
  LinearLoop(std::shared_ptr<SnapshotDifference> estimator, const LinearOracle& oracle);

  Estimate begin(const double* w, Resources& use) override;
  StretchDone run(const Stretch& stretch, Resources& use) override;

 private:
  const double* kept_slopes(Resources& use);

  std::shared_ptr<SnapshotDifference> estimator_;
  const LinearOracle& oracle_;
  LinearStage stage_;
  std::int64_t read_ = 0;
  std::vector<std::int64_t> index_;
  std::vector<double> weights_, moved_;
  // Of all samples, those of the batch filled in; the point; the batch's slopes in the order of its draw; and its stage.
  std::vector<double> slopes_, slopes_at_, drawn_;
  std::int64_t slopes_of_ = 0;
};

}  // namespace leeward
