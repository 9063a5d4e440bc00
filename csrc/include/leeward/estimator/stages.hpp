// Sizes and lengths of the stages of SVRG, SCSG and SARAH as values of (seed, stage), stages j = 1, 2, ...
// (Lei, Ju, Chen and Jordan, "Non-convex finite-sum optimization via SCSG methods", 2017, Algorithm 1 and Table 2):
//
//   B_j   a fixed size, min(ceil(j^{3/2}), n), or min(first 2^{j-1}, n)
//   b_j   a fixed size or ceil(fraction B_j), at most B_j
//   N_j   geometric from 0: P(N = k) = gamma^k (1 - gamma), gamma = B/(B + b), mean B/b; that mean, rounded; the number of
//         slices of b in the batch; a given number; or geometric from 1 with P(N = k) = (1 - p)^{k-1} p, which is a coin of
//         chance p tossed after each step (loopless SVRG)
#pragma once

#include <cstdint>

namespace leeward {

enum class BatchRule : int { fixed = 0, growing = 1, doubling = 2 };
enum class LengthRule : int { geometric = 0, mean = 1, slices = 2, fixed = 3, loopless = 4 };

struct StageSettings {
  BatchRule batch_rule = BatchRule::fixed;
  std::int64_t batch = 1;  // B, or the first B where it doubles
  std::int64_t inner = 1;  // b, unless
  double fraction = 0;     // this is positive: b = ceil(fraction B)
  LengthRule length_rule = LengthRule::geometric;
  std::int64_t length = 1;  // N, where it is given
  double chance = 1;        // p of the loopless rule
  double exponent = 0;      // steps are scaled by (b/B)^exponent; 2/3 in the paper's theory
};

struct Stage {
  std::int64_t batch = 0, inner = 0, length = 0;  // B_j, b_j, N_j
  double scale = 1;                               // of the step
  double share() const { return scale * static_cast<double>(batch) / static_cast<double>(inner); }  // in the output rule
};

class Stages {
 public:
  // count: samples of positive weight. Throws std::invalid_argument for settings that make no sense.
  Stages(StageSettings settings, std::int64_t count, std::uint64_t seed);

  Stage at(std::int64_t j) const;
  std::int64_t largest_batch() const;
  std::int64_t largest_inner() const;
  bool slices() const { return settings_.length_rule == LengthRule::slices; }

 private:
  std::int64_t batch_of(std::int64_t j) const;
  std::int64_t inner_of(std::int64_t batch) const;
  std::int64_t length_of(std::int64_t j, std::int64_t batch, std::int64_t inner) const;

  StageSettings settings_;
  std::int64_t count_;
  std::uint64_t seed_;
};

}  // namespace leeward
