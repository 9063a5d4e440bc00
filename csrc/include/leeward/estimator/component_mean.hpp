// Means of component gradients over drawn samples, all unbiased for  grad f(w) = sum_i p_i grad l_i(w),  p the base weights.
//
// Let m samples have p_i > 0; "positions" count these.
//   batch of a stage   B positions without replacement, weights p_i m / B; all m of them give grad f itself
//   mini-batch         equal p: b positions without replacement, weights 1/b; b = 1 takes draw k of the stage
//                      unequal p, or given chances: b independent draws with chance c_i, weights p_i / (b c_i); c = p by default
//   slice              the k-th b positions of the stage's batch in the order of their draw
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "leeward/core/sampler.hpp"
#include "leeward/estimator/population.hpp"
#include "leeward/estimator/stages.hpp"
#include "leeward/oracle/oracle.hpp"

namespace leeward {

class ComponentMean {
 public:
  // base: weights >= 0 (n) or null for equal ones. chances: positive where base is (n), or null: of the mini-batches' draws.
  ComponentMean(std::shared_ptr<const Oracle> oracle, const double* base, const double* chances, std::uint64_t seed);

  const Oracle& oracle() const { return *oracle_; }
  std::int64_t count() const { return population_.count(); }  // m
  // Memory for the batches and mini-batches of a rule; before any draw.
  void reserve(std::int64_t batch, std::int64_t inner, bool slices);

  // Draws of stage j = 1, 2, ..., inner step k and step t of the run, k and t from 0.
  void draw_batch(std::int64_t j, std::int64_t batch);
  void draw_inner(std::int64_t j, std::int64_t k, std::uint64_t t, std::int64_t inner);
  void draw_slice(std::int64_t j, std::int64_t k, const Stage& stage);
  // Many at once: the samples and weights of `steps` mini-batches (slices) from inner step k of stage j, step t of the run, on.
  void draw_steps(std::int64_t j, std::int64_t k, std::uint64_t t, const Stage& stage, std::int64_t steps, bool slices,
                  std::int64_t* index, double* weights);

  // The last drawn batch or mini-batch: sample numbers (null: all in order) and weights.
  Batch batch() const { return {everyone_ ? nullptr : index_.data(), size_}; }
  const double* weights() const { return weights_.data(); }
  // out = the mean at w over the last draw.
  void at(const double* w, double* out, Resources& use) const;

 private:
  void make_room(std::int64_t size);
  void take(const std::int64_t* positions, std::int64_t size, double share);
  void take_order(std::int64_t j, std::int64_t batch);

  std::shared_ptr<const Oracle> oracle_;
  Population population_;
  std::uint64_t seed_;
  double each_ = 0;                      // p_i when equal
  std::optional<AliasTable> unequal_;    // over positions
  std::vector<double> importance_;       // p_i / c_i by position, where chances are given
  std::vector<std::int64_t> index_, order_;
  std::vector<double> weights_;
  std::int64_t size_ = 0, order_of_ = 0;  // stage whose batch is in order_
  bool everyone_ = false;
};

}  // namespace leeward
