// CressieRead(k, penalty) of short rows: with a = 1 / (k - 1) and the threshold t = eta - a lam,
//
//   r_i = y_i^a,  y_i = (x_i - t)_+ / (a lam),     mean r = 1.
//
// Newton's iteration for (mean r)^(1/a) = 1, a norm of y, between t = min x - a lam and t = -a lam; for a >= 1 it comes from the left
// and never leaves. For a < 1 the norm falls steeply where a place is about to leave the active set: there the bracket takes over,
// and t has twice the digits of a double, for y_i^a is as large as the square root (say) of what t lacks.
#include "leeward/risk/short_power.hpp"

namespace leeward {
namespace {

constexpr double kLeastPenalty = 1.0 / 512;  // in units of the range of the losses
constexpr int kSteps = 32;

template <int R, class Law>
LEEWARD_INLINE void find_thresholds(const ShortFrame<R>& f, const ShortSums<R, 2>& moments, const double* lam, const Law& law,
                                    Thresholds<R>* t) {
  alignas(64) double left[R], right[R], before[R], live[R];
  LEEWARD_LANES
  for (int r = 0; r < R; ++r) {
    const double reach = law.a * lam[r];
    t->kappa[r] = 1.0 / reach;
    left[r] = f.low[r] - reach;
    right[r] = -reach;
    t->hi[r] = moments.row[0][r] / f.size - reach;
    t->lo[r] = t->iterations[r] = 0.0;
    before[r] = 0x1p1000;
    live[r] = f.fit[r];
  }
  ShortSums<R, 2> v;
  for (int step = 1; step <= kSteps; ++step) {
    v.start(f.padded);
    for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
      LEEWARD_LANES
      for (int k = 0; k < kTogether<R>; ++k) {
        bool above;
        double r, slope;
        const double held = f.base(i, k), y = base_at<R>(*t, f.x[i + k], k, &above);
        law(y, &r, &slope);
        const double b = above ? held : 0.0;
        v.add(0, i, k, b * r);
        v.add(1, i, k, b * slope);
      }
    }
    v.fold(f.padded);
    const double late = step > 4 ? 1.0 : 0.0;
    LEEWARD_LANES
    for (int r = 0; r < R; ++r) {
      const double s = v.row[0][r] / f.size, g = s - 1.0, size = g < 0.0 ? -g : g;
      left[r] = g >= 0.0 ? t->hi[r] : left[r];
      right[r] = g <= 0.0 ? t->hi[r] : right[r];
      const bool slow = (late > 0.0) & (size > 0.5 * before[r]);
      before[r] = slow ? 0x1p1000 : size;
      const double positive = s > 0x1p-1000 ? s : 1.0;
      const double change = (s - law.outer(positive)) * f.size / (t->kappa[r] * v.row[1][r]);
      const double proposed = t->hi[r] + change, back = proposed - t->hi[r];
      const double rest = ((t->hi[r] - (proposed - back)) + (change - back)) + t->lo[r];
      const double hi = proposed + rest, lo = rest - (hi - proposed);
      const bool inside = (hi >= left[r]) & (hi <= right[r]) & !slow;
      const bool going = (live[r] > 0.0) & (size > kSettled);
      t->hi[r] = going ? (inside ? hi : 0.5 * (left[r] + right[r])) : t->hi[r];
      t->lo[r] = going ? (inside ? lo : 0.0) : t->lo[r];
      const bool found = (live[r] > 0.0) & ((size <= kSettled) | (inside & (size <= law.near)));
      t->iterations[r] = found ? static_cast<double>(step) : t->iterations[r];
      live[r] = found ? 0.0 : live[r];
    }
    if (!any<R>(live)) return;
  }
}

template <int R, class T, class Law>
LEEWARD_CLONES void solve_power(const ShortRows<T>& in, Law law, double order, double penalty, ShortAnswers* out) {
  ShortFrame<R> f;
  ShortSums<R, 2> moments;
  if (!frame_short<R>(in, &f, &moments)) return;
  alignas(64) double lam[R], ratios[R * kRoom<R>];
  penalties_of<R>(&f, penalty, kLeastPenalty, law.most, lam);
  if (!any<R>(f.fit)) return;
  Thresholds<R> t;
  find_thresholds<R>(f, moments, lam, law, &t);
  ShortSums<R, 4> v;  // sum r, sum r^2, sum r x, sum (y r - 1)
  v.start(f.padded);
  for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
    LEEWARD_LANES
    for (int k = 0; k < kTogether<R>; ++k) {
      bool above;
      double r, slope;
      const double x = f.x[i + k], b = f.base(i, k), y = base_at<R>(t, x, k, &above);
      law(y, &r, &slope);
      r = above ? r : 0.0;
      const double q = b * r;
      ratios[i + k] = r;
      v.add(0, i, k, q);
      v.add(1, i, k, q * r);
      v.add(2, i, k, q * x);
      v.add(3, i, k, b * (y * r - 1.0));
    }
  }
  v.fold(f.padded);
  ShortSolved<R> a;
  alignas(64) double sums[kShortSums][R];
  LEEWARD_LANES
  for (int r = 0; r < R; ++r) {
    f.fit[r] = t.iterations[r] > 0.0 ? f.fit[r] : 0.0;
    sums[0][r] = v.row[0][r];
    sums[1][r] = v.row[1][r];
    sums[2][r] = v.row[2][r];
    sums[3][r] = v.row[3][r] / order;
    sums[4][r] = law.a * (v.row[3][r] - (v.row[0][r] - f.size)) - sums[3][r];  // f(r) = r s - f*(s), s = a (y - 1)
    a.eta[r] = (t.hi[r] + law.a * lam[r]) + t.lo[r];
    a.lam[r] = a.price[r] = a.multiplier[r] = lam[r];
    a.bonus[r] = 0.0;
    a.iterations[r] = t.iterations[r] + 1;
  }
  finish_short<R>(f, a, ratios, sums, in, out);
}

}  // namespace

template <class T>
void short_cressie_read(const ShortRows<T>& in, double order, double penalty, ShortAnswers* out) {
  with_law(order, [&](const auto& law) {
    if (in.rows == 1)
      solve_power<1>(in, law, order, penalty, out);
    else
      solve_power<kSide>(in, law, order, penalty, out);
  });
}

template void short_cressie_read(const ShortRows<float>&, double, double, ShortAnswers*);
template void short_cressie_read(const ShortRows<double>&, double, double, ShortAnswers*);

}  // namespace leeward
