#include "leeward/oracle/loss_passes.hpp"

#include "leeward/core/simd.hpp"
#include "leeward/oracle/softmax_passes.hpp"

// One function for each loss and quantity, since a loop is cloned for the SIMD levels as a function.
#define LEEWARD_PASS(Loss, what)                                                                                  \
  LEEWARD_CLONES void what(hd::Loss loss, const double* LEEWARD_RESTRICT z, const double* LEEWARD_RESTRICT y,     \
                           std::int64_t count, double* LEEWARD_RESTRICT out) {                                    \
    for (std::int64_t k = 0; k < count; ++k) out[k] = loss.what(z[k], y[k]);                                      \
  }
#define LEEWARD_WEIGHTED_PASS(Loss)                                                                                 \
  LEEWARD_CLONES void weighted_slope(hd::Loss loss, const double* LEEWARD_RESTRICT z, const double* LEEWARD_RESTRICT y, \
                                     const double* LEEWARD_RESTRICT weights, std::int64_t count,                      \
                                     double* LEEWARD_RESTRICT out) {                                                  \
    for (std::int64_t k = 0; k < count; ++k) out[k] = weights[k] * loss.slope(z[k], y[k]);                            \
  }
#define LEEWARD_PAIR_PASS(Loss)                                                                                      \
  LEEWARD_CLONES void value_and_slope(hd::Loss loss, const double* LEEWARD_RESTRICT z, const double* LEEWARD_RESTRICT y, \
                                      std::int64_t count, double* LEEWARD_RESTRICT values,                               \
                                      double* LEEWARD_RESTRICT slopes) {                                                 \
    for (std::int64_t k = 0; k < count; ++k) {                                                                           \
      values[k] = loss.value(z[k], y[k]);                                                                                \
      slopes[k] = loss.slope(z[k], y[k]);                                                                                \
    }                                                                                                                    \
  }
#define LEEWARD_PASSES(Loss)     \
  LEEWARD_PAIR_PASS(Loss)        \
  LEEWARD_WEIGHTED_PASS(Loss)    \
  LEEWARD_PASS(Loss, value)      \
  LEEWARD_PASS(Loss, slope)      \
  LEEWARD_PASS(Loss, curvature)  \
  LEEWARD_PASS(Loss, conjugate)

namespace leeward {
namespace {

LEEWARD_PASSES(ResidualLoss)
LEEWARD_PASSES(MarginLoss)
LEEWARD_PASSES(LogisticLoss)
LEEWARD_PASSES(PoissonLoss)
LEEWARD_PASSES(SigmoidLoss)
LEEWARD_PASSES(CauchyLoss)
LEEWARD_PASSES(GemanMcClureLoss)
LEEWARD_PASSES(TukeyLoss)

// Calls f with the loss that `spec` describes; softmax is not among them.
template <class F>
void with_scalar_loss(const hd::LossSpec& spec, const F& f) {
  switch (spec.kind) {
    case hd::LossKind::logistic: f(hd::LogisticLoss{}); break;
    case hd::LossKind::poisson: f(hd::PoissonLoss{}); break;
    case hd::LossKind::sigmoid: f(hd::SigmoidLoss{}); break;
    case hd::LossKind::cauchy: f(hd::CauchyLoss{hd::Scaled::make(spec.parameter)}); break;
    case hd::LossKind::geman_mcclure: f(hd::GemanMcClureLoss{hd::Scaled::make(spec.parameter)}); break;
    case hd::LossKind::tukey: f(hd::TukeyLoss{hd::Scaled::make(spec.parameter)}); break;
    case hd::LossKind::hinge:
    case hd::LossKind::squared_hinge: f(hd::MarginLoss{hd::clipped_of(spec)}); break;
    default: f(hd::ResidualLoss{hd::clipped_of(spec)}); break;
  }
}

}  // namespace

void loss_values(const hd::LossSpec& spec, LossInputs in, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_values(in, out);
  with_scalar_loss(spec, [&](auto loss) { value(loss, in.z, in.y, in.count, out); });
}

void loss_values_and_slopes(const hd::LossSpec& spec, LossInputs in, double* values, double* slopes) {
  if (spec.kind == hd::LossKind::softmax) {
    softmax_values(in, values);
    softmax_slopes(in, nullptr, slopes);
    return;
  }
  with_scalar_loss(spec, [&](auto loss) { value_and_slope(loss, in.z, in.y, in.count, values, slopes); });
}

void loss_slopes(const hd::LossSpec& spec, LossInputs in, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_slopes(in, nullptr, out);
  with_scalar_loss(spec, [&](auto loss) { slope(loss, in.z, in.y, in.count, out); });
}

void weighted_slopes(const hd::LossSpec& spec, LossInputs in, const double* weights, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_slopes(in, weights, out);
  with_scalar_loss(spec, [&](auto loss) { weighted_slope(loss, in.z, in.y, weights, in.count, out); });
}

void loss_curvatures(const hd::LossSpec& spec, LossInputs in, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_curvatures(in, out);
  with_scalar_loss(spec, [&](auto loss) { curvature(loss, in.z, in.y, in.count, out); });
}

void loss_conjugates(const hd::LossSpec& spec, LossInputs in, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_conjugates(in, out);
  with_scalar_loss(spec, [&](auto loss) { conjugate(loss, in.z, in.y, in.count, out); });
}

}  // namespace leeward
