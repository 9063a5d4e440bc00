// The two ends: the mean and the worst loss.
#include "leeward/risk/factories.hpp"
#include "leeward/risk/penalty.hpp"

namespace leeward {
namespace {

class MeanRisk final : public FramedRisk<MeanRisk> {
 public:
  double idle_multiplier() const { return 0; }
  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    const double mean = mean_place(f, use);
    return finish(f, Solved{.value = mean, .eta = mean, .norm = 1.0 / f.total, .iterations = 1}, Unit{}, weights, use);
  }
};

class WorstRisk final : public FramedRisk<WorstRisk> {
 public:
  double idle_multiplier() const { return 0; }
  template <class T>
  RiskSolution run(const Frame<T>& f, T* weights, Resources& use) const {
    double mass = 1;
    if (weights != nullptr) sum_over(f, TopMass{}, use, &mass);
    return finish(f, Solved{.norm = 1.0 / mass, .iterations = 1}, OnTop{}, weights, use);
  }
};

}  // namespace

RiskPointer make_mean() { return std::make_shared<MeanRisk>(); }
RiskPointer make_worst() { return std::make_shared<WorstRisk>(); }

}  // namespace leeward
