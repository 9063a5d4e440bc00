#include "leeward/risk/dual_form.hpp"

#include <cmath>

#include "leeward/hd/divergence.hpp"

namespace leeward {
namespace {

// f(t) = 0 on [0, 1/alpha], else infinite: f*(s) = s_+/alpha.
struct CvarElement {
  double cap;
  hd::Element operator()(double s) const {
    const double r = s > 0.0 ? cap : 0.0;
    return {r, r - 1.0, 0.0, s > 0.0 ? cap * s : 0.0};
  }
};

template <class Divergence>
DualMeans means_of(const Divergence& f, const double* losses, std::int64_t n, double eta, double lam, double* weights) {
  DualMeans means;
  const double share = 1.0 / static_cast<double>(n);
  for (std::int64_t k = 0; k < n; ++k) {
    const double s = (losses[k] - eta) / lam;
    const hd::Element e = f(s);
    weights[k] = e.ratio * share;
    means.ratio += weights[k];
    means.conjugate += e.conjugate * share;
    means.paired += e.ratio > 0.0 ? s * weights[k] : 0.0;
  }
  return means;
}

}  // namespace

DualMeans dual_means(const DualForm& form, const double* losses, std::int64_t n, double eta, double lam, double* weights) {
  const double p = form.parameter;
  switch (form.kind) {
    case DualKind::kl:
      return means_of(hd::KLDivergence{}, losses, n, eta, lam, weights);
    case DualKind::chi_square:
      return means_of(hd::ChiSquareDivergence{}, losses, n, eta, lam, weights);
    case DualKind::kl_cvar:
      return means_of(hd::CappedKLDivergence{1.0 / p, -std::log(p)}, losses, n, eta, lam, weights);
    case DualKind::smoothed_cvar:
      return means_of(hd::SmoothedCVaRDivergence::make(p, [](double x) { return std::log(x); }), losses, n, eta, lam, weights);
    case DualKind::cressie_read:
      return means_of(hd::CressieReadDivergence{p, 1.0 / (p - 1.0)}, losses, n, eta, lam, weights);
    case DualKind::cvar:
      break;
  }
  return means_of(CvarElement{1.0 / p}, losses, n, eta, lam, weights);
}

}  // namespace leeward
