#include "leeward/estimator/penalty_search.hpp"

#include "leeward/risk/factories.hpp"

namespace leeward {
namespace {

std::shared_ptr<const Risk> penalised(double lam) { return make_chi_square(lam, -1.0); }

}  // namespace

PenaltySearch::PenaltySearch(std::shared_ptr<const Oracle> oracle, Population population, MlmcSettings levels,
                             PenaltySearchSettings settings)
    : estimate_(std::move(oracle), penalised(settings.lam.start), std::move(population), levels), settings_(settings) {
  settings_.lam.check("lam");
  if (!(settings_.lam.low > 0.0)) throw std::invalid_argument("lam must stay above 0");
  if (!(settings_.radius > 0.0)) throw std::invalid_argument("radius must be positive");
  state_ = {settings_.lam.start, 1.0};
}

Estimate PenaltySearch::direction(const double* w, std::uint64_t step, double* out, Resources& use) {
  const double lam = this->lam();
  estimate_.set_risk(penalised(lam));
  Estimate e = estimate_.direction(w, step, out, use);
  e.value += lam * settings_.radius;
  double fall = state_[1];
  if (settings_.decaying) fall /= std::sqrt(1.0 + static_cast<double>(step) / settings_.period);
  if (e.finite) state_[0] = settings_.lam.next(lam, settings_.radius - e.paid / lam, fall);
  return e;
}

}  // namespace leeward
