// Many steps of one coordinate at once: the m-fold iterate of  w <- prox(a w - c),  in closed form, where nothing but the
// dense part of a step (gradient term c, decay a = 1 - step l2, prox) acts on it.
//
//   no prox   w_m = a^m w - c (1 + a + ... + a^(m-1))
//   box       the clipped w_m: once outside, the recursion moves on outside (0 <= a <= 1, w inside at the start)
//   shrink    sign by sign; a sign changes at most once, after which it stays or w stays 0
//
// shrink(v, t) = sign(v) max(|v| - t, 0), followed by a division that is folded into a, c and t.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "leeward/hd/real_math.hpp"

namespace leeward {

// The prox of a step on each coefficient: clipping to [lower, upper], or that of l1 |w| + (l2/2) w^2.
struct CoordinateProx {
  enum Kind { none, box, shrink } kind = none;
  const double* lower = nullptr;
  const double* upper = nullptr;
  double l1 = 0, l2 = 0;
};

// sign(v) max(|v| - t, 0), t >= 0.
inline double shrink(double v, double t) { return std::max(v - t, 0.0) + std::min(v + t, 0.0); }

// a^m and 1 + a + ... + a^(m-1).
struct Power {
  double power, sum;
};

// Powers up to kMost, from two tables of 512: no cancellation, whatever a is.
class PowerTable {
 public:
  static constexpr std::int64_t kLow = 512, kMost = kLow * kLow - 1;

  // What loops read.
  struct View {
    const Power *low, *high;
    double a;
    double base() const { return a; }
    Power at(std::int64_t m) const {
      const auto k = static_cast<std::uint64_t>(m);
      const Power l = low[k % kLow], h = high[k / kLow];
      return {h.power * l.power, l.sum + l.power * h.sum};
    }
  };

  void set(double a) {
    if (a == a_ && !low_.empty()) return;
    a_ = a;
    fill(low_, a);
    fill(high_, low_.back().power * a);
    for (Power& p : high_) p.sum *= low_.back().sum + low_.back().power;
  }
  View view() const { return {low_.data(), high_.data(), a_}; }

 private:
  static void fill(std::vector<Power>& table, double a) {
    table.resize(static_cast<std::size_t>(kLow));
    Power p{1.0, 0.0};
    for (Power& entry : table) {
      entry = p;
      p.sum += p.power;
      p.power *= a;
    }
  }
  double a_ = 0;
  std::vector<Power> low_, high_;
};

// The same where each coordinate has an a of its own, given by 1 - a: a^m = exp(m log a).
struct OwnPower {
  double a = 1, log = 0, inverse = 0;  // inverse: 1 / (1 - a), 0 for a = 1

  static OwnPower of(double less_than_1) {
    return {1.0 - less_than_1, less_than_1 < 1.0 ? hd::log1p(-less_than_1) : 0.0,
            less_than_1 != 0.0 ? 1.0 / less_than_1 : 0.0};
  }
  double base() const { return a; }
  Power at(std::int64_t m) const {
    const auto steps = static_cast<double>(m);
    if (inverse == 0.0) return {1.0, steps};
    if (!(a > 0.0)) return by_squares(m);
    const double e = hd::expm1(steps * log);
    return {1.0 + e, -e * inverse};
  }

 private:
  // For a <= 0, where there is no logarithm; (1 - a^m) / (1 - a) is then free of cancellation.
  Power by_squares(std::int64_t m) const {
    double power = 1.0, factor = a;
    for (; m > 0; m /= 2) {
      if (m % 2 == 1) power *= factor;
      factor *= factor;
    }
    return {power, (1.0 - power) * inverse};
  }
};

// One coordinate's recursion w <- prox(a w - c); bounds for box, t for shrink.
struct LazyFree {
  double c;
  double step(double a, double w) const { return a * w - c; }
  template <class Powers>
  double advance(const Powers& powers, double w, std::int64_t m) const {
    const Power p = powers.at(m);
    return p.power * w - c * p.sum;
  }
};

struct LazyBox {
  double c, lower, upper;
  double step(double a, double w) const { return std::min(std::max(a * w - c, lower), upper); }
  template <class Powers>
  double advance(const Powers& powers, double w, std::int64_t m) const {
    const double a = powers.base();
    w = step(a, w);  // inside from here on
    if (!(a >= 0.0)) {
      for (std::int64_t k = 1; k < m; ++k) w = step(a, w);
      return w;
    }
    const Power p = powers.at(m - 1);
    return std::min(std::max(p.power * w - c * p.sum, lower), upper);
  }
};

struct LazyShrink {
  double c, t;
  double step(double a, double w) const { return shrink(a * w - c, t); }
  template <class Powers>
  double advance(const Powers& powers, double w, std::int64_t m) const {
    const double a = powers.base();
    if (!(a > 0.0)) {
      for (std::int64_t k = 0; k < m; ++k) w = step(a, w);
      return w;
    }
    while (m > 0 && std::fabs(w) <= std::numeric_limits<double>::max()) {
      if (w == 0.0) {  // stays, or leaves for good with the sign of -c
        if (std::fabs(c) <= t) return 0.0;
        w = step(a, w);
        --m;
        continue;
      }
      const double sign = w > 0.0 ? 1.0 : -1.0;
      const double drift = c + sign * t;  // a w - drift as long as the sign lasts
      Power p = powers.at(m);
      const double there = p.power * w - drift * p.sum;
      if (sign * there > 0.0) return there;
      const std::int64_t k = lasts(powers, w, sign, drift, m);
      p = powers.at(k);
      w = step(a, p.power * w - drift * p.sum);  // the step that changes the sign
      m -= k + 1;
    }
    return w;
  }

 private:
  // The largest k < m for which k steps keep the sign; m steps do not.
  template <class Powers>
  static std::int64_t lasts(const Powers& powers, double w, double sign, double drift, std::int64_t m) {
    const auto keeps = [&](std::int64_t k) {
      const Power p = powers.at(k);
      return sign * (p.power * w - drift * p.sum) > 0.0;
    };
    std::int64_t low = 0, high = m;  // keeps(low), not keeps(high)
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (keeps(middle) ? low : high) = middle;
    }
    return low;
  }
};

}  // namespace leeward
