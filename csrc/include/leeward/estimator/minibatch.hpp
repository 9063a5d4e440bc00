// The mini-batch estimator of Levy, Carmon, Duchi and Sidford (2020), section 3: with S_1..S_n drawn at random and q the
// worst-case weights of that batch,
//
//   g = sum_k q_k grad l(w; S_k).
//
// With replacement, S_k are independent draws from the base weights and the batch's base weights are equal. Without, samples of
// positive weight are drawn with equal chance and keep their weights; batches that are reshuffled follow each other through a random
// order of these samples, and through another one when all have been seen. With groups, min(n, G) groups are drawn without replacement,
// ceil(n / min(n, G)) samples from each, and the risk is that of the groups' means.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "leeward/core/stream.hpp"
#include "leeward/estimator/estimator.hpp"
#include "leeward/estimator/population.hpp"
#include "leeward/oracle/oracle.hpp"
#include "leeward/risk/risk.hpp"

namespace leeward {

struct MinibatchSettings {
  std::int64_t n = 64;
  bool replace = true;
  bool reshuffle = false;  // of draws without replacement
  std::uint64_t seed = 0;
  // Of an oracle with more samples than the population: k of the population at step t is sample k + fresh t. So a step
  // draws samples anew, where numbers that differ by `fresh` name draws of the same kind.
  std::int64_t fresh = 0;
};

class Minibatch final : public Estimator {
 public:
  Minibatch(std::shared_ptr<const Oracle> oracle, std::shared_ptr<const Risk> risk, Population population,
            MinibatchSettings settings, bool grouped);

  std::int64_t dim() const override { return oracle_->dim(); }
  Estimate direction(const double* w, std::uint64_t step, double* out, Resources& use) override;

  // Samples in a batch.
  std::int64_t size() const { return static_cast<std::int64_t>(losses_.size()); }
  // The samples of draw `step`, size() of them, valid until the next draw; null for all samples in order.
  const std::int64_t* draw(std::uint64_t step);

 private:
  void draw_all();
  void draw_plain(std::uint64_t step);
  void draw_distinct(std::uint64_t step);
  void draw_groups(std::uint64_t step);

  std::shared_ptr<const Oracle> oracle_;
  std::shared_ptr<const Risk> risk_;
  Population population_;
  MinibatchSettings settings_;
  bool grouped_;
  bool whole_ = false;        // the batch is always all samples in order
  std::int64_t drawn_ = 0;    // groups in a batch (grouped only)
  std::int64_t per_group_ = 0;
  std::vector<std::int64_t> index_;
  std::vector<double> base_, losses_, weights_, means_, shares_;
  std::vector<double> memory_;  // of the batch, for the gradient
};

}  // namespace leeward
