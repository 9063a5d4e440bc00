// Spectral risks: R = sum over the sorted losses of (Phi(c_j) - Phi(c_(j-1))) l_(j), c the cumulated base weights and Phi the
// integral of a non-decreasing spectrum on [0, 1]. Ties share their increment in proportion to the base weights.
//
// With a penalty lam the risk is max sum q l - lam KL(q|p) over the same weights: q_i = p_i exp((l_i - v_i) / lam), where v is
// constant on blocks of the sorted losses and does not decrease, v_B = lam log(sum_B p e^(l / lam) / w_B), w_B the block's increment
// of Phi; pooling adjacent violators finds the blocks, and R = sum w_B v_B. (Blondel, Teboul, Berthet and Djolonga, 2020.)
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "leeward/core/watched.hpp"
#include "leeward/hd/real_math.hpp"
#include "leeward/risk/factories.hpp"
#include "leeward/risk/passes.hpp"
#include "leeward/risk/penalty.hpp"
#include "leeward/risk/short_spectral.hpp"

namespace leeward {
namespace {

// Piecewise constant spectrum on m equal cells: Phi interpolates the cumulated weights.
struct StepSpectrum {
  std::vector<double> cumulated;  // m + 1 values from 0 to 1
  double operator()(double u) const {
    const auto cells = static_cast<double>(cumulated.size() - 1);
    const double at = u * cells;
    auto cell = static_cast<std::size_t>(at);
    if (cell >= cumulated.size() - 1) return 1.0;
    const double part = at - static_cast<double>(cell);
    return cumulated[cell] + part * (cumulated[cell + 1] - cumulated[cell]);
  }
};

// The mean of the greatest of `draws` independent losses: Phi(u) = u^draws.
struct Extremile {
  double draws;
  double operator()(double u) const { return u > 0 ? hd::exp(draws * hd::log(u)) : 0.0; }
};

// Spectrum proportional to exp(rate u): Phi(u) = (e^(rate u) - 1) / (e^rate - 1), here with negative exponents only.
struct ExponentialSpectrum {
  double rate;
  double operator()(double u) const {
    return hd::exp(rate * (u - 1.0)) * (hd::expm1(-rate * u) / hd::expm1(-rate));
  }
};

// All the moved mass on the maximum: Phi(u) = (u - radius)_+ below 1, the spectrum of total variation.
struct MovedMass {
  double radius;
  double operator()(double u) const { return u > radius ? u - radius : 0.0; }
};

// A block of sorted samples [first, last) that share v: sum of b e^((x - place) / lam), x at most place, and its increment of Phi.
struct Pool {
  double place, sum, increment, v;
  std::int64_t first, last;
};

template <class Spectrum>
class SpectralRisk final : public FramedRisk<SpectralRisk<Spectrum>> {
 public:
  SpectralRisk(Spectrum spectrum, double penalty) : spectrum_(std::move(spectrum)), penalty_(penalty) {}
  double idle_multiplier() const { return penalty_ > 0 ? penalty_ : 0; }

  template <class T>
  void run_short(const ShortRows<T>& rows, ShortAnswers* out) const {
    ladders_.with(spectrum_, rows.size, [&](const Ladder& ladder) { short_spectral(rows, ladder, penalty_ > 0 ? penalty_ : 0.0, out); });
  }
  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    const Workspace::Scope scope(use.workspace);
    Entry* e = use.workspace.template take<Entry>(f.size);
    if (f.base == nullptr)
      read<T, false>(f, e, use);
    else
      read<T, true>(f, e, use);
    const auto before = [](const Entry& a, const Entry& b) { return a.place < b.place || (a.place == b.place && a.index < b.index); };
    watched_sort(e, e + f.size, before, use);
    return penalty_ > 0 ? pool(f, e, weights, use) : integrate(f, e, weights, use);
  }

 private:
  struct Entry {
    double place, weight;
    std::int64_t index;
  };

  template <class T, bool Weighted>
  static void read(const Frame<T>& f, Entry* e, const Resources& use) {
    const auto in = reader_at<T, Weighted>(f, 0);
    for (std::int64_t i = 0; i < f.size; ++i) {
      if (i % kBlock == 0) use.glance();
      e[i] = {in.place(i), in.weight(i), i};
    }
  }

  template <class T>
  RiskSolution integrate(const Frame<T>& f, const Entry* e, T* weights, const Resources& use) const;
  template <class T>
  RiskSolution pool(const Frame<T>& f, const Entry* e, T* weights, Resources& use) const;

  Spectrum spectrum_;
  double penalty_;
  mutable Ladders ladders_;
};

template <class Spectrum>
template <class T>
RiskSolution SpectralRisk<Spectrum>::integrate(const Frame<T>& f, const Entry* e, T* weights,
                                               const Resources& use) const {
  const std::int64_t n = f.size;
  double mass = 0, phi = 0, primal = 0, squares = 0, dual = 0, place = e[0].place, total = 0;
  std::int64_t looked = 0;
  for (std::int64_t i = 0; i < n;) {
    if (i - looked >= kBlock) {
      use.glance();
      looked = i;
    }
    std::int64_t j = i;
    double group = 0;
    for (; j < n && e[j].place == e[i].place; ++j) group += e[j].weight;
    dual += (1.0 - phi) * (e[i].place - place);  // by parts: sum of (1 - Phi) over the steps between sorted losses
    place = e[i].place;
    mass += group;
    const double reached = j == n ? 1.0 : std::min(1.0, std::max(phi, spectrum_(mass / f.total)));
    const double share = group > 0 ? (reached - phi) / group : 0.0;
    for (std::int64_t k = i; k < j; ++k) {
      const double q = share * e[k].weight;
      if (weights != nullptr) weights[e[k].index] = static_cast<T>(q);
      total += q;
      squares += q * q;
      primal += q * e[k].place;
    }
    phi = reached;
    i = j;
  }
  const double value = e[0].place + dual;
  RiskSolution out = in_loss_units(f, Solved{.value = value, .eta = value, .iterations = 1});
  if (weights == nullptr) return out;
  out.gap = f.from_scaled(value - primal / total);
  out.effective_sample_size = total * total / squares;
  return out;
}

template <class Spectrum>
template <class T>
RiskSolution SpectralRisk<Spectrum>::pool(const Frame<T>& f, const Entry* e, T* weights, Resources& use) const {
  const double lam = scaled_penalty(f, penalty_, 0x1p-64);
  const std::int64_t n = f.size;
  Pool* pools = use.workspace.template take<Pool>(n);
  std::int64_t count = 0;
  double mass = 0, phi = 0;
  std::int64_t looked = 0;
  for (std::int64_t i = 0; i < n;) {
    if (i - looked >= kBlock) {
      use.glance();
      looked = i;
    }
    std::int64_t j = i;
    double group = 0;
    for (; j < n && e[j].place == e[i].place; ++j) group += e[j].weight;
    mass += group;
    const double reached = mass >= f.total || j == n ? 1.0 : std::min(1.0, std::max(phi, spectrum_(mass / f.total)));
    if (group > 0) {
      Pool next{e[i].place, group / f.total, reached - phi, 0, i, j};
      phi = reached;
      for (;;) {
        // No increment yet: v is infinite, and the pool joins whatever comes next.
        next.v = next.increment > 0 ? next.place + lam * hd::log(next.sum / next.increment) : std::numeric_limits<double>::infinity();
        if (count == 0 || pools[count - 1].v < next.v) break;
        const Pool& below = pools[--count];
        next.sum += below.sum * hd::exp((below.place - next.place) / lam);
        next.increment += below.increment;
        next.first = below.first;
      }
      pools[count++] = next;
    }
    i = j;
  }
  double value = 0, total = 0, squares = 0, primal = 0, divergence = 0;
  if (weights != nullptr)
    for (std::int64_t i = 0; i < n; ++i) weights[e[i].index] = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const Pool& at = pools[k];
    value += at.increment * at.v;
    if (weights == nullptr) continue;
    for (std::int64_t i = at.first; i < at.last; ++i) {
      if (i % kBlock == 0) use.glance();
      const double b = e[i].weight / f.total, s = (e[i].place - at.v) / lam;
      // As a share of the pool, so that an extreme v costs no digits of the sum.
      const double q = b * hd::exp((e[i].place - at.place) / lam) * (at.increment / at.sum);
      weights[e[i].index] = static_cast<T>(q);
      total += q;
      squares += q * q;
      primal += q * e[i].place;
      divergence += q > 0 ? q * s - q + b : b;
    }
  }
  RiskSolution out = in_loss_units(f, Solved{.value = value, .eta = value, .multiplier = lam, .iterations = 1});
  if (weights == nullptr) return out;
  out.gap = f.from_scaled(value - (primal / total - lam * divergence));
  out.effective_sample_size = total * total / squares;
  return out;
}

template <class Spectrum>
RiskPointer make_spectral(Spectrum spectrum, double penalty) {
  return std::make_shared<SpectralRisk<Spectrum>>(std::move(spectrum), penalty);
}

}  // namespace

RiskPointer make_step_spectrum(std::vector<double> weights, double penalty) {
  double top = weights.back(), total = 0;
  for (double& w : weights) total += w /= top;
  std::vector<double> cumulated(weights.size() + 1, 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) cumulated[i + 1] = (sum += weights[i]) / total;
  cumulated.back() = 1.0;
  return make_spectral(StepSpectrum{std::move(cumulated)}, penalty);
}
RiskPointer make_extremile(double draws, double penalty) { return make_spectral(Extremile{draws}, penalty); }
RiskPointer make_exponential_spectrum(double rate, double penalty) { return make_spectral(ExponentialSpectrum{rate}, penalty); }
RiskPointer make_smoothed_total_variation(double radius, double penalty) { return make_spectral(MovedMass{radius}, penalty); }

}  // namespace leeward
