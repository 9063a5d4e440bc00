#include "leeward/risk/softmax_smoothing.hpp"

#include <cmath>
#include <stdexcept>

namespace leeward {
namespace {

constexpr double kLargestBeta = 1e10;
constexpr double kNothing = 34.0;      // exponents this far below the largest are left out
constexpr double kNegligible = 1e-15;  // share of a centre in the sums
constexpr std::int64_t kMostBlocks = 128;

// Scratch of one sample: losses, class probabilities, and with shifts those of x / T and exponents.
struct Scratch {
  double *loss, *pi, *cold, *exponent, *r;
};

// turn_k += p r_k a_k; sum_k r_k a_k is returned.
LEEWARD_CLONES double gather(const double* LEEWARD_RESTRICT a, const double* LEEWARD_RESTRICT r, double p, std::int64_t n,
                             double* LEEWARD_RESTRICT turn) {
  Lanes sum;
  for (std::int64_t k = 0; k < n; k += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double v = r[k + l] * a[k + l];
      sum.lane[l] += v;
      turn[k + l] += p * v;
    }
  }
  return sum.fold();
}
LEEWARD_CLONES void take(const double* LEEWARD_RESTRICT r, double p, std::int64_t n, double* LEEWARD_RESTRICT turn) {
  for (std::int64_t k = 0; k < n; k += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) turn[k + l] -= p * r[k + l];
  }
}

// a = (loss - start) / T; the largest |a| is returned.
LEEWARD_CLONES double scale_losses(const double* LEEWARD_RESTRICT loss, double start, double inverse, std::int64_t n,
                                   double* LEEWARD_RESTRICT a) {
  double most[kLanes] = {};
  for (std::int64_t k = 0; k < n; k += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double v = (loss[k + l] - start) * inverse;
      const double size = v < 0.0 ? -v : v;
      a[k + l] = v;
      most[l] = size > most[l] ? size : most[l];
    }
  }
  double all = 0.0;
  for (int l = 0; l < kLanes; ++l) all = most[l] > all ? most[l] : all;
  return all;
}

// r_k = p_k exp(a_k - top), and its sum; of small exponents sum_k p_k (exp(a_k) - 1).
LEEWARD_CLONES double exponentials(const double* LEEWARD_RESTRICT a, const double* LEEWARD_RESTRICT weight, double top,
                                   std::int64_t n, double* LEEWARD_RESTRICT r) {
  Lanes sum;
  for (std::int64_t k = 0; k < n; k += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double v = weight[k + l] * hd::exp(a[k + l] - top);
      r[k + l] = v;
      sum.lane[l] += v;
    }
  }
  return sum.fold();
}
LEEWARD_CLONES double small_exponentials(const double* LEEWARD_RESTRICT a, const double* LEEWARD_RESTRICT weight,
                                         std::int64_t n, double* LEEWARD_RESTRICT r) {
  Lanes sum;
  for (std::int64_t k = 0; k < n; k += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double e = weight[k + l] * hd::expm1(a[k + l]);
      r[k + l] = weight[k + l] + e;
      sum.lane[l] += e;
    }
  }
  return sum.fold();
}

double largest_of(const double* a, const double* weight, std::int64_t n) {
  double top = -hd::real::kInf;
  for (std::int64_t k = 0; k < n; ++k)
    if (weight[k] > 0.0 && a[k] > top) top = a[k];
  return top;
}

struct Root {
  double eta, value;  // eta / T and sum_k p_k F + eta / T
};

// sum_k p_k F'(a_k - b_k - eta) and the same of F''.
LEEWARD_CLONES NoisyConjugate::Balance balance_of(const ScoreNodes& nodes, const ConjugateTable::View& F,
                                                  const double* LEEWARD_RESTRICT a, double eta) {
  const double* const LEEWARD_RESTRICT weight = nodes.weight;
  const double* const LEEWARD_RESTRICT cost = nodes.cost;
  Lanes total, slope;
  for (std::int64_t k = 0; k < nodes.count; k += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const NoisyConjugate::Balance v = F.balance(a[k + l] - cost[k + l] - eta);
      total.lane[l] += weight[k + l] * v.ratio;
      slope.lane[l] += weight[k + l] * v.slope;
    }
  }
  return {total.fold(), slope.fold()};
}

// sum_k p_k F, and r_k = p_k F', divided by their sum.
LEEWARD_CLONES double densities(const ScoreNodes& nodes, const ConjugateTable::View& F, const double* LEEWARD_RESTRICT a,
                                double eta, double* LEEWARD_RESTRICT r) {
  const double* const LEEWARD_RESTRICT weight = nodes.weight;
  const double* const LEEWARD_RESTRICT cost = nodes.cost;
  Lanes total, value;
  for (std::int64_t k = 0; k < nodes.count; k += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) {
      const double x = a[k + l] - cost[k + l] - eta;
      const double v = weight[k + l] * F.balance(x).ratio;
      r[k + l] = v;
      total.lane[l] += v;
      value.lane[l] += weight[k + l] * F.conjugate(x);
    }
  }
  const double inverse = 1.0 / total.fold();
  for (std::int64_t k = 0; k < nodes.count; k += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) r[k + l] *= inverse;
  }
  return value.fold();
}

// eta by safeguarded Newton steps from `eta`; r_k becomes p_k F', divided by its sum.
Root solve_eta(const ScoreNodes& nodes, const ConjugateTable::View& F, const double* a, double eta, double noise,
               double* r) {
  EtaSearch search;
  for (int i = 0; i < 200; ++i) {
    const NoisyConjugate::Balance v = balance_of(nodes, F, a, eta);
    const double excess = v.ratio - 1.0;
    if (!(std::abs(excess) > noise)) break;
    if (!search.move(excess, v.slope, &eta)) break;
  }
  return {eta, densities(nodes, F, a, eta, r) + eta};
}

// What all samples share.
struct Common {
  const ScoreNodes& nodes;
  MoveExponentials moves;
  double T, inverse;
  const ConjugateTable::View* conjugate;  // null under KL
  Root none;                              // eta without a loss
  const double* lean;                     // how eta follows small losses: d eta / d a_k there
};

LEEWARD_CLONES void exponentials_of(const double* LEEWARD_RESTRICT x, double scale, std::int64_t n,
                                    double* LEEWARD_RESTRICT out) {
  for (std::int64_t k = 0; k < n; k += kLanes) {
    LEEWARD_LANES
    for (int l = 0; l < kLanes; ++l) out[k + l] = hd::exp(x[k + l] * scale);
  }
}

MoveExponentials exponentials_of(const ScoreNodes& nodes, double inverse, Workspace& workspace) {
  const bool shifted = nodes.shift != nullptr;
  const std::int64_t n = nodes.classes * nodes.count;
  double largest = 0.0;
  for (std::int64_t j = 0; j < n; ++j) largest = std::max(largest, std::abs(nodes.move[j]));
  if (nodes.classes > kMostClasses || !(largest * (shifted ? std::max(1.0, inverse) : 1.0) <= kLargestMove))
    return {nullptr, nullptr};
  double* const hot = workspace.take<double>(n);
  double* const cold = shifted ? workspace.take<double>(n) : nullptr;
  exponentials_of(nodes.move, 1.0, n, hot);
  if (shifted) exponentials_of(nodes.move, inverse, n, cold);
  return {hot, cold};
}

// One sample: its value, slope (C,), and what it adds to the sums.
void plain_sample(const Common& all, const double* base, std::int64_t y, double p, const Scratch& s, double* value,
                  double* slope, double* turn) {
  const ScoreNodes& nodes = all.nodes;
  const std::int64_t C = nodes.classes, K = nodes.count;
  plain_visit(nodes, all.moves, {base, y}, s.loss, s.pi);
  double top = 0.0, total = 0.0;
  for (std::int64_t c = 0; c < C; ++c) top = base[c] > top ? base[c] : top;
  for (std::int64_t c = 0; c < C; ++c) total += hd::exp(base[c] - top);
  const double start = top + hd::log(total);
  double* const a = s.loss;
  const double largest = scale_losses(s.loss, start, all.inverse, K, a);
  if (all.conjugate != nullptr) {
    double eta = all.none.eta;
    for (std::int64_t k = 0; k < K; ++k) eta += all.lean[k] * a[k];
    const double noise = std::max(2e-14, std::min(0.1, 4e-16 * (start + largest * all.T) * all.inverse));
    *value = start + all.T * (solve_eta(nodes, *all.conjugate, a, eta, noise, s.r).value - all.none.value);
  } else if (largest < 0.5) {
    const double more = small_exponentials(a, nodes.weight, K, s.r);
    const double inverse = 1.0 / (1.0 + more);
    for (std::int64_t k = 0; k < K; ++k) s.r[k] *= inverse;
    *value = start + all.T * hd::log1p(more);
  } else {
    const double peak = largest_of(a, nodes.weight, K);
    const double sum = exponentials(a, nodes.weight, peak, K, s.r), inverse = 1.0 / sum;
    for (std::int64_t k = 0; k < K; ++k) s.r[k] *= inverse;
    *value = start + all.T * (peak + hd::log(sum));
  }
  for (std::int64_t c = 0; c < C; ++c) slope[c] = gather(s.pi + c * K, s.r, p, K, turn + c * K);
  take(s.r, p, K, turn + y * K);
  slope[y] = 0.0;
  double others = 0.0;
  for (std::int64_t c = 0; c < C; ++c) others += slope[c];
  slope[y] = -others;
}

void shifted_sample(const Common& all, const double* base, std::int64_t y, double p, const Scratch& s, double* value,
                    double* slope, const SoftmaxValues& sums) {
  const ScoreNodes& nodes = all.nodes;
  const std::int64_t C = nodes.classes, K = nodes.count;
  const double spread = (all.inverse - 1.0) * hd::log(static_cast<double>(C));  // of log g, from 0
  const double least = std::min(0.0, spread), most = std::max(0.0, spread);
  double* const moved = s.cold;         // (C,)
  double* const heads = s.cold + C;     // (C,)
  double* const mass = s.cold + 2 * C;  // (C,)
  double sure = -hd::real::kInf, top = -hd::real::kInf;
  for (std::int64_t c = 0; c < C; ++c) {
    heads[c] = nodes.head[y * C + c] + base[c] * all.inverse;
    sure = std::max(sure, heads[c] + least);
  }
  const auto move_to = [&](std::int64_t c) {
    const double* const shift = nodes.shift + (y * C + c) * C;
    for (std::int64_t b = 0; b < C; ++b) moved[b] = base[b] + (shift[b] - shift[y]);
  };
  for (std::int64_t c = 0; c < C; ++c) {
    mass[c] = heads[c] + most > sure - kNothing ? 1.0 : 0.0;
    if (mass[c] == 0.0) continue;
    move_to(c);
    double* const e = s.exponent + c * K;
    shares_of(nodes, all.moves, {moved, y}, all.inverse, e);
    for (std::int64_t k = 0; k < K; ++k) e[k] += heads[c];
    top = std::max(top, largest_of(e, nodes.weight, K));
  }
  double total = 0.0;
  for (std::int64_t c = 0; c < C; ++c) {
    if (mass[c] == 0.0) continue;
    double* const e = s.exponent + c * K;
    mass[c] = exponentials(e, nodes.weight, top, K, s.loss);
    total += mass[c];
    for (std::int64_t k = 0; k < K; ++k) e[k] = s.loss[k];
  }
  *value = all.T * (top + hd::log(total));
  const double inverse = 1.0 / total;
  for (std::int64_t c = 0; c < C; ++c) slope[c] = 0.0;
  for (std::int64_t c = 0; c < C; ++c) {
    mass[c] *= inverse;
    if (!(mass[c] > kNegligible)) continue;
    double* const r = s.exponent + c * K;
    for (std::int64_t k = 0; k < K; ++k) r[k] *= inverse;
    move_to(c);
    cold_visit(nodes, all.moves, {moved, y}, all.inverse, s.loss, s.pi);
    double* const pull = sums.pull + (y * C + c) * C;
    for (std::int64_t b = 0; b < C; ++b) {
      const double v = gather(s.pi + b * K, r, p, K, sums.turn + b * K);
      slope[b] += v;
      pull[b] += p * v;
    }
    slope[c] += mass[c];
    slope[y] -= mass[c];
    sums.mass[y * C + c] += p * mass[c];
  }
}

}  // namespace

SoftmaxSmoothing::SoftmaxSmoothing(GaussianDivergence divergence, double alpha, double T, double beta, std::int64_t freedom,
                                   const Resources& use)
    : T_(T) {
  if (!(beta > 0.0 && std::isfinite(beta) && T > 0.0 && std::isfinite(T)))
    throw std::invalid_argument("lam * entropy and noise^2 / entropy must be positive and finite");
  if (divergence == GaussianDivergence::kl) return;
  if (beta > kLargestBeta)
    throw std::invalid_argument("noise^2 / entropy must be at most 1e10 for chi-square and the smoothed CVaR");
  const double least = divergence == GaussianDivergence::smoothed_cvar ? alpha : 0.0;
  conjugate_ = std::make_unique<const ConjugateTable>(least, NoisyConjugate(least, beta, freedom, use), freedom);
}

void SoftmaxSmoothing::evaluate(const ScoreNodes& nodes, const double* scores, const double* labels, const double* p,
                                std::int64_t n, SoftmaxValues out, Resources& use) const {
  const std::int64_t C = nodes.classes, K = nodes.count;
  const bool shifted = nodes.shift != nullptr;
  const std::int64_t row = std::max<std::int64_t>(16, (n + kMostBlocks - 1) / kMostBlocks);
  const std::int64_t blocks = block_count(n, row);
  const std::int64_t sums = C * K + (shifted ? C * C + C * C * C : 0);
  const std::int64_t scratch = 2 * K + C * K + 4 * C + (shifted ? C * K : 0);
  const Workspace::Scope scope(use.workspace);
  double* const partial = use.workspace.take<double>(blocks * sums);
  double* const space = use.workspace.take<double>(blocks * scratch);
  double* const lean = use.workspace.take<double>(K);
  const ConjugateTable::View table = conjugate_ != nullptr ? conjugate_->view() : ConjugateTable::View{};
  Common all{nodes,    exponentials_of(nodes, 1.0 / T_, use.workspace), T_,
             1.0 / T_, conjugate_ != nullptr ? &table : nullptr,        {0.0, 0.0},
             lean};
  if (conjugate_ != nullptr) {
    for (std::int64_t k = 0; k < K; ++k) space[k] = lean[k] = 0.0;
    all.none = solve_eta(nodes, table, space, 0.0, 1e-15, space + K);
    double total = 0.0;
    for (std::int64_t k = 0; k < K && nodes.weight[k] > 0.0; ++k) {
      lean[k] = nodes.weight[k] * table.balance(-nodes.cost[k] - all.none.eta).slope;
      total += lean[k];
    }
    for (std::int64_t k = 0; k < K; ++k) lean[k] = total > 0.0 ? lean[k] / total : 0.0;
  }
  parallel_blocks(blocks, use.threads, [&](std::int64_t b) {
    double* const at = space + b * scratch;
    double* const base = at + 2 * K + C * K;
    const Scratch s{at, at + 2 * K, base + C, base + 4 * C, at + K};
    double* const mine = partial + b * sums;
    for (std::int64_t j = 0; j < sums; ++j) mine[j] = 0.0;
    const SoftmaxValues own{nullptr, nullptr, mine, mine + C * K, mine + C * K + C * C};
    for (std::int64_t i = b * row; i < std::min(n, (b + 1) * row); ++i) {
      use.poll();
      const double* const z = scores + i * C;
      const auto y = static_cast<std::int64_t>(labels[i]);
      for (std::int64_t c = 0; c < C; ++c) base[c] = z[c] - z[y];
      if (shifted)
        shifted_sample(all, base, y, p[i], s, out.value + i, out.slope + i * C, own);
      else
        plain_sample(all, base, y, p[i], s, out.value + i, out.slope + i * C, own.turn);
    }
  });
  const auto gathered = [&](std::int64_t j) {
    return tree_sum(0, blocks, [&](std::int64_t b) { return partial[b * sums + j]; });
  };
  for (std::int64_t j = 0; j < C * K; ++j) out.turn[j] = gathered(j);
  if (!shifted) return;
  for (std::int64_t j = 0; j < C * C; ++j) out.mass[j] = gathered(C * K + j);
  for (std::int64_t j = 0; j < C * C * C; ++j) out.pull[j] = gathered(C * K + C * C + j);
}

}  // namespace leeward
