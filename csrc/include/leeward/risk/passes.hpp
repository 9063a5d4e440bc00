// The two passes every solver is made of: sums over the samples of a few functions of x, and the writing of the weights.
//
// A summand is a small struct with `static constexpr int kSums` and `void operator()(double x, double b, double* v) const`
// that sets v[j] (already multiplied by the base weight b). A ratio is a struct with `Ratio operator()(double x) const`.
// Both are compiled for each SIMD level; sums go to 16 lanes inside a block and over a fixed tree of blocks.
#pragma once

#include <cstdint>

#include "leeward/core/lanes.hpp"
#include "leeward/core/parallel.hpp"
#include "leeward/core/simd.hpp"
#include "leeward/risk/frame.hpp"
#include "leeward/risk/short.hpp"

namespace leeward {

// A read of sample i: its place x and its base weight.
template <class T, bool Weighted>
struct Reader {
  const T* losses;
  const double* base;
  double scale, shift, base_scale;

  LEEWARD_INLINE double place(std::int64_t i) const {
    const double x = static_cast<double>(losses[i]) * scale - shift;
    if constexpr (!Weighted) return x;
    const double below = x < 0.0 ? x : 0.0;  // samples of weight 0 may lie outside the frame
    return below > -1.0 ? below : -1.0;
  }
  LEEWARD_INLINE double weight(std::int64_t i) const {
    if constexpr (!Weighted) return 1.0;
    return base[i] * base_scale;
  }
};

template <class T, bool Weighted>
Reader<T, Weighted> reader_at(const Frame<T>& f, std::int64_t first) {
  return {f.losses + first, f.base == nullptr ? nullptr : f.base + first, f.scale, f.shift, f.base_scale};
}

// Written out term by term: a loop over j would stand between the compiler and the lanes.
template <class Summand>
LEEWARD_INLINE void add_term(const Summand& summand, double x, double b, double (*acc)[kLanes], int k) {
  static_assert(Summand::kSums <= 4);
  double v[4] = {};
  summand(x, b, v);
  acc[0][k] += v[0];
  if constexpr (Summand::kSums > 1) acc[1][k] += v[1];
  if constexpr (Summand::kSums > 2) acc[2][k] += v[2];
  if constexpr (Summand::kSums > 3) acc[3][k] += v[3];
}

template <class T, bool Weighted, class Summand>
LEEWARD_CLONES void sum_block(Reader<T, Weighted> in, std::int64_t n, Summand summand, double* out, std::int64_t stride) {
  constexpr int kSums = Summand::kSums;
  double acc[kSums][kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch_pass(in.losses + i);
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      add_term<Summand>(summand, in.place(i + k), in.weight(i + k), acc, k);
    }
  }
  for (int k = 0; i < n; ++i, ++k) {
    add_term<Summand>(summand, in.place(i), in.weight(i), acc, k);
  }
  for (int j = 0; j < kSums; ++j) {
    Lanes lanes;
    for (int k = 0; k < kLanes; ++k) lanes.lane[k] = acc[j][k];
    out[j * stride] = lanes.fold();
  }
}

// What a ratio gives at x: r, proportional to the density of the weights, and f(r), the divergence's integrand, or a part of
// it.
struct Ratio {
  double r, cost;
};

// weights[i] = b_i r_i norm; sums[0..4) = sum q, sum q^2, sum q x, sum b f(r).
inline constexpr int kWeightSums = 4;

template <class T, bool Weighted, class Density>
LEEWARD_CLONES void weight_block(Reader<T, Weighted> in, std::int64_t n, Density density, double norm, T* weights,
                                 double* out, std::int64_t stride) {
  double acc[kWeightSums][kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch_pass(in.losses + i);
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double x = in.place(i + k), b = in.weight(i + k);
      const Ratio at = density(x);
      const double q = b * at.r * norm;
      weights[i + k] = static_cast<T>(q);
      acc[0][k] += q;
      acc[1][k] += q * q;
      acc[2][k] += q * x;
      acc[3][k] += b * at.cost;
    }
  }
  for (int k = 0; i < n; ++i, ++k) {
    const double x = in.place(i), b = in.weight(i);
    const Ratio at = density(x);
    const double q = b * at.r * norm;
    weights[i] = static_cast<T>(q);
    acc[0][k] += q;
    acc[1][k] += q * q;
    acc[2][k] += q * x;
    acc[3][k] += b * at.cost;
  }
  for (int j = 0; j < kWeightSums; ++j) {
    Lanes lanes;
    for (int k = 0; k < kLanes; ++k) lanes.lane[k] = acc[j][k];
    out[j * stride] = lanes.fold();
  }
}

// Runs block(b, first, count, out, stride) over all blocks and folds the partial sums: sums[0..K).
template <int K, class Block>
void over_blocks(std::int64_t n, Resources& use, double* sums, const Block& block) {
  const std::int64_t blocks = block_count(n);
  if (blocks == 1) {
    block(std::int64_t{0}, n, sums, std::int64_t{1});
    return;
  }
  const Workspace::Scope scope(use.workspace);
  double* partial = use.workspace.template take<double>(K * blocks);
  parallel_blocks(blocks, use.threads, [&](std::int64_t b) {
    use.glance();
    const std::int64_t first = b * kBlock;
    block(first, n - first < kBlock ? n - first : kBlock, partial + b, blocks);
  });
  for (int j = 0; j < K; ++j) {
    const double* p = partial + j * blocks;
    sums[j] = tree_sum(0, blocks, [p](std::int64_t b) { return p[b]; });
  }
}

template <class T, class Summand>
void sum_over(const Frame<T>& f, const Summand& summand, Resources& use, double* sums) {
  over_blocks<Summand::kSums>(f.size, use, sums, [&](std::int64_t first, std::int64_t n, double* out, std::int64_t stride) {
    if (f.base == nullptr)
      sum_block<T, false, Summand>(reader_at<T, false>(f, first), n, summand, out, stride);
    else
      sum_block<T, true, Summand>(reader_at<T, true>(f, first), n, summand, out, stride);
  });
}

// A dual solution in the units of the frame, and how its weights are normalised.
struct Solved {
  double value = 0;       // dual value, as a place x
  double eta = 0;         // as a place x
  double multiplier = 0;  // in units of 2^k
  double norm = 0;        // q = b r norm
  double price = 0;       // of the divergence in the primal value: sum q x - price E f(r)
  double conjugate = 0;   // E f(r) is the mean cost less this
  int iterations = 0;
};

template <class T>
RiskSolution in_loss_units(const Frame<T>& f, const Solved& s);

// Writes the weights (unless null) and returns the solution in the units of the losses.
template <class T, class Density>
RiskSolution finish(const Frame<T>& f, const Solved& s, const Density& density, T* weights, Resources& use) {
  RiskSolution out = in_loss_units(f, s);
  if (weights == nullptr) return out;
  double sums[kWeightSums];
  over_blocks<kWeightSums>(f.size, use, sums, [&](std::int64_t first, std::int64_t n, double* o, std::int64_t stride) {
    if (f.base == nullptr)
      weight_block<T, false, Density>(reader_at<T, false>(f, first), n, density, s.norm, weights + first, o, stride);
    else
      weight_block<T, true, Density>(reader_at<T, true>(f, first), n, density, s.norm, weights + first, o, stride);
  });
  // sum q is 1 up to rounding; the gap is that of the normalised weights.
  const double primal = sums[2] / sums[0] - s.price * (sums[3] / f.total - s.conjugate);
  out.gap = f.from_scaled(s.value - primal);
  out.effective_sample_size = sums[0] * sums[0] / sums[1];
  return out;
}

// The density 1: the weights are the base weights.
struct Unit {
  LEEWARD_INLINE Ratio operator()(double) const { return {1.0, 0.0}; }
};

// The answer for losses that are all equal, of every risk.
template <class T>
RiskSolution finish_constant(const Frame<T>& f, double multiplier, T* weights, Resources& use) {
  RiskSolution out = finish(f, Solved{.norm = 1.0 / f.total}, Unit{}, weights, use);
  out.multiplier = multiplier;
  return out;
}

// All the mass on the maximum, shared in proportion to the base weights; the answer past a radius' ceiling.
struct OnTop {
  LEEWARD_INLINE Ratio operator()(double x) const { return {x >= 0.0 ? 1.0 : 0.0, 0.0}; }
};

struct TopMass {
  static constexpr int kSums = 1;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const { v[0] = x >= 0.0 ? b : 0.0; }
};

// sum b r, where a solver's own sum has lost its digits
template <class Density>
struct DensityMass {
  static constexpr int kSums = 1;
  Density density;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const { v[0] = b * density(x).r; }
};

// A risk written as one template for both element types: Derived has
//   template <class T> RiskSolution run(const Frame<T>&, T* weights, Resources&) const;  double idle_multiplier() const;
// and may have kernels for short rows (risk/short.hpp):
//   template <class T> void run_short(const ShortRows<T>&, ShortAnswers* out) const;
template <class Derived>
class FramedRisk : public Risk {
 public:
  RiskSolution solve(LossVector<float> l, float* weights, Resources& use) const override { return start(l, weights, use); }
  RiskSolution solve(LossVector<double> l, double* weights, Resources& use) const override { return start(l, weights, use); }
  void solve_rows(LossRows<float> l, float* weights, RiskSolution* out, Resources& use) const override { start_rows(l, weights, out, use); }
  void solve_rows(LossRows<double> l, double* weights, RiskSolution* out, Resources& use) const override {
    start_rows(l, weights, out, use);
  }

 protected:
  virtual bool mirrored() const { return false; }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }

  template <class T>
  static constexpr bool kHasShort = requires(const Derived& d, ShortRows<T> rows, ShortAnswers* out) { d.run_short(rows, out); };

  template <class T>
  RiskSolution start(LossVector<T> l, T* weights, Resources& use) const {
    if constexpr (kHasShort<T>) {
      ShortAnswers out;
      if (l.base == nullptr && l.size > 0 && l.size <= kAlone) self().run_short(ShortRows<T>{l.losses, 1, l.size, weights}, &out);
      if (out.done[0]) return out.row[0];
    }
    return general(l, weights, use);
  }

  template <class T>
  RiskSolution general(LossVector<T> l, T* weights, Resources& use) const {
    const Frame<T> f = make_frame(l, mirrored(), use);
    if (f.constant()) return finish_constant(f, self().idle_multiplier(), weights, use);
    return self().run(f, weights, use);
  }

  template <class T>
  void start_rows(LossRows<T> l, T* weights, RiskSolution* out, Resources& use) const {
    if constexpr (kHasShort<T>) {
      if (l.base == nullptr && l.size > 0 && l.size <= kShort) return side_by_side(l, weights, out, use);
    }
    for (std::int64_t i = 0; i < l.rows; ++i) out[i] = start(l.row(i), weights == nullptr ? nullptr : weights + i * l.size, use);
  }

  template <class T>
  void side_by_side(LossRows<T> l, T* weights, RiskSolution* out, Resources& use) const {
    for (std::int64_t first = 0; first < l.rows; first += kSide) {
      const std::int64_t count = l.rows - first < kSide ? l.rows - first : kSide;
      T* const to = weights == nullptr ? nullptr : weights + first * l.size;
      ShortAnswers answers;
      self().run_short(ShortRows<T>{l.losses + first * l.size, count, l.size, to}, &answers);
      for (std::int64_t r = 0; r < count; ++r)
        out[first + r] = answers.done[r] ? answers.row[r] : general(l.row(first + r), to == nullptr ? to : to + r * l.size, use);
    }
  }
};

}  // namespace leeward
