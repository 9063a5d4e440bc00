// ChiSquare of short rows: the closed form on the active set (risk_chisquare.cpp), applied to the sets it finds until one
// repeats. Sets of places above a threshold are nested, so that equal counts mean equal sets. The greatest place is 0 and always
// active: the set's places are of the size of their own spread, hence no digits are lost.
#include <cmath>

#include "leeward/risk/short_frame.hpp"

namespace leeward {
namespace {

constexpr int kSteps = 40;  // sets shrink in a few steps; the general solver has the guards for the others

// Over the places above the thresholds: their number, sum and sum of squares.
template <int R>
LEEWARD_INLINE void active_sums(const ShortFrame<R>& f, const double* threshold, ShortSums<R, 3>* sums) {
  sums->start(f.padded);
  for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
    LEEWARD_LANES
    for (int k = 0; k < kTogether<R>; ++k) {
      const double x = f.x[i + k], held = f.base(i, k);
      const double b = x > of_row<R>(threshold, k) ? held : 0.0;
      const double first = b * x;
      sums->add(0, i, k, b);
      sums->add(1, i, k, first);
      sums->add(2, i, k, first * x);
    }
  }
  sums->fold(f.padded);
}

template <int R>
struct ChiPairs {
  alignas(64) double eta[R], lam[R];
  alignas(64) double iterations[R];  // 0: not found
};

// eta (and, in the radius form, lam) on the present sets; rows with no closed form are given up.
template <int R>
struct PenaltyForm {
  LEEWARD_INLINE void operator()(const ShortFrame<R>& f, const double (*s)[R], double* live, ChiPairs<R>* at) const {
    LEEWARD_LANES
    for (int r = 0; r < R; ++r) {
      const double eta = (s[1][r] - at->lam[r] * (f.size - s[0][r])) / s[0][r];
      at->eta[r] = live[r] > 0.0 ? eta : at->eta[r];
    }
  }
};

template <int R>
struct RadiusForm {
  double radius;
  LEEWARD_INLINE void operator()(const ShortFrame<R>& f, const double (*s)[R], double* live, ChiPairs<R>* at) const {
    LEEWARD_LANES
    for (int r = 0; r < R; ++r) {
      const double count = s[0][r], inverse = 1.0 / count;
      const double mean = s[1][r] * inverse, spread = s[2][r] * inverse - mean * mean;
      const double idle = f.size - count, room = 2 * radius * count - idle;
      live[r] = ((room > 1e-4 * count) & (spread > 0)) ? live[r] : 0.0;
      const double lam = count * std::sqrt(spread / (room * f.size));
      const double eta = mean - lam * (idle * inverse);
      at->lam[r] = live[r] > 0.0 ? lam : at->lam[r];
      at->eta[r] = live[r] > 0.0 ? eta : at->eta[r];
    }
  }
};

// From the sets of all places to the answers, for the rows that are live.
template <int R, class Form>
LEEWARD_INLINE void find_sets(const ShortFrame<R>& f, const ShortSums<R, 2>& moments, const Form& form, double* live, ChiPairs<R>* at) {
  ShortSums<R, 3> s;
  alignas(64) double threshold[R], count[R];
  for (int r = 0; r < R; ++r) {
    s.row[0][r] = f.size;
    s.row[1][r] = moments.row[0][r];
    s.row[2][r] = moments.row[1][r];
    at->eta[r] = at->iterations[r] = 0.0;
  }
  for (int step = 1; step <= kSteps; ++step) {
    form(f, s.row, live, at);
    LEEWARD_LANES
    for (int r = 0; r < R; ++r) {
      count[r] = s.row[0][r];
      threshold[r] = at->eta[r] - at->lam[r];
    }
    active_sums<R>(f, threshold, &s);
    LEEWARD_LANES
    for (int r = 0; r < R; ++r) {
      const bool found = s.row[0][r] == count[r];
      at->iterations[r] = ((live[r] > 0.0) & found) ? static_cast<double>(step) : at->iterations[r];
      live[r] = (found | !(s.row[0][r] > 0)) ? 0.0 : live[r];
    }
    if (!any<R>(live)) return;
  }
}

template <int R, class T>
LEEWARD_CLONES void solve_chi(const ShortRows<T>& in, double penalty, double radius, ShortAnswers* out) {
  ShortFrame<R> f;
  ShortSums<R, 2> moments;
  if (!frame_short<R>(in, &f, &moments)) return;
  alignas(64) double lam[R], live[R], bound[R];
  for (int r = 0; r < R; ++r) lam[r] = bound[r] = 0.0;
  if (penalty >= 0) penalties_of<R>(&f, penalty, 0x1p-200, 0x1p200, lam);
  for (int r = 0; r < R; ++r) live[r] = f.fit[r];
  ChiPairs<R> at{};
  if (radius >= 0) {
    for (int r = 0; r < R; ++r) at.lam[r] = 0.0;
    find_sets<R>(f, moments, RadiusForm<R>{radius}, live, &at);
    LEEWARD_LANES
    for (int r = 0; r < R; ++r) {
      f.fit[r] = at.iterations[r] > 0.0 ? f.fit[r] : 0.0;
      bound[r] = at.lam[r] > lam[r] ? 1.0 : 0.0;
      live[r] = bound[r] > 0.0 ? 0.0 : f.fit[r];
    }
  }
  if (any<R>(live)) {
    ChiPairs<R> free{};
    for (int r = 0; r < R; ++r) free.lam[r] = lam[r];
    find_sets<R>(f, moments, PenaltyForm<R>{}, live, &free);
    LEEWARD_LANES
    for (int r = 0; r < R; ++r) {
      at.eta[r] = bound[r] > 0.0 ? at.eta[r] : free.eta[r];
      at.lam[r] = bound[r] > 0.0 ? at.lam[r] : free.lam[r];
      at.iterations[r] = bound[r] > 0.0 ? at.iterations[r] : free.iterations[r];
      f.fit[r] = at.iterations[r] > 0.0 ? f.fit[r] : 0.0;
    }
  }
  alignas(64) double inverse[R], ratios[R * kRoom<R>];
  for (int r = 0; r < R; ++r) inverse[r] = 1.0 / at.lam[r];
  ShortSums<R, 3> v;
  v.start(f.padded);
  for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
    LEEWARD_LANES
    for (int k = 0; k < kTogether<R>; ++k) {
      const double x = f.x[i + k], s = (x - of_row<R>(at.eta, k)) * of_row<R>(inverse, k);
      const double t = f.base(i, k) * (s > -1.0 ? s : -1.0);  // r - 1
      const double r = 1.0 + t;
      ratios[i + k] = r;
      v.add(0, i, k, t);
      v.add(1, i, k, t * t);
      v.add(2, i, k, f.base(i, k) * (r * x));
    }
  }
  v.fold(f.padded);
  ShortSolved<R> a;
  alignas(64) double sums[kShortSums][R];
  LEEWARD_LANES
  for (int r = 0; r < R; ++r) {
    const double t = v.row[0][r], square = v.row[1][r], price = bound[r] > 0.0 ? at.lam[r] - lam[r] : 0.0;
    sums[0][r] = f.size + t;
    sums[1][r] = (f.size + t) + (t + square);
    sums[2][r] = v.row[2][r];
    sums[3][r] = t + 0.5 * square;
    sums[4][r] = 0.5 * square;
    a.eta[r] = at.eta[r];
    a.lam[r] = at.lam[r];
    a.price[r] = lam[r];
    a.bonus[r] = bound[r] > 0.0 ? price * radius : 0.0;
    a.multiplier[r] = radius < 0 ? lam[r] : price;
    a.iterations[r] = at.iterations[r] + 2;
  }
  finish_short<R>(f, a, ratios, sums, in, out);
}

}  // namespace

template <class T>
void short_chi_square(const ShortRows<T>& in, double penalty, double radius, ShortAnswers* out) {
  if (radius >= 0 && !(radius > 1e-30)) return;
  if (in.rows == 1)
    solve_chi<1>(in, penalty, radius, out);
  else
    solve_chi<kSide>(in, penalty, radius, out);
}

template void short_chi_square(const ShortRows<float>&, double, double, ShortAnswers*);
template void short_chi_square(const ShortRows<double>&, double, double, ShortAnswers*);

}  // namespace leeward
