// KLCVaR and SmoothedCVaR of short rows: e_i = exp(x_i / lam) once, then the search is for the factor u = exp(-eta / lam) of
// a_i = e_i u, without further exponentials:
//   KLCVaR        sum min(a, cap) = n       Newton, exact on a fixed clipped set, from the left: the clipped sets grow to the answer
//   SmoothedCVaR  sum a / (1 - alpha + alpha a) = n       Halley's iteration, exact for a single such term
#include <cmath>

#include "leeward/risk/short_frame.hpp"

namespace leeward {
namespace {

// The range of penalties, in units of the range of the losses, where e_i neither vanishes nor is 1 to rounding.
constexpr double kLeastPenalty = 1.0 / 512, kMostPenalty = 8;
constexpr int kSteps = 40;

template <int R>
struct Tilt {
  alignas(64) double e[R * kRoom<R>];
  alignas(64) double inverse[R];  // 1 / lam
  ShortSums<R, 1> sum;
};

template <int R>
LEEWARD_INLINE void tilt(const ShortFrame<R>& f, const double* lam, Tilt<R>* t) {
  for (int r = 0; r < R; ++r) t->inverse[r] = 1.0 / lam[r];
  t->sum.start(f.padded);
  for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
    LEEWARD_LANES
    for (int k = 0; k < kTogether<R>; ++k) {
      const double e = hd::exp_pair(f.x[i + k] * of_row<R>(t->inverse, k)).exp;
      t->e[i + k] = e;
      t->sum.add(0, i, k, f.base(i, k) * e);
    }
  }
  t->sum.fold(f.padded);
}

// The factors and the numbers of passes, 0 where none was found.
template <int R>
struct Factors {
  alignas(64) double u[R];
  alignas(64) double iterations[R];
};

template <int R>
LEEWARD_INLINE void capped_factors(const ShortFrame<R>& f, const Tilt<R>& t, double cap, Factors<R>* out) {
  alignas(64) double clipped[R], live[R];
  ShortSums<R, 2> v;  // the number of clipped places, and the sum of e over the others
  for (int r = 0; r < R; ++r) {
    clipped[r] = out->u[r] = out->iterations[r] = 0.0;
    live[r] = f.fit[r];
    v.row[1][r] = t.sum.row[0][r];
  }
  for (int step = 1; step <= kSteps; ++step) {
    LEEWARD_LANES
    for (int r = 0; r < R; ++r) {
      const double rest = f.size - cap * clipped[r], free_sum = v.row[1][r];
      live[r] = ((rest > 1e-6 * f.size) & (free_sum > 0)) ? live[r] : 0.0;
      out->u[r] = live[r] > 0.0 ? rest / free_sum : out->u[r];
    }
    v.start(f.padded);
    for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
      LEEWARD_LANES
      for (int k = 0; k < kTogether<R>; ++k) {
        const double e = t.e[i + k], b = f.base(i, k);
        const bool over = e * of_row<R>(out->u, k) >= cap;
        v.add(0, i, k, over ? b : 0.0);
        v.add(1, i, k, over ? 0.0 : b * e);
      }
    }
    v.fold(f.padded);
    LEEWARD_LANES
    for (int r = 0; r < R; ++r) {
      const bool found = v.row[0][r] == clipped[r];
      out->iterations[r] = ((live[r] > 0.0) & found) ? static_cast<double>(step) : out->iterations[r];
      live[r] = found ? 0.0 : live[r];
      clipped[r] = v.row[0][r];
    }
    if (!any<R>(live)) return;
  }
}

template <int R>
LEEWARD_INLINE void logistic_factors(const ShortFrame<R>& f, const Tilt<R>& t, double alpha, Factors<R>* out) {
  constexpr double kNear = 1e-6;  // the miss from which one cubic step reaches rounding
  const double rest = 1.0 - alpha;
  // a / (rest + alpha a) <= min(a / rest, 1 / alpha), whose root stands to the left and costs no divisions.
  Factors<R> left;
  capped_factors<R>(f, t, 1.0 / alpha, &left);
  alignas(64) double live[R];
  for (int r = 0; r < R; ++r) {
    out->u[r] = left.iterations[r] > 0.0 ? rest * left.u[r] : rest * f.size / t.sum.row[0][r];
    out->iterations[r] = 0.0;
    live[r] = f.fit[r];
  }
  ShortSums<R, 3> v;
  for (int step = 1; step <= kSteps; ++step) {
    v.start(f.padded);
    for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
      LEEWARD_LANES
      for (int k = 0; k < kTogether<R>; ++k) {
        const double a = t.e[i + k] * of_row<R>(out->u, k);
        const double inverse = f.base(i, k) / (rest + alpha * a);
        const double r = a * inverse, w = r * (rest * inverse);
        v.add(0, i, k, r);
        v.add(1, i, k, w);
        v.add(2, i, k, w * r);
      }
    }
    v.fold(f.padded);
    // In units of u: first derivative v[1], second -2 alpha v[2].
    LEEWARD_LANES
    for (int r = 0; r < R; ++r) {
      const double miss = f.size - v.row[0][r], slope = v.row[1][r];
      const double bend = slope * slope - alpha * (miss * v.row[2][r]);
      double move = bend > 0.125 * (slope * slope) ? miss * slope / bend : miss / slope;
      move = move > -0.75 ? move : -0.75;
      const double u = out->u[r] + out->u[r] * move;
      out->u[r] = live[r] > 0.0 ? u : out->u[r];
      live[r] = u < 0x1p1000 ? live[r] : 0.0;
      const bool found = (live[r] > 0.0) & (miss <= kNear * f.size) & (miss >= -kNear * f.size);
      out->iterations[r] = found ? left.iterations[r] + static_cast<double>(step) : out->iterations[r];
      live[r] = found ? 0.0 : live[r];
    }
    if (!any<R>(live)) return;
  }
}

template <int R>
LEEWARD_INLINE void solved_by(const Factors<R>& found, const double* lam, ShortFrame<R>* f, ShortSolved<R>* a) {
  LEEWARD_LANES
  for (int r = 0; r < R; ++r) {
    f->fit[r] = found.iterations[r] > 0.0 ? f->fit[r] : 0.0;
    a->eta[r] = -lam[r] * hd::log(found.u[r]);
    a->lam[r] = a->price[r] = a->multiplier[r] = lam[r];
    a->bonus[r] = 0.0;
    a->iterations[r] = found.iterations[r] + 2;
  }
}

// Ratios in the place of e, and the sums that the answers take.
template <int R, class Element>
LEEWARD_INLINE void weigh(const ShortFrame<R>& f, const Factors<R>& found, const ShortSolved<R>& a, const Element& element, Tilt<R>* t,
                          ShortSums<R, kShortSums>* sums) {
  sums->start(f.padded);
  for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
    LEEWARD_LANES
    for (int k = 0; k < kTogether<R>; ++k) {
      const double x = f.x[i + k], b = f.base(i, k);
      const double s = (x - of_row<R>(a.eta, k)) * of_row<R>(t->inverse, k);
      double r, conjugate;
      element(t->e[i + k] * of_row<R>(found.u, k), s, &r, &conjugate);
      const double q = b * r;
      t->e[i + k] = r;
      sums->add(0, i, k, q);
      sums->add(1, i, k, q * r);
      sums->add(2, i, k, q * x);
      sums->add(3, i, k, b * conjugate);
      sums->add(4, i, k, b * (r * s - conjugate));
    }
  }
  sums->fold(f.padded);
}

struct CappedElement {
  double cap, log_cap;
  LEEWARD_INLINE void operator()(double a, double s, double* r, double* conjugate) const {
    const bool over = a >= cap;
    *r = over ? cap : a;
    *conjugate = over ? cap * (s - log_cap) + (cap - 1.0) : a - 1.0;
  }
};

struct LogisticElement {
  double alpha, rest, inverse_alpha;
  LEEWARD_INLINE void operator()(double a, double, double* r, double* conjugate) const {
    const double d = rest + alpha * a;
    *r = a / d;
    *conjugate = hd::log_of_power(alpha * (a - 1.0), d) * inverse_alpha;
  }
};

template <int R, class T>
LEEWARD_CLONES void solve_kl_cvar(const ShortRows<T>& in, double cap, double log_cap, double penalty, ShortAnswers* out) {
  ShortFrame<R> f;
  ShortSums<R, 2> moments;
  if (!frame_short<R>(in, &f, &moments)) return;
  alignas(64) double lam[R];
  penalties_of<R>(&f, penalty, kLeastPenalty, kMostPenalty, lam);
  if (!any<R>(f.fit)) return;
  Tilt<R> t;
  tilt<R>(f, lam, &t);
  Factors<R> found;
  capped_factors<R>(f, t, cap, &found);
  ShortSolved<R> a;
  solved_by<R>(found, lam, &f, &a);
  ShortSums<R, kShortSums> sums;
  weigh<R>(f, found, a, CappedElement{cap, log_cap}, &t, &sums);
  finish_short<R>(f, a, t.e, sums.row, in, out);
}

template <int R, class T>
LEEWARD_CLONES void solve_smoothed_cvar(const ShortRows<T>& in, double alpha, double penalty, ShortAnswers* out) {
  ShortFrame<R> f;
  ShortSums<R, 2> moments;
  if (!frame_short<R>(in, &f, &moments)) return;
  alignas(64) double lam[R];
  penalties_of<R>(&f, penalty, kLeastPenalty, kMostPenalty, lam);
  if (!any<R>(f.fit)) return;
  Tilt<R> t;
  tilt<R>(f, lam, &t);
  Factors<R> found;
  logistic_factors<R>(f, t, alpha, &found);
  ShortSolved<R> a;
  solved_by<R>(found, lam, &f, &a);
  ShortSums<R, kShortSums> sums;
  weigh<R>(f, found, a, LogisticElement{alpha, 1.0 - alpha, 1.0 / alpha}, &t, &sums);
  finish_short<R>(f, a, t.e, sums.row, in, out);
}

}  // namespace

template <class T>
void short_kl_cvar(const ShortRows<T>& in, const hd::CappedKLDivergence& divergence, double penalty, ShortAnswers* out) {
  if (in.rows == 1)
    solve_kl_cvar<1>(in, divergence.cap, divergence.log_cap, penalty, out);
  else
    solve_kl_cvar<kSide>(in, divergence.cap, divergence.log_cap, penalty, out);
}

template <class T>
void short_smoothed_cvar(const ShortRows<T>& in, const hd::SmoothedCVaRDivergence& divergence, double penalty, ShortAnswers* out) {
  if (in.rows == 1)
    solve_smoothed_cvar<1>(in, divergence.alpha, penalty, out);
  else
    solve_smoothed_cvar<kSide>(in, divergence.alpha, penalty, out);
}

template void short_kl_cvar(const ShortRows<float>&, const hd::CappedKLDivergence&, double, ShortAnswers*);
template void short_kl_cvar(const ShortRows<double>&, const hd::CappedKLDivergence&, double, ShortAnswers*);
template void short_smoothed_cvar(const ShortRows<float>&, const hd::SmoothedCVaRDivergence&, double, ShortAnswers*);
template void short_smoothed_cvar(const ShortRows<double>&, const hd::SmoothedCVaRDivergence&, double, ShortAnswers*);

}  // namespace leeward
