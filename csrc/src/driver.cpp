#include "leeward/descent/driver.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace leeward {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t kMostTurns = 1024;

// When to look at the clock and the monitor: after so many turns that it costs nothing and comes about every half millisecond.
class Pace {
 public:
  // Whether to look now; `now` is then the time.
  bool due(Clock::time_point& now) {
    if (--left_ > 0) return false;
    now = Clock::now();
    const auto gap = now - last_;
    last_ = now;
    if (gap < std::chrono::microseconds(250)) every_ = std::min(2 * every_, kMostTurns);
    if (gap > std::chrono::microseconds(1000)) every_ = std::max<std::int64_t>(every_ / 4, 1);
    left_ = every_;
    return true;
  }
  void skip(std::int64_t turns) { left_ -= turns; }

 private:
  Clock::time_point last_ = Clock::now();
  std::int64_t every_ = 1, left_ = 1;
};

}  // namespace

Descent::Descent(std::shared_ptr<Estimator> estimator, std::unique_ptr<Update> update, Domain domain, DescentSettings settings)
    : estimator_(std::move(estimator)),
      update_(std::move(update)),
      domain_(std::move(domain)),
      settings_(std::move(settings)),
      average_(settings_.averaging, update_->iterate(), update_->dim()),
      output_(settings_.output, update_->dim(), settings_.seed),
      direction_(static_cast<std::size_t>(update_->dim())) {
  if (estimator_->dim() != update_->dim()) throw std::invalid_argument("descent: estimator and start differ in length");
  if (settings_.penalised < 0 || settings_.penalised > update_->dim())
    throw std::invalid_argument("descent: penalised must be at most the length of w");
  if (!settings_.metric.empty()) {
    if (settings_.metric.size() != direction_.size()) throw std::invalid_argument("descent: metric has the wrong length");
    if (!domain_.separable()) throw std::invalid_argument("descent: this domain allows no metric");
  }
}

const double* Descent::answer() const {
  if (average_.active()) return average_.mean().data();
  const double* const chosen = output_.point();
  return chosen != nullptr ? chosen : update_->iterate();
}

bool Descent::advance(std::int64_t steps, double seconds, Resources& use, std::int64_t evaluations) {
  const auto begin = Clock::now();
  const std::int64_t last = t_ + steps;
  const auto total = [this] { return std::max(done_.losses, done_.gradients); };
  const std::int64_t before = total();
  const auto spent = [&] { return total() - before; };
  Clock::time_point now;
  Pace pace;
  use.poll();
  while (t_ < last) {
    const std::int64_t from = t_;
    const bool fine = inner_loop_ != nullptr ? stretch(last - t_, evaluations - spent(), use) : step(use);
    if (!fine) return false;
    if (spent() >= evaluations) break;
    pace.skip(t_ - from - 1);
    if (!pace.due(now)) continue;
    if (std::chrono::duration<double>(now - begin).count() >= seconds) break;
    if (t_ < last) use.poll();
  }
  return true;
}

void Descent::charge(const Estimate& e, std::int64_t steps) {
  done_.losses += e.losses;
  done_.gradients += e.gradients;
  done_.samples += e.samples;
  done_.steps += steps;
}

bool Descent::step(Resources& use) {
  double* const g = direction_.data();
  const std::int64_t t = t_ - origin_;
  const double* const w = update_->query(t);
  const Estimate e = estimator_->direction(w, static_cast<std::uint64_t>(t_), g, use);
  charge(e, e.finite ? 1 : 0);
  if (!e.finite) return false;
  const double step = settings_.schedule.at(t);
  output_.offer(w, step * e.before);
  if (settings_.l2 != 0.0)
    for (std::int64_t j = 0; j < settings_.penalised; ++j) g[j] += settings_.l2 * w[j];
  const double* const metric = settings_.metric.empty() ? nullptr : settings_.metric.data();
  update_->move({.direction = g, .step = step * e.scale, .t = t, .metric = metric, .domain = &domain_});
  ++t_;
  average_.add(update_->iterate(), t + 1);
  output_.offer(update_->iterate(), step * e.after);
  return true;
}

bool Descent::stretch(std::int64_t most, std::int64_t evaluations, Resources& use) {
  const double step = settings_.schedule.at(t_ - origin_);
  const Estimate start = inner_loop_->begin(update_->iterate(), use);
  charge(start, 0);
  output_.offer(update_->iterate(), step * start.before);
  const StretchDone made = inner_loop_->run({.w = update_->state().data(),
                                             .first = static_cast<std::uint64_t>(t_),
                                             .most = most,
                                             .evaluations = evaluations - start.gradients,
                                             .step = step,
                                             .metric = settings_.metric.empty() ? nullptr : settings_.metric.data(),
                                             .l2 = settings_.l2,
                                             .penalised = settings_.penalised,
                                             .domain = &domain_},
                                            use);
  charge(made.estimate, made.steps);
  t_ += made.steps;
  if (!made.estimate.finite) return false;
  output_.offer(update_->iterate(), step * made.estimate.after);
  return true;
}

}  // namespace leeward
