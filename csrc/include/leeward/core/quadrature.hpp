// Integrals of several functions at once by Gauss-Legendre rules of 16 points on panels that are halved until the halves
// agree with the whole. The points of a rule are the 16 lanes.
//
// f(s, y) writes y[c][l] = f_c(s[l]) for the N functions c and the points l of a rule. A panel is accepted when its halves agree
// with it to `relative` times max(least[c], |first estimate of integral c|) for each checked c; for a smooth f the halves are
// then better by about 2^-32 than that. Panels and their order follow from f alone. NaN is accepted as it is.
#pragma once

#include "leeward/core/lanes.hpp"

namespace leeward {

inline constexpr double kRuleNode[kLanes] = {
    -0.9894009349916499, -0.9445750230732326, -0.8656312023878318,  -0.755404408355003,  -0.6178762444026438, -0.45801677765722737,
    -0.2816035507792589, -0.09501250983763744, 0.09501250983763744, 0.2816035507792589,  0.45801677765722737, 0.6178762444026438,
    0.755404408355003,   0.8656312023878318,   0.9445750230732326,  0.9894009349916499};
inline constexpr double kRuleWeight[kLanes] = {
    0.027152459411754096, 0.062253523938647894, 0.09515851168249279, 0.12462897125553388, 0.14959598881657674, 0.16915651939500254,
    0.18260341504492358,  0.1894506104550685,   0.1894506104550685,  0.18260341504492358, 0.16915651939500254, 0.14959598881657674,
    0.12462897125553388,  0.09515851168249279,  0.062253523938647894, 0.027152459411754096};

template <int N>
struct Integrals {
  double of[N] = {};
  LEEWARD_INLINE void add(const Integrals& other) {
    for (int c = 0; c < N; ++c) of[c] += other.of[c];
  }
};

template <int N, class F>
LEEWARD_INLINE Integrals<N> gauss(const F& f, double a, double b) {
  alignas(64) double s[kLanes], y[N][kLanes];
  const double centre = 0.5 * (a + b), half = 0.5 * (b - a);
  LEEWARD_LANES
  for (int l = 0; l < kLanes; ++l) s[l] = centre + half * kRuleNode[l];
  f(s, y);
  Integrals<N> sum;
  for (int c = 0; c < N; ++c) {
    Lanes part;
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) part.lane[l] = y[c][l] * kRuleWeight[l];
    sum.of[c] = half * part.fold();
  }
  return sum;
}

inline constexpr int kMostEnds = 64;

// Ascending ends of the first panels; others than finite numbers inside (first, last) are dropped.
struct PanelEnds {
  double at[kMostEnds];
  int count = 0;
  PanelEnds(double first, double last) {
    at[0] = first;
    at[1] = last;
    count = 2;
  }
  void split(double s) {
    if (!(s > at[0] && s < at[count - 1]) || count == kMostEnds) return;
    int i = count++;
    for (; at[i - 1] > s; --i) at[i] = at[i - 1];
    at[i] = s;
  }
};

// Panels that were accepted, in order: for integrals of nearly the same functions without checks.
struct AcceptedPanels {
  static constexpr int kMost = 256;
  double first[kMost], last[kMost];
  int count = 0;
  LEEWARD_INLINE void add(double a, double b) {
    if (count < kMost) {
      first[count] = a;
      last[count] = b;
    }
    ++count;
  }
  bool complete() const { return count > 0 && count <= kMost; }
};

template <int N, class F>
LEEWARD_INLINE Integrals<N> integrate_over(const F& f, const AcceptedPanels& panels) {
  Integrals<N> total;
  for (int i = 0; i < panels.count; ++i) total.add(gauss<N>(f, panels.first[i], panels.last[i]));
  return total;
}

template <int N, int Checked, class F>
LEEWARD_INLINE Integrals<N> integrate(const F& f, const PanelEnds& ends, double relative, const double* least,
                                      AcceptedPanels* accepted = nullptr) {
  constexpr int kDeepest = 48, kMostPanels = 4000;
  struct Panel {
    double a, b;
    int depth;
    Integrals<N> whole;
  };
  Panel stack[kMostEnds + kDeepest + 2];
  Integrals<N> total;
  int top = 0, done = 0;
  for (int i = ends.count - 1; i > 0; --i) {  // the leftmost is taken first
    if (!(ends.at[i] > ends.at[i - 1])) continue;
    stack[top] = {ends.at[i - 1], ends.at[i], 0, gauss<N>(f, ends.at[i - 1], ends.at[i])};
    total.add(stack[top++].whole);
  }
  double tolerance[Checked];
  for (int c = 0; c < Checked; ++c) {
    const double size = total.of[c] < 0.0 ? -total.of[c] : total.of[c];
    tolerance[c] = relative * (size > least[c] ? size : least[c]);
  }
  total = {};
  while (top > 0) {
    const Panel p = stack[--top];
    const double middle = 0.5 * (p.a + p.b);
    Integrals<N> half[2];
    for (int side = 0; side < 2; ++side) half[side] = gauss<N>(f, side == 0 ? p.a : middle, side == 0 ? middle : p.b);
    bool rough = false;
    for (int c = 0; c < Checked; ++c) {
      const double change = half[0].of[c] + half[1].of[c] - p.whole.of[c];
      rough = rough || change > tolerance[c] || -change > tolerance[c];
    }
    if (rough && p.depth < kDeepest && ++done < kMostPanels) {
      stack[top++] = {middle, p.b, p.depth + 1, half[1]};
      stack[top++] = {p.a, middle, p.depth + 1, half[0]};
    } else {
      total.add(half[0]);
      total.add(half[1]);
      if (accepted != nullptr) {
        accepted->add(p.a, middle);
        accepted->add(middle, p.b);
      }
    }
  }
  return total;
}

}  // namespace leeward
