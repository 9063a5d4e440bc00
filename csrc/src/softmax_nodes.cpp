#include "leeward/risk/softmax_nodes.hpp"

#include "leeward/core/lanes.hpp"
#include "leeward/hd/real_math.hpp"

namespace leeward {
namespace {

// loss_k and pi (C, K); with Cold log g_k in the place of the loss (over T), and pi - pi(x / T) in that of pi.
template <bool Cold>
LEEWARD_INLINE void visit(const ScoreNodes& nodes, ScorePlace at, double inverse, double* LEEWARD_RESTRICT loss,
                          double* LEEWARD_RESTRICT pi) {
  const std::int64_t C = nodes.classes, K = nodes.count;
  const double* const own = nodes.move + at.y * K;
  for (std::int64_t k = 0; k < K; k += kLanes) {
    double top[kLanes], total[kLanes], cold[kLanes];
    for (int l = 0; l < kLanes; ++l) top[l] = total[l] = cold[l] = 0.0;
    for (std::int64_t c = 0; c < C; ++c) {
      const double* const move = nodes.move + c * K + k;
      double* const x = pi + c * K + k;
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) {
        x[l] = at.base[c] + (move[l] - own[k + l]);
        top[l] = x[l] > top[l] ? x[l] : top[l];
      }
    }
    if constexpr (Cold) {
      for (std::int64_t c = 0; c < C; ++c) {
        const double* const x = pi + c * K + k;
        LEEWARD_LANES
        for (int l = 0; l < kLanes; ++l) cold[l] += hd::exp((x[l] - top[l]) * inverse);
      }
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) cold[l] = 1.0 / cold[l];
    }
    for (std::int64_t c = 0; c < C; ++c) {
      double* const x = pi + c * K + k;
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) {
        const double e = hd::exp(x[l] - top[l]);
        total[l] += e;
        x[l] = Cold ? x[l] : e;
      }
    }
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double logarithm = hd::log(total[l]);
      loss[k + l] = Cold ? logarithm * inverse + hd::log(cold[l]) : top[l] + logarithm;
      total[l] = 1.0 / total[l];
    }
    for (std::int64_t c = 0; c < C; ++c) {
      double* const x = pi + c * K + k;
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) {
        if constexpr (Cold)
          x[l] = hd::exp(x[l] - top[l]) * total[l] - hd::exp((x[l] - top[l]) * inverse) * cold[l];
        else
          x[l] *= total[l];
      }
    }
  }
}

// The same by products: the largest of the scores is taken out of each sum.
struct Factors {
  double hot[kMostClasses], cold[kMostClasses], top;
};
LEEWARD_INLINE void factors_of(std::int64_t C, const double* base, double inverse, bool cold, Factors& f) {
  f.top = 0.0;
  for (std::int64_t c = 0; c < C; ++c) f.top = base[c] > f.top ? base[c] : f.top;
  for (std::int64_t c = 0; c < C; ++c) {
    f.hot[c] = hd::exp(base[c] - f.top);
    f.cold[c] = cold ? hd::exp((base[c] - f.top) * inverse) : 0.0;
  }
}

template <bool Cold>
LEEWARD_INLINE void product(const ScoreNodes& nodes, MoveExponentials of, ScorePlace at, double inverse,
                            double* LEEWARD_RESTRICT loss, double* LEEWARD_RESTRICT pi) {
  const std::int64_t C = nodes.classes, K = nodes.count;
  const double* const own = nodes.move + at.y * K;
  Factors f;
  factors_of(C, at.base, inverse, Cold, f);
  for (std::int64_t k = 0; k < K; k += kLanes) {
    double hot[kLanes], cold[kLanes];
    for (int l = 0; l < kLanes; ++l) hot[l] = cold[l] = 0.0;
    for (std::int64_t c = 0; c < C; ++c) {
      const double* const e = of.hot + c * K + k;
      double* const x = pi + c * K + k;
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) {
        x[l] = f.hot[c] * e[l];
        hot[l] += x[l];
      }
      if constexpr (Cold) {
        const double* const i = of.cold + c * K + k;
        LEEWARD_LANES
        for (int l = 0; l < kLanes; ++l) cold[l] += f.cold[c] * i[l];
      }
    }
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double logarithm = hd::log(hot[l]);
      loss[k + l] = Cold ? logarithm * inverse - hd::log(cold[l]) : (f.top - own[k + l]) + logarithm;
      hot[l] = 1.0 / hot[l];
      if constexpr (Cold) cold[l] = 1.0 / cold[l];
    }
    for (std::int64_t c = 0; c < C; ++c) {
      double* const x = pi + c * K + k;
      const double* const i = Cold ? of.cold + c * K + k : nullptr;
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) {
        if constexpr (Cold)
          x[l] = x[l] * hot[l] - f.cold[c] * i[l] * cold[l];
        else
          x[l] *= hot[l];
      }
    }
  }
}

LEEWARD_CLONES void plain_product(const ScoreNodes& nodes, MoveExponentials of, ScorePlace at, double* loss, double* pi) {
  product<false>(nodes, of, at, 1.0, loss, pi);
}
LEEWARD_CLONES void cold_product(const ScoreNodes& nodes, MoveExponentials of, ScorePlace at, double inverse, double* shares,
                                 double* pi) {
  product<true>(nodes, of, at, inverse, shares, pi);
}
LEEWARD_CLONES void shares_product(const ScoreNodes& nodes, MoveExponentials of, ScorePlace at, double inverse,
                                   double* LEEWARD_RESTRICT shares) {
  const std::int64_t C = nodes.classes, K = nodes.count;
  Factors f;
  factors_of(C, at.base, inverse, true, f);
  for (std::int64_t k = 0; k < K; k += kLanes) {
    double hot[kLanes], cold[kLanes];
    for (int l = 0; l < kLanes; ++l) hot[l] = cold[l] = 0.0;
    for (std::int64_t c = 0; c < C; ++c) {
      const double* const e = of.hot + c * K + k;
      const double* const i = of.cold + c * K + k;
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) {
        hot[l] += f.hot[c] * e[l];
        cold[l] += f.cold[c] * i[l];
      }
    }
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) shares[k + l] = hd::log(hot[l]) * inverse - hd::log(cold[l]);
  }
}

LEEWARD_CLONES void plain_direct(const ScoreNodes& nodes, ScorePlace at, double* loss, double* pi) {
  visit<false>(nodes, at, 1.0, loss, pi);
}
LEEWARD_CLONES void cold_direct(const ScoreNodes& nodes, ScorePlace at, double inverse, double* loss, double* pi) {
  visit<true>(nodes, at, inverse, loss, pi);
}

// log g_k alone: log(sum_c e^(x_c - top)) / T - log sum_c e^((x_c - top) / T).
LEEWARD_CLONES void shares_direct(const ScoreNodes& nodes, ScorePlace at, double inverse, double* LEEWARD_RESTRICT out) {
  const std::int64_t C = nodes.classes, K = nodes.count;
  const double* const own = nodes.move + at.y * K;
  for (std::int64_t k = 0; k < K; k += kLanes) {
    double top[kLanes], hot[kLanes], cold[kLanes];
    for (int l = 0; l < kLanes; ++l) top[l] = hot[l] = cold[l] = 0.0;
    for (std::int64_t c = 0; c < C; ++c) {
      const double* const move = nodes.move + c * K + k;
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) {
        const double x = at.base[c] + (move[l] - own[k + l]);
        top[l] = x > top[l] ? x : top[l];
      }
    }
    for (std::int64_t c = 0; c < C; ++c) {
      const double* const move = nodes.move + c * K + k;
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) {
        const double x = at.base[c] + (move[l] - own[k + l]) - top[l];
        hot[l] += hd::exp(x);
        cold[l] += hd::exp(x * inverse);
      }
    }
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) out[k + l] = hd::log(hot[l]) * inverse - hd::log(cold[l]);
  }
}

}  // namespace

void plain_visit(const ScoreNodes& nodes, MoveExponentials of, ScorePlace at, double* loss, double* pi) {
  of.hot != nullptr ? plain_product(nodes, of, at, loss, pi) : plain_direct(nodes, at, loss, pi);
}
void cold_visit(const ScoreNodes& nodes, MoveExponentials of, ScorePlace at, double inverse, double* shares, double* pi) {
  of.hot != nullptr ? cold_product(nodes, of, at, inverse, shares, pi) : cold_direct(nodes, at, inverse, shares, pi);
}
void shares_of(const ScoreNodes& nodes, MoveExponentials of, ScorePlace at, double inverse, double* shares) {
  of.hot != nullptr ? shares_product(nodes, of, at, inverse, shares) : shares_direct(nodes, at, inverse, shares);
}

}  // namespace leeward
