// Profiles under KL. The mean of exp(phi / T) is taken over the parts of the line where exp(phi / T - s^2 / 2) is not below
// e^-42 of its largest value: one or two intervals around the outermost maxima.
#include <cmath>

#include "leeward/risk/gaussian_profile.hpp"

namespace leeward {
namespace {

constexpr double kDrop = 42.0;            // exponents this far below the largest are left out
constexpr double kLaplace = 1e12;         // from here on T log E exp is the largest exponent's to 1e-10
constexpr double kPrecision = 1e-11;      // of a panel's halves against the whole
constexpr double kRounding = 1e-15;       // of values of the loss, below which differences are not looked at
constexpr double kRootTwoPi = 2.5066282746310002;

// exp(phi / T - s^2 / 2 - shift) and its products with phi' and phi' s.
template <class Loss>
struct ScaledNodes {
  Shape<Loss> f;
  double m, t, inverse, shift;
  LEEWARD_INLINE void operator()(const double* s, double (*out)[kLanes]) const {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double z = m + t * s[l];
      const double w = hd::exp(f.value(z) * inverse - 0.5 * (s[l] * s[l]) - shift);
      const double g = w * f.slope(z);
      out[0][l] = w;
      out[1][l] = g;
      out[2][l] = g * s[l];
    }
  }
};

// The same with exp((phi - phi(m)) / T) - 1 in place of exp(phi / T), for small exponents; the Gaussian's mass is not integrated.
template <class Loss>
struct SmallNodes {
  Shape<Loss> f;
  double m, t, inverse, start;
  LEEWARD_INLINE void operator()(const double* s, double (*out)[kLanes]) const {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double z = m + t * s[l];
      const double e = hd::expm1((f.value(z) - start) * inverse);
      const double w = hd::exp(-0.5 * (s[l] * s[l])) * (1.0 / kRootTwoPi);
      const double g = (w + w * e) * f.slope(z);
      out[0][l] = w * e;
      out[1][l] = g;
      out[2][l] = g * s[l];
    }
  }
};

template <class Loss>
struct Exponent {
  Shape<Loss> f;
  double m, t, inverse;
  LEEWARD_INLINE double operator()(double s) const { return f.value(m + t * s) * inverse - 0.5 * s * s; }
};

// The end of the window on one side of a maximum: where the exponent is below `floor`, but not past `wall`.
template <class Loss>
LEEWARD_INLINE double window_end(const Exponent<Loss>& h, double from, double sign, double floor, double wall) {
  double width = 9.2;
  for (int i = 0; i < 400 && h(from + sign * width) > floor; ++i) width *= 1.3;
  const double end = from + sign * width;
  return sign * (end - wall) > 0.0 ? wall : end;
}

template <class Loss>
LEEWARD_INLINE void one(const Shape<Loss>& f, const KlScale& scale, double m, double& value, double& slope, double& spread) {
  const double T = scale.T, t = scale.t, inverse = 1.0 / T, steepness = t / T;
  if (!(t > 0.0)) {
    value = f.value(m);
    slope = f.slope(m);
    spread = 0.0;
    return;
  }
  double low = steepness * f.lowest, high = steepness * f.highest;
  if (f.lowest == -hd::real::kInf) {  // squared hinge: the maximum of a parabola below its kink, else at 0
    if (!(t * t < T)) {
      value = hd::real::kInf;
      slope = spread = hd::real::kNaN;
      return;
    }
    low = high = m < 1.0 ? -t * (1.0 - m) / (T - t * t) : 0.0;
  } else {
    low = outer_mode(f, m, t, steepness, low, true);
    high = outer_mode(f, m, t, steepness, high, false);
  }
  const Exponent<Loss> h{f, m, t, inverse};
  const double at_low = h(low), at_high = h(high), top = at_low > at_high ? at_low : at_high;
  if (!(top < kLaplace)) {
    const double s = at_low > at_high ? low : high;
    value = f.value(m + t * s) - 0.5 * T * (s * s);
    slope = f.slope(m + t * s);
    spread = scale.rho * (slope * s);
    return;
  }
  const double floor = top - kDrop;
  const double start = window_end(h, low, -1.0, floor, -hd::real::kInf);
  const double end = window_end(h, high, 1.0, floor, hd::real::kInf);
  const double middle = 0.5 * (low + high);
  const double low_end = window_end(h, low, 1.0, floor, middle), high_start = window_end(h, high, -1.0, floor, middle);
  const bool apart = low_end < middle && high_start > middle;
  PanelEnds first(start, apart ? low_end : end), second(high_start, end);
  for (const double s : {low - 4.6, low, low + 4.6, high - 4.6, high, high + 4.6, (f.kink[0] - m) / t, (f.kink[1] - m) / t}) {
    first.split(s);
    second.split(s);
  }
  const double steepest = std::max(std::abs(f.slope(m + t * start)), std::abs(f.slope(m + t * end)));
  const double reach = std::max(std::abs(start), std::abs(end));
  if (steepness * steepest * reach < 1.0) {
    const double here = f.value(m), rounding = kRounding * std::abs(here) * inverse / kPrecision;  // of phi - phi(m)
    const double least[3] = {std::max(1e-3 * steepness * steepest, rounding), steepest, steepest};
    const Integrals<3> sum = integrate<3, 3>(SmallNodes<Loss>{f, m, t, inverse, here}, first, kPrecision, least);
    const double mass = 1.0 + sum.of[0];
    value = here + T * hd::log1p(sum.of[0]);
    slope = sum.of[1] / mass;
    spread = scale.rho * (sum.of[2] / mass);
    return;
  }
  const double least[3] = {1.0, steepest, steepest};
  const ScaledNodes<Loss> nodes{f, m, t, inverse, top};
  Integrals<3> sum{};
  if (!apart || at_low >= floor) sum.add(integrate<3, 3>(nodes, first, kPrecision, least));
  if (apart && at_high >= floor) sum.add(integrate<3, 3>(nodes, second, kPrecision, least));
  value = T * (top + hd::log(sum.of[0] * (1.0 / kRootTwoPi)));
  slope = sum.of[1] / sum.of[0];
  spread = scale.rho * (sum.of[2] / sum.of[0]);
}

template <class Loss>
LEEWARD_INLINE void lanes(const Shape<Loss>& f, const KlScale& scale, const double* m, Profile& out) {
  for (int l = 0; l < kLanes; ++l) one(f, scale, m[l], out.value[l], out.slope[l], out.spread[l]);
}

// m^2 T / (2 (T - t^2)) - (T / 2) log(1 - t^2 / T), infinite from t^2 = T on.
LEEWARD_INLINE void squared_lanes(const KlScale& scale, const double* m, Profile& out) {
  const double T = scale.T, t = scale.t, room = T - t * t;
  const double share = T / room, rest = -0.5 * T * hd::log1p(-(t * t) / T);
  LEEWARD_LANES
  for (int l = 0; l < kLanes; ++l) {
    out.value[l] = room > 0.0 ? 0.5 * (m[l] * m[l]) * share + rest : hd::real::kInf;
    out.slope[l] = room > 0.0 ? m[l] * share : hd::real::kNaN;
    out.spread[l] = room > 0.0 ? scale.rho * (t * share) * (m[l] * m[l] / room + 1.0) : hd::real::kNaN;
  }
}

}  // namespace

LEEWARD_CLONES void kl_profile(const Shape<hd::LogisticLoss>& f, const KlScale& scale, const double* m, Profile& out) {
  lanes(f, scale, m, out);
}
LEEWARD_CLONES void kl_profile(const Shape<hd::MarginLoss>& f, const KlScale& scale, const double* m, Profile& out) {
  lanes(f, scale, m, out);
}
LEEWARD_CLONES void kl_profile(const Shape<hd::ResidualLoss>& f, const KlScale& scale, const double* m, Profile& out) {
  if (f.highest == hd::real::kInf)
    squared_lanes(scale, m, out);
  else
    lanes(f, scale, m, out);
}

}  // namespace leeward
