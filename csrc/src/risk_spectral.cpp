// Spectral risks: R = sum over the sorted losses of (Phi(c_j) - Phi(c_(j-1))) l_(j), c the cumulated base weights and Phi the
// integral of a non-decreasing spectrum on [0, 1]. Ties share their increment in proportion to the base weights.
#include <algorithm>
#include <cmath>
#include <utility>

#include "leeward/hd/real_math.hpp"
#include "leeward/risk/factories.hpp"
#include "leeward/risk/passes.hpp"

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

template <class Spectrum>
class SpectralRisk final : public FramedRisk<SpectralRisk<Spectrum>> {
 public:
  explicit SpectralRisk(Spectrum spectrum) : spectrum_(std::move(spectrum)) {}
  double idle_multiplier() const { return 0; }

  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    const Workspace::Scope scope(use.workspace);
    Entry* e = use.workspace.template take<Entry>(f.size);
    if (f.base == nullptr)
      read<T, false>(f, e);
    else
      read<T, true>(f, e);
    std::sort(e, e + f.size, [](const Entry& a, const Entry& b) { return a.place < b.place || (a.place == b.place && a.index < b.index); });
    return integrate(f, e, weights);
  }

 private:
  struct Entry {
    double place, weight;
    std::int64_t index;
  };

  template <class T, bool Weighted>
  static void read(const Frame<T>& f, Entry* e) {
    const auto in = reader_at<T, Weighted>(f, 0);
    for (std::int64_t i = 0; i < f.size; ++i) e[i] = {in.place(i), in.weight(i), i};
  }

  template <class T>
  RiskSolution integrate(const Frame<T>& f, const Entry* e, T* weights) const;

  Spectrum spectrum_;
};

template <class Spectrum>
template <class T>
RiskSolution SpectralRisk<Spectrum>::integrate(const Frame<T>& f, const Entry* e, T* weights) const {
  const std::int64_t n = f.size;
  double mass = 0, phi = 0, primal = 0, squares = 0, dual = 0, place = e[0].place, total = 0;
  for (std::int64_t i = 0; i < n;) {
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

}  // namespace

RiskPointer make_step_spectrum(std::vector<double> weights) {
  double top = weights.back(), total = 0;
  for (double& w : weights) total += w /= top;
  std::vector<double> cumulated(weights.size() + 1, 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) cumulated[i + 1] = (sum += weights[i]) / total;
  cumulated.back() = 1.0;
  return std::make_shared<SpectralRisk<StepSpectrum>>(StepSpectrum{std::move(cumulated)});
}
RiskPointer make_extremile(double draws) { return std::make_shared<SpectralRisk<Extremile>>(Extremile{draws}); }
RiskPointer make_exponential_spectrum(double rate) {
  return std::make_shared<SpectralRisk<ExponentialSpectrum>>(ExponentialSpectrum{rate});
}

}  // namespace leeward
