// CressieRead(k, radius) of short rows: r = y^a / mean y^a, y = (x - t)_+ / -t, t < 0, along which
//
//   g = log mean r^k = log mean y^(a + 1) - k log mean y^a
//
// grows with t from 0 to its ceiling; the radius asks for g = log(1 + k (k - 1) rho). Newton's iteration for 1 / sqrt(g), close to a line
// for small balls, where g = k (k - 1) a^2 variance / (2 (mean x - t)^2), inside a bracket; t has twice the digits of a double, as in
// risk_short_power.cpp. With a penalty too, the radius binds exactly where its multiplier passes the penalty.
#include "leeward/risk/short_power.hpp"

namespace leeward {
namespace {

constexpr double kLeastTarget = 1.0 / 64;  // below it g loses digits as a difference of logarithms
constexpr int kSteps = 32;

struct Ball {
  double order, target;   // k, the g that is asked for
  double variance_scale;  // a^2 / (2 rho): times the variance it is (mean - t)^2 for small balls
};

// sum y^a, sum y^(a + 1) and sum y^(a - 1) over the places above t.
template <int R, class Law>
LEEWARD_INLINE void power_sums(const ShortFrame<R>& f, const Thresholds<R>& t, const Law& law, ShortSums<R, 3>* v) {
  v->start(f.padded);
  for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
    LEEWARD_LANES
    for (int k = 0; k < kTogether<R>; ++k) {
      bool above;
      double r, slope;
      const double held = f.base(i, k), y = base_at<R>(t, f.x[i + k], k, &above);
      law(y, &r, &slope);
      const double b = above ? held : 0.0;
      v->add(0, i, k, b * r);
      v->add(1, i, k, b * (r * y));
      v->add(2, i, k, b * slope);
    }
  }
  v->fold(f.padded);
}

template <int R, class Law>
LEEWARD_INLINE void find_ball(const ShortFrame<R>& f, const ShortSums<R, 2>& moments, const Ball& ball, const Law& law, Thresholds<R>* t) {
  constexpr double kFar = -1e6, kClose = -0x1p-60;
  alignas(64) double left[R], right[R], before[R], live[R];
  LEEWARD_LANES
  for (int r = 0; r < R; ++r) {
    const double mean = moments.row[0][r] / f.size, variance = moments.row[1][r] / f.size - mean * mean;
    const double start = mean - std::sqrt((variance > 1e-12 ? variance : 1e-12) * ball.variance_scale);
    left[r] = kFar;
    right[r] = kClose;
    t->hi[r] = start > 0.5 * kFar ? (start < -0x1p-10 ? start : -0x1p-10) : 0.5 * kFar;
    t->lo[r] = t->iterations[r] = 0.0;
    t->kappa[r] = -1.0 / t->hi[r];
    before[r] = 0x1p1000;
    live[r] = f.fit[r];
  }
  ShortSums<R, 3> v;
  for (int step = 1; step <= kSteps; ++step) {
    power_sums<R>(f, *t, law, &v);
    const double late = step > 4 ? 1.0 : 0.0;
    LEEWARD_LANES
    for (int r = 0; r < R; ++r) {
      const double lower = v.row[0][r], upper = v.row[1][r];
      const double g = hd::log(upper / f.size) - ball.order * hd::log(lower / f.size);
      const double miss = g - ball.target, size = miss < 0.0 ? -miss : miss;
      right[r] = miss >= 0.0 ? t->hi[r] : right[r];
      left[r] = miss <= 0.0 ? t->hi[r] : left[r];
      const bool slow = (late > 0.0) & (size > 0.5 * before[r]);
      before[r] = slow ? 0x1p1000 : size;
      const double slope = (law.a + 1.0) * (v.row[2][r] / lower - lower / upper) * t->kappa[r];
      const double positive = g > 0.0 ? g : 0.0;
      const double change = 2.0 * positive * (1.0 - std::sqrt(positive / ball.target)) / (slope > 0x1p-1000 ? slope : 0x1p-1000);
      const double proposed = t->hi[r] + change, back = proposed - t->hi[r];
      const double rest = ((t->hi[r] - (proposed - back)) + (change - back)) + t->lo[r];
      const double hi = proposed + rest, lo = rest - (hi - proposed);
      const bool inside = (hi >= left[r]) & (hi <= right[r]) & (g > 0.0) & !slow;
      const double rounding = kSettled * ball.target + 5e-16 * ball.order;
      const bool going = (live[r] > 0.0) & (size > rounding);
      t->hi[r] = going ? (inside ? hi : -std::sqrt(left[r] * right[r])) : t->hi[r];
      t->lo[r] = going ? (inside ? lo : 0.0) : t->lo[r];
      t->kappa[r] = -1.0 / (t->hi[r] + t->lo[r]);
      const bool found = (live[r] > 0.0) & ((size <= rounding) | (inside & (size <= law.near * ball.target)));
      t->iterations[r] = found ? static_cast<double>(step) : t->iterations[r];
      live[r] = found ? 0.0 : live[r];
    }
    if (!any<R>(live)) return;
  }
}

template <int R, class T, class Law>
LEEWARD_CLONES void solve_ball(const ShortRows<T>& in, Law law, double order, double penalty, double radius, ShortAnswers* out, bool* slack) {
  ShortFrame<R> f;
  ShortSums<R, 2> moments;
  const double moment = order * (order - 1.0) * radius;
  const Ball ball{order, hd::log1p(moment), law.a * law.a / (2.0 * radius)};
  if (!(ball.target > kLeastTarget) || !frame_short<R>(in, &f, &moments)) return;
  // The ceiling, if the greatest loss stands alone; near it, the general solver.
  if (!(ball.target < 0.999 * (order - 1.0) * hd::log(f.size))) return;
  Thresholds<R> t;
  find_ball<R>(f, moments, ball, law, &t);
  alignas(64) double ratios[R * kRoom<R>], by[R];
  ShortSums<R, 4> v;  // sum y^a, sum y^2a, sum y^a x, sum y^(a + 1)
  v.start(f.padded);
  for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
    LEEWARD_LANES
    for (int k = 0; k < kTogether<R>; ++k) {
      bool above;
      double r, slope;
      const double x = f.x[i + k], y = base_at<R>(t, x, k, &above);
      law(y, &r, &slope);
      r = above ? f.base(i, k) * r : 0.0;
      ratios[i + k] = r;
      v.add(0, i, k, r);
      v.add(1, i, k, r * r);
      v.add(2, i, k, r * x);
      v.add(3, i, k, r * y);
    }
  }
  v.fold(f.padded);
  ShortSolved<R> a;
  alignas(64) double sums[kShortSums][R];
  LEEWARD_LANES
  for (int r = 0; r < R; ++r) {
    by[r] = f.size / v.row[0][r];
    const double log_z = hd::log(v.row[0][r] / f.size), g = hd::log(v.row[3][r] / f.size) - order * log_z;
    const double miss = g - ball.target, size = miss < 0.0 ? -miss : miss;
    const double least = penalty > 0 ? penalty / f.unit[r] : 0.0;
    const double root = hd::exp((order - 1.0) * log_z), lam = (order - 1.0) * root / t.kappa[r];  // root = Z^(k - 1)
    const bool found = (t.iterations[r] > 0.0) & (size <= 1e-13 * order * (1.0 + ball.target)) & (f.fit[r] > 0.0);
    f.fit[r] = (found & (lam > least)) ? 1.0 : 0.0;
    slack[r] = found & !(lam > least);
    const double power = hd::expm1(g);  // mean r^k - 1
    sums[0][r] = v.row[0][r] * by[r];
    sums[1][r] = v.row[1][r] * (by[r] * by[r]);
    sums[2][r] = v.row[2][r] * by[r];
    sums[3][r] = f.size * (power / order);
    sums[4][r] = f.size * (power / (order * (order - 1.0)));
    a.eta[r] = hd::expm1((order - 1.0) * log_z) / t.kappa[r];
    a.lam[r] = lam;
    a.price[r] = least;
    a.multiplier[r] = lam - least;
    a.bonus[r] = (lam - least) * radius;
    a.iterations[r] = t.iterations[r] + 1;
  }
  for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
    LEEWARD_LANES
    for (int k = 0; k < kTogether<R>; ++k) ratios[i + k] *= of_row<R>(by, k);
  }
  finish_short<R>(f, a, ratios, sums, in, out);
}

}  // namespace

template <class T>
void short_cressie_read_ball(const ShortRows<T>& in, double order, double penalty, double radius, ShortAnswers* out) {
  bool slack[kSide] = {};
  if (!(radius > 0)) return;
  with_law(order, [&](const auto& law) {
    if (in.rows == 1)
      solve_ball<1>(in, law, order, penalty, radius, out, slack);
    else
      solve_ball<kSide>(in, law, order, penalty, radius, out, slack);
  });
  for (std::int64_t r = 0; r < in.rows; ++r) {
    if (!slack[r] || !(penalty > 0)) continue;
    ShortAnswers one;
    short_cressie_read(ShortRows<T>{in.losses + r * in.size, 1, in.size, in.weights == nullptr ? nullptr : in.weights + r * in.size},
                       order, penalty, &one);
    out->row[r] = one.row[0];
    out->row[r].multiplier = 0;
    out->done[r] = one.done[0];
  }
}

template void short_cressie_read_ball(const ShortRows<float>&, double, double, double, ShortAnswers*);
template void short_cressie_read_ball(const ShortRows<double>&, double, double, double, ShortAnswers*);

}  // namespace leeward
