// With the places x_k in ascending order and Phi on the ladder, r_k = n (Phi_(k+1) - Phi_k), and by parts
//
//   R = x_0 + sum_k (1 - Phi_k) (x_k - x_(k-1)).
//
// With a penalty lam, blocks of neighbours are pooled (risk_spectral.cpp). With e_k = exp(x_k / lam) all v_B = lam log(sum_B e / sum_B
// r), so blocks are compared without logarithms; then r'_k = e_k sum_B r / sum_B e and R = sum_B v_B sum_B r / n.
#include "leeward/risk/short_spectral.hpp"

#include "leeward/hd/divergence.hpp"
#include "leeward/risk/short_frame.hpp"

namespace leeward {
namespace {

// The penalties, in units of the range, and the steps of Phi for which products of e and r stay in range.
constexpr double kLeastPenalty = 1.0 / 512, kMostPenalty = 2, kLeastStep = 1e-60;

struct Sorted {
  ShortFrame<1> frame;
  ShortOrder order;
  alignas(64) double ratio[kAlone + kLanes];  // in the order of the places; 0 in the padding
};

template <class T>
LEEWARD_CLONES bool read_row(const ShortRows<T>& in, ShortFrame<1>* f) {
  ShortSums<1, 2> moments;
  return frame_short<1>(in, f, &moments);
}

// The steps of the ladder; equal places share theirs.
LEEWARD_INLINE void take_steps(const Ladder& ladder, Sorted* s) {
  const double size = s->frame.size;
  for (std::int64_t i = 0; i < s->frame.padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) s->ratio[i + k] = size * (ladder.reached[i + k + 1] - ladder.reached[i + k]);
  }
  if (!s->order.ties) return;
  const double* const x = s->order.place();
  const std::int64_t n = ladder.size;
  for (std::int64_t i = 0; i < n;) {
    std::int64_t j = i + 1;
    while (j < n && x[j] == x[i]) ++j;
    const double share = size * ((ladder.reached[j] - ladder.reached[i]) / static_cast<double>(j - i));
    for (; i < j; ++i) s->ratio[i] = share;
  }
}

// The answer, from sum r, sum r^2, sum r x and sum f(r), and ratios in the order of the places.
template <class T>
LEEWARD_INLINE void answer(const Sorted& s, const ShortSums<1, 4>& v, double value, double lam, const ShortRows<T>& in, ShortAnswers* out) {
  alignas(64) double ratios[kAlone];
  for (std::int64_t i = 0; i < in.size; ++i) ratios[s.order.index[i]] = s.ratio[i];
  const double sums[kShortSums][1] = {{v.row[0][0]}, {v.row[1][0]}, {v.row[2][0]}, {0.0}, {v.row[3][0]}};
  ShortSolved<1> a;
  a.eta[0] = value;
  a.lam[0] = a.price[0] = a.multiplier[0] = lam;
  a.bonus[0] = 0.0;
  a.iterations[0] = 1;
  finish_short<1>(s.frame, a, ratios, sums, in, out);
}

template <class T>
LEEWARD_CLONES void integrate(const ShortRows<T>& in, const Ladder& ladder, Sorted* s, ShortAnswers* out) {
  take_steps(ladder, s);
  const double* const x = s->order.place();
  ShortSums<1, 4> v;
  ShortSums<1, 1> rise;
  v.start(s->frame.padded);
  rise.start(s->frame.padded);
  for (std::int64_t i = 0; i < s->frame.padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double r = s->ratio[i + k];
      v.add(0, i, k, r);
      v.add(1, i, k, r * r);
      v.add(2, i, k, r * x[i + k]);
      rise.add(0, i, k, (1.0 - ladder.reached[i + k]) * (x[i + k] - x[i + k - 1]));
    }
  }
  v.fold(s->frame.padded);
  rise.fold(s->frame.padded);
  v.row[3][0] = 0.0;
  answer(*s, v, x[0] + rise.row[0][0], 0.0, in, out);
}

// Blocks of neighbours: sum e, the step of Phi over it, and its end.
struct Blocks {
  alignas(64) double weight[kAlone + kLanes], step[kAlone + kLanes];
  std::int32_t last[kAlone];
  std::int64_t count = 0;
};

// Pools while v, that is weight / step, does not ascend; equal places are never parted.
LEEWARD_INLINE void pool(const double* x, const double* e, const double* reached, std::int64_t n, Blocks* b) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n;) {
    std::int64_t last = i + 1;
    while (last < n && x[last] == x[i]) ++last;
    double weight = e[i] * static_cast<double>(last - i), step = reached[last] - reached[i];
    while (count > 0 && b->weight[count - 1] * step >= weight * b->step[count - 1]) {
      --count;
      weight += b->weight[count];
      step += b->step[count];
    }
    b->weight[count] = weight;
    b->step[count] = step;
    b->last[count++] = static_cast<std::int32_t>(last);
    i = last;
  }
  b->count = count;
  for (std::int64_t block = 0, first = 0; block < count; first = b->last[block++])  // without the rounding of the sums
    b->step[block] = reached[b->last[block]] - reached[first];
}

template <class T>
LEEWARD_CLONES void integrate_penalised(const ShortRows<T>& in, const Ladder& ladder, double lam, Sorted* s, ShortAnswers* out) {
  const std::int64_t padded = s->frame.padded;
  const double tau = 1.0 / lam;
  const double* const x = s->order.place();
  alignas(64) double e[kAlone], rate[kAlone + kLanes], level[kAlone + kLanes];
  for (std::int64_t i = 0; i < padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) e[i + k] = hd::exp_pair_below(x[i + k] * tau).exp;
  }
  Blocks b;
  pool(x, e, ladder.reached, in.size, &b);
  if (b.count == 0 || !(b.step[b.count - 1] > 0)) return;
  for (std::int64_t i = b.count; i % kLanes != 0; ++i) {
    b.weight[i] = 1.0;
    b.step[i] = 0.0;
  }
  ShortSums<1, 1> dual;  // sum r v / lam
  dual.start(kLanes);
  for (std::int64_t i = 0; i < b.count; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double step = s->frame.size * b.step[i + k], weight = b.weight[i + k];
      const double log_v = hd::log(weight / (step > 0.0 ? step : 1.0));
      dual.add(0, i, k, step * log_v);
      b.step[i + k] = step / weight;
      b.weight[i + k] = log_v;
    }
  }
  dual.fold(kLanes);
  constexpr int kFill = 8;  // most blocks are shorter: whole chunks, each overwritten by the next, spare a guess at every end
  for (std::int64_t block = 0, first = 0; block < b.count; first = b.last[block++])
    for (std::int64_t i = first; i < b.last[block]; i += kFill) {
      LEEWARD_LANES
      for (int k = 0; k < kFill; ++k) {
        rate[i + k] = b.step[block];
        level[i + k] = b.weight[block];
      }
    }
  for (std::int64_t i = in.size; i < padded; ++i) rate[i] = level[i] = 0.0;
  ShortSums<1, 4> v;
  v.start(padded);
  for (std::int64_t i = 0; i < padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double r = e[i + k] * rate[i + k], held = s->frame.base(i, k);
      s->ratio[i + k] = r;
      v.add(0, i, k, r);
      v.add(1, i, k, r * r);
      v.add(2, i, k, r * x[i + k]);
      v.add(3, i, k, r * (x[i + k] * tau - level[i + k]) - r + held);
    }
  }
  v.fold(padded);
  answer(*s, v, lam * (dual.row[0][0] / s->frame.size), lam, in, out);
}

// One row; its answer is out->row[0].
template <class T>
void solve_row(const ShortRows<T>& in, const Ladder& ladder, double penalty, ShortAnswers* out) {
  Sorted s;
  if (!read_row(in, &s.frame)) return;
  double lam = 0.0;
  if (penalty > 0) {
    lam = penalty / s.frame.unit[0];
    if (!(lam > kLeastPenalty && lam < kMostPenalty && ladder.least > kLeastStep)) return;
  }
  ascending_order(s.frame.x, in.size, &s.order);
  if (penalty > 0)
    integrate_penalised(in, ladder, lam, &s, out);
  else
    integrate(in, ladder, &s, out);
}

}  // namespace

template <class T>
void short_spectral(const ShortRows<T>& in, const Ladder& ladder, double penalty, ShortAnswers* out) {
  for (std::int64_t r = 0; r < in.rows; ++r) {
    ShortAnswers one;
    solve_row(ShortRows<T>{in.losses + r * in.size, 1, in.size, in.weights == nullptr ? nullptr : in.weights + r * in.size}, ladder,
              penalty, &one);
    out->row[r] = one.row[0];
    out->done[r] = one.done[0];
  }
}

template void short_spectral(const ShortRows<float>&, const Ladder&, double, ShortAnswers*);
template void short_spectral(const ShortRows<double>&, const Ladder&, double, ShortAnswers*);

}  // namespace leeward
