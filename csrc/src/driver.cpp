#include "leeward/descent/driver.hpp"

#include <chrono>
#include <stdexcept>

namespace leeward {

Descent::Descent(std::shared_ptr<Estimator> estimator, std::unique_ptr<Update> update, Domain domain, DescentSettings settings)
    : estimator_(std::move(estimator)),
      update_(std::move(update)),
      domain_(std::move(domain)),
      settings_(std::move(settings)),
      average_(settings_.averaging, update_->iterate(), update_->dim()),
      direction_(static_cast<std::size_t>(update_->dim())) {
  if (estimator_->dim() != update_->dim()) throw std::invalid_argument("descent: estimator and start differ in length");
  if (settings_.penalised < 0 || settings_.penalised > update_->dim())
    throw std::invalid_argument("descent: penalised must be at most the length of w");
  if (!settings_.metric.empty()) {
    if (settings_.metric.size() != direction_.size()) throw std::invalid_argument("descent: metric has the wrong length");
    if (!domain_.separable()) throw std::invalid_argument("descent: this domain allows no metric");
  }
}

bool Descent::advance(std::int64_t steps, double seconds, Resources& use) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const double* metric = settings_.metric.empty() ? nullptr : settings_.metric.data();
  double* g = direction_.data();
  for (std::int64_t i = 0; i < steps; ++i) {
    use.poll();
    const std::int64_t t = t_ - origin_;
    const double* w = update_->query(t);
    const Estimate e = estimator_->direction(w, static_cast<std::uint64_t>(t_), g, use);
    done_.losses += e.losses;
    done_.gradients += e.gradients;
    if (!e.finite) return false;
    if (settings_.l2 != 0.0)
      for (std::int64_t j = 0; j < settings_.penalised; ++j) g[j] += settings_.l2 * w[j];
    update_->move({.direction = g, .step = settings_.schedule.at(t), .t = t, .metric = metric, .domain = &domain_});
    ++t_;
    ++done_.steps;
    average_.add(update_->iterate(), t + 1);
    if (std::chrono::duration<double>(Clock::now() - begin).count() >= seconds) break;
  }
  return true;
}

}  // namespace leeward
