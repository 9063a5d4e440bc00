// KL(penalty) of short rows: with Z = mean exp(x_i / lam), eta = lam log Z and r_i = exp(x_i / lam) / Z. Both Z - 1 and Z are summed:
// the first keeps its digits where all exponentials are near 1, the second where nearly all vanish.
#include "leeward/hd/divergence.hpp"
#include "leeward/risk/short_frame.hpp"

namespace leeward {
namespace {

template <int R, class T>
LEEWARD_CLONES void solve_kl(const ShortRows<T>& in, double penalty, ShortAnswers* out) {
  ShortFrame<R> f;
  ShortSums<R, 2> z;
  if (!frame_short<R>(in, &f, &z)) return;
  alignas(64) double lam[R], tau[R], log_z[R], inverse_z[R], mean[R], excess[R];
  penalties_of<R>(&f, penalty, 0x1p-200, 0x1p200, lam);
  for (int r = 0; r < R; ++r) tau[r] = 1.0 / lam[r];
  alignas(64) double e[R * kRoom<R>], below[R * kRoom<R>];  // exp(tau x), and that less 1
  z.start(f.padded);
  for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
    LEEWARD_LANES
    for (int k = 0; k < kTogether<R>; ++k) {
      const hd::ExpPair pair = hd::exp_pair_below(of_row<R>(tau, k) * f.x[i + k]);
      e[i + k] = pair.exp;
      below[i + k] = pair.expm1;
      z.add(0, i, k, f.base(i, k) * pair.expm1);
      z.add(1, i, k, f.base(i, k) * pair.exp);
    }
  }
  z.fold(f.padded);
  ShortSolved<R> a;
  LEEWARD_LANES
  for (int r = 0; r < R; ++r) {
    excess[r] = z.row[0][r] / f.size;
    mean[r] = z.row[1][r] / f.size;
    log_z[r] = excess[r] > -0.5 ? hd::log1p(excess[r]) : hd::log(mean[r]);
    inverse_z[r] = 1.0 / mean[r];
    a.eta[r] = lam[r] * log_z[r];
    a.lam[r] = a.price[r] = a.multiplier[r] = lam[r];
    a.bonus[r] = 0.0;
    a.iterations[r] = 2;
  }
  ShortSums<R, 4> v;  // sum r, sum r^2, sum r x, sum f(r)
  v.start(f.padded);
  for (std::int64_t i = 0; i < f.padded; i += kTogether<R>) {
    LEEWARD_LANES
    for (int k = 0; k < kTogether<R>; ++k) {
      const double x = f.x[i + k], b = f.base(i, k), by = of_row<R>(inverse_z, k);
      const double r = e[i + k] * by;
      const double over = of_row<R>(excess, k) > -0.5 ? below[i + k] - of_row<R>(excess, k) : e[i + k] - of_row<R>(mean, k);
      const double q = b * r;
      e[i + k] = r;
      v.add(0, i, k, q);
      v.add(1, i, k, q * r);
      v.add(2, i, k, q * x);
      v.add(3, i, k, b * (r * (of_row<R>(tau, k) * x - of_row<R>(log_z, k)) - over * by));
    }
  }
  v.fold(f.padded);
  alignas(64) double sums[kShortSums][R];
  for (int r = 0; r < R; ++r) {
    sums[0][r] = v.row[0][r];
    sums[1][r] = v.row[1][r];
    sums[2][r] = v.row[2][r];
    sums[3][r] = 0.0;  // f*(s) = r - 1
    sums[4][r] = v.row[3][r];
  }
  finish_short<R>(f, a, e, sums, in, out);
}

}  // namespace

template <class T>
void short_kl(const ShortRows<T>& in, double penalty, ShortAnswers* out) {
  if (in.rows == 1)
    solve_kl<1>(in, penalty, out);
  else
    solve_kl<kSide>(in, penalty, out);
}

template void short_kl(const ShortRows<float>&, double, ShortAnswers*);
template void short_kl(const ShortRows<double>&, double, ShortAnswers*);

}  // namespace leeward
