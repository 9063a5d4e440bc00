// The other player of the primal-dual method: a distribution q over the samples, moved by stochastic dual averaging.
//
// Each sample has a score S_i, the sum of its noisy losses over its mass p_i so far; samples never seen have score 0 and stand together.
// q is the worst case of the scores under the mirror map, over the risk's set of distributions:
//
//   worst        q_i ~ p_i e^{S_i}                                                      (entropy over the simplex)
//   cvar         q_i = p_i min(c e^{S_i}, 1/alpha)                                      (entropy, capped)
//   chi-square   q_i = p_i (S_i - eta)_+/lam, lam >= 1 the least with D(q|p) <= rho     (squares, in the ball)
//
// Solving for c or (eta, lam), drawing from q and changing a score each cost O(log of the samples seen).
#pragma once

#include <cstdint>

#include "leeward/core/score_tree.hpp"
#include "leeward/core/stream.hpp"
#include "leeward/estimator/population.hpp"

namespace leeward {

enum class AdversaryKind : int { worst = 0, cvar = 1, chi_square = 2 };

class Adversary {
 public:
  Adversary(AdversaryKind kind, double parameter, const Population& population);

  std::int64_t size() const { return size_; }
  // The mass of a position of the population; all sum to 1.
  double mass(std::int64_t k) const { return population_.weight(k) / total_; }
  // Adds to the score of a position.
  void add(std::int64_t k, double change);
  double score(std::int64_t k) const { return tree_.inside(k) ? tree_.score(k) : 0.0; }
  bool seen(std::int64_t k) const { return tree_.inside(k); }
  // The state beside the scores: the mass never seen.
  static constexpr int kNumbers = 1;
  void save(double* numbers) const;
  // Scores as they were: NaN for positions never seen.
  void restore(const double* scores, const double* numbers);

  // Finds q for the scores as they are; draws and weights are of this q.
  void solve();
  // A position drawn from q with words of the stream from `word` on.
  std::int64_t draw(const Stream& stream, std::uint64_t word) const;
  double weight(std::int64_t k) const;

 private:
  std::int64_t strangers() const { return size_; }  // the item of all samples never seen
  void meet(std::int64_t k, double score);
  double ratio(double score) const;

  AdversaryKind kind_;
  double parameter_;
  const Population& population_;
  std::int64_t size_, met_ = 0;
  bool fewer_ = false;               // never seen than the tree says
  double total_ = 0, unmet_ = 1;  // sum of the weights; mass of the samples never seen
  ScoreTree tree_;
  ScoreTree::Parts parts_;
  double scale_ = 1, reference_ = 0;  // c e^s = scale e^(s - reference)
  double eta_ = 0, lam_ = 1;
};

}  // namespace leeward
