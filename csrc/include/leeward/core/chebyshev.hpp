// Functions of one variable as tables: polynomials of degree 15 through 16 Chebyshev points on panels of an interval, halved
// until the last coefficients are small. N functions share the panels.
//
// fit(x, y) writes y[c][i] = f_c(x[i]) at 16 descending points, on any thread. small(tail, size, depth) says whether tails of the
// coefficients, |a_13| + |a_14| + |a_15|, are small enough beside the largest |f_c| on a
// panel that came from `depth` halvings. Panels follow from f alone.
#pragma once

#include <algorithm>
#include <vector>

#include "leeward/core/lanes.hpp"
#include "leeward/core/parallel.hpp"
#include "leeward/core/resources.hpp"

namespace leeward {

inline constexpr double kChebyshevPoint[kLanes] = {
    0.9951847266721969,  0.9569403357322088,   0.881921264348355,   0.773010453362737,   0.6343932841636455,  0.47139673682599764,
    0.2902846772544624,  0.0980171403295606,   -0.0980171403295606, -0.2902846772544624, -0.47139673682599764, -0.6343932841636455,
    -0.773010453362737,  -0.881921264348355,   -0.9569403357322088, -0.9951847266721969};

template <int N>
class ChebyshevTable {
 public:
  struct Panel {
    double centre, inverse_half;
    double coefficient[N][kLanes];
  };

  bool empty() const { return panels_.empty(); }
  std::int64_t size() const { return static_cast<std::int64_t>(panels_.size()); }

  // False, and an empty table, if more than `most` panels would have to be tried or one would become too narrow.
  template <class Fit, class Small>
  bool build(double first, double last, std::int64_t most, const Resources& use, const Fit& fit, const Small& small) {
    struct Tried {
      double a, b;
      bool fine;
      Panel panel;
    };
    panels_.clear();
    starts_.clear();
    std::vector<Tried> level{{first, last, false, {}}}, next, kept;
    int depth = 0;
    for (std::int64_t tried = 0; !level.empty(); level.swap(next), ++depth) {
      tried += static_cast<std::int64_t>(level.size());
      if (tried > most) return false;
      parallel_blocks(static_cast<std::int64_t>(level.size()), use.threads, [&](std::int64_t i) {
        use.poll();
        Tried& t = level[static_cast<std::size_t>(i)];
        t.fine = interpolate(t.a, t.b, depth, fit, small, t.panel);
      });
      next.clear();
      for (const Tried& t : level) {
        if (t.fine) {
          kept.push_back(t);
          continue;
        }
        const double middle = 0.5 * t.a + 0.5 * t.b;
        if (!(middle > t.a && middle < t.b)) return false;
        next.push_back({t.a, middle, false, {}});
        next.push_back({middle, t.b, false, {}});
      }
    }
    std::sort(kept.begin(), kept.end(), [](const Tried& a, const Tried& b) { return a.a < b.a; });
    for (const Tried& t : kept) {
      starts_.push_back(t.a);
      panels_.push_back(t.panel);
    }
    return true;
  }

  // The first `Wanted` functions at x in [first, last].
  template <int Wanted = N>
  LEEWARD_INLINE void at(double x, double* out) const {
    const double* const starts = starts_.data();
    std::size_t low = 0, count = starts_.size();
    while (count > 1) {  // the last panel that starts at or before x
      const std::size_t half = count / 2;
      low = starts[low + half] <= x ? low + half : low;
      count -= half;
    }
    const Panel& p = panels_[low];
    const double t = (x - p.centre) * p.inverse_half, twice = 2.0 * t;
    double b1[Wanted] = {}, b2[Wanted] = {};
    for (int j = kLanes - 1; j > 0; --j)
      for (int c = 0; c < Wanted; ++c) {
        const double b = (p.coefficient[c][j] - b2[c]) + twice * b1[c];
        b2[c] = b1[c];
        b1[c] = b;
      }
    for (int c = 0; c < Wanted; ++c) out[c] = (p.coefficient[c][0] - b2[c]) + t * b1[c];
  }

 private:
  template <class Fit, class Small>
  static bool interpolate(double a, double b, int depth, const Fit& fit, const Small& small, Panel& panel) {
    const double centre = 0.5 * a + 0.5 * b, half = 0.5 * b - 0.5 * a;
    double x[kLanes], y[N][kLanes], tail[N], size[N];
    for (int i = 0; i < kLanes; ++i) x[i] = centre + half * kChebyshevPoint[i];
    fit(x, y);
    panel.centre = centre;
    panel.inverse_half = half > 0.0 ? 1.0 / half : 0.0;
    double polynomial[kLanes][kLanes];  // T_j at the points
    for (int i = 0; i < kLanes; ++i) {
      polynomial[0][i] = 1.0;
      polynomial[1][i] = kChebyshevPoint[i];
    }
    for (int j = 2; j < kLanes; ++j)
      for (int i = 0; i < kLanes; ++i)
        polynomial[j][i] = 2.0 * kChebyshevPoint[i] * polynomial[j - 1][i] - polynomial[j - 2][i];
    for (int c = 0; c < N; ++c) {
      size[c] = 0.0;
      for (int i = 0; i < kLanes; ++i) size[c] = std::max(size[c], y[c][i] < 0.0 ? -y[c][i] : y[c][i]);
      for (int j = 0; j < kLanes; ++j) {
        Lanes part;
        for (int i = 0; i < kLanes; ++i) part.lane[i] = y[c][i] * polynomial[j][i];
        panel.coefficient[c][j] = part.fold() * (j == 0 ? 1.0 / kLanes : 2.0 / kLanes);
      }
      tail[c] = 0.0;
      for (int j = kLanes - 3; j < kLanes; ++j) {
        const double k = panel.coefficient[c][j];
        tail[c] += k < 0.0 ? -k : k;
      }
    }
    return small(tail, size, depth);
  }

  std::vector<double> starts_;
  std::vector<Panel> panels_;
};

}  // namespace leeward
