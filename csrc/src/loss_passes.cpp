#include "leeward/oracle/loss_passes.hpp"

#include "leeward/core/simd.hpp"

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
#define LEEWARD_PASSES(Loss)     \
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

LEEWARD_CLONES void softmax_value(hd::SoftmaxLoss loss, const double* z, const double* y, std::int64_t count, double* out) {
  for (std::int64_t k = 0; k < count; ++k) out[k] = loss.value(z + k * loss.classes, static_cast<std::int64_t>(y[k]));
}
LEEWARD_CLONES void softmax_slope(hd::SoftmaxLoss loss, const double* z, const double* y, std::int64_t count, double* out) {
  for (std::int64_t k = 0; k < count; ++k)
    loss.slopes(z + k * loss.classes, static_cast<std::int64_t>(y[k]), out + k * loss.classes);
}
LEEWARD_CLONES void softmax_curvature(hd::SoftmaxLoss loss, const double* z, std::int64_t count, double* out) {
  for (std::int64_t k = 0; k < count; ++k) loss.curvatures(z + k * loss.classes, out + k * loss.classes);
}
LEEWARD_CLONES void softmax_conjugate(hd::SoftmaxLoss loss, const double* s, const double* y, std::int64_t count,
                                      double* out) {
  for (std::int64_t k = 0; k < count; ++k) out[k] = loss.conjugate(s + k * loss.classes, static_cast<std::int64_t>(y[k]));
}

// Calls f with the loss that `spec` describes; softmax is not among them.
template <class F>
void with_scalar_loss(const hd::LossSpec& spec, const F& f) {
  switch (spec.kind) {
    case hd::LossKind::logistic: f(hd::LogisticLoss{}); break;
    case hd::LossKind::poisson: f(hd::PoissonLoss{}); break;
    case hd::LossKind::hinge:
    case hd::LossKind::squared_hinge: f(hd::MarginLoss{hd::clipped_of(spec)}); break;
    default: f(hd::ResidualLoss{hd::clipped_of(spec)}); break;
  }
}

}  // namespace

void loss_values(const hd::LossSpec& spec, LossInputs in, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_value({in.outputs}, in.z, in.y, in.count, out);
  with_scalar_loss(spec, [&](auto loss) { value(loss, in.z, in.y, in.count, out); });
}

void loss_slopes(const hd::LossSpec& spec, LossInputs in, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_slope({in.outputs}, in.z, in.y, in.count, out);
  with_scalar_loss(spec, [&](auto loss) { slope(loss, in.z, in.y, in.count, out); });
}

void weighted_slopes(const hd::LossSpec& spec, LossInputs in, const double* weights, double* out) {
  if (spec.kind == hd::LossKind::softmax) {
    softmax_slope({in.outputs}, in.z, in.y, in.count, out);
    for (std::int64_t k = 0; k < in.count; ++k)
      for (std::int64_t c = 0; c < in.outputs; ++c) out[k * in.outputs + c] *= weights[k];
    return;
  }
  with_scalar_loss(spec, [&](auto loss) { weighted_slope(loss, in.z, in.y, weights, in.count, out); });
}

void loss_curvatures(const hd::LossSpec& spec, LossInputs in, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_curvature({in.outputs}, in.z, in.count, out);
  with_scalar_loss(spec, [&](auto loss) { curvature(loss, in.z, in.y, in.count, out); });
}

void loss_conjugates(const hd::LossSpec& spec, LossInputs in, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_conjugate({in.outputs}, in.z, in.y, in.count, out);
  with_scalar_loss(spec, [&](auto loss) { conjugate(loss, in.z, in.y, in.count, out); });
}

}  // namespace leeward
