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

// Softmax of up to kGroup samples at a time, side by side in lanes: what SoftmaxLoss does for one, with the same bits. Rows
// with more than kWide classes are taken one by one.
constexpr int kGroup = 16, kWide = 64;

struct SoftmaxGroup {
  double z[kWide * kGroup];  // class c of sample l at z[c * kGroup + l]
  double y[kGroup], top[kGroup];
  int classes;

  LEEWARD_INLINE void load(const LossInputs& in, std::int64_t first) {
    const std::int64_t count = in.count - first;
    classes = static_cast<int>(in.outputs);
    for (int l = 0; l < kGroup; ++l) {
      const std::int64_t k = first + (l < count ? l : count - 1);
      y[l] = in.y[k];
      for (int c = 0; c < classes; ++c) z[c * kGroup + l] = in.z[k * in.outputs + c];
    }
    for (int l = 0; l < kGroup; ++l) top[l] = z[l];
    for (int c = 1; c < classes; ++c)
      for (int l = 0; l < kGroup; ++l) top[l] = z[c * kGroup + l] > top[l] ? z[c * kGroup + l] : top[l];
  }
  LEEWARD_INLINE void values(double* LEEWARD_RESTRICT out) const {
    double others[kGroup] = {}, counted[kGroup] = {}, own[kGroup] = {};
    for (int c = 0; c < classes; ++c)
      for (int l = 0; l < kGroup; ++l) {
        const double v = z[c * kGroup + l];
        const bool self = v == top[l] && counted[l] == 0.0;
        others[l] += self ? 0.0 : hd::exp(v - top[l]);
        counted[l] = self ? 1.0 : counted[l];
        own[l] = static_cast<double>(c) == y[l] ? v : own[l];
      }
    for (int l = 0; l < kGroup; ++l) out[l] = (top[l] - own[l]) + hd::log1p(others[l]);
  }
  // z becomes exp(z - top), total their sum.
  LEEWARD_INLINE void exponentials(double* LEEWARD_RESTRICT total) {
    for (int l = 0; l < kGroup; ++l) total[l] = 0.0;
    for (int c = 0; c < classes; ++c)
      for (int l = 0; l < kGroup; ++l) total[l] += z[c * kGroup + l] = hd::exp(z[c * kGroup + l] - top[l]);
  }
  // z becomes the slopes.
  LEEWARD_INLINE void slopes() {
    double total[kGroup], others[kGroup] = {};
    exponentials(total);
    for (int c = 0; c < classes; ++c)
      for (int l = 0; l < kGroup; ++l) {
        z[c * kGroup + l] /= total[l];
        others[l] += static_cast<double>(c) == y[l] ? 0.0 : z[c * kGroup + l];
      }
    for (int c = 0; c < classes; ++c)
      for (int l = 0; l < kGroup; ++l)
        z[c * kGroup + l] = static_cast<double>(c) == y[l] ? -others[l] : z[c * kGroup + l];
  }
  // z becomes the curvatures.
  LEEWARD_INLINE void curvatures() {
    double total[kGroup];
    exponentials(total);
    for (int c = 0; c < classes; ++c)
      for (int l = 0; l < kGroup; ++l) {
        const double e = z[c * kGroup + l];
        z[c * kGroup + l] = e / total[l] * ((total[l] - e) / total[l]);
      }
  }
  LEEWARD_INLINE void store(std::int64_t count, double* out) const {
    for (std::int64_t l = 0; l < count && l < kGroup; ++l)
      for (int c = 0; c < classes; ++c) out[l * classes + c] = z[c * kGroup + l];
  }
};

LEEWARD_CLONES void softmax_value(LossInputs in, double* out) {
  if (in.outputs > kWide) {
    const hd::SoftmaxLoss loss{in.outputs};
    for (std::int64_t k = 0; k < in.count; ++k) out[k] = loss.value(in.z + k * in.outputs, static_cast<std::int64_t>(in.y[k]));
    return;
  }
  SoftmaxGroup group;
  double value[kGroup];
  for (std::int64_t first = 0; first < in.count; first += kGroup) {
    group.load(in, first);
    group.values(value);
    for (std::int64_t l = 0; l < kGroup && first + l < in.count; ++l) out[first + l] = value[l];
  }
}
LEEWARD_CLONES void softmax_slope(LossInputs in, double* out) {
  if (in.outputs > kWide) {
    const hd::SoftmaxLoss loss{in.outputs};
    for (std::int64_t k = 0; k < in.count; ++k)
      loss.slopes(in.z + k * in.outputs, static_cast<std::int64_t>(in.y[k]), out + k * in.outputs);
    return;
  }
  SoftmaxGroup group;
  for (std::int64_t first = 0; first < in.count; first += kGroup) {
    group.load(in, first);
    group.slopes();
    group.store(in.count - first, out + first * in.outputs);
  }
}
LEEWARD_CLONES void softmax_curvature(LossInputs in, double* out) {
  if (in.outputs > kWide) {
    const hd::SoftmaxLoss loss{in.outputs};
    for (std::int64_t k = 0; k < in.count; ++k) loss.curvatures(in.z + k * in.outputs, out + k * in.outputs);
    return;
  }
  SoftmaxGroup group;
  for (std::int64_t first = 0; first < in.count; first += kGroup) {
    group.load(in, first);
    group.curvatures();
    group.store(in.count - first, out + first * in.outputs);
  }
}
LEEWARD_CLONES void softmax_conjugate(LossInputs in, double* out) {
  const hd::SoftmaxLoss loss{in.outputs};
  for (std::int64_t k = 0; k < in.count; ++k) out[k] = loss.conjugate(in.z + k * in.outputs, static_cast<std::int64_t>(in.y[k]));
}

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
  if (spec.kind == hd::LossKind::softmax) return softmax_value(in, out);
  with_scalar_loss(spec, [&](auto loss) { value(loss, in.z, in.y, in.count, out); });
}

void loss_values_and_slopes(const hd::LossSpec& spec, LossInputs in, double* values, double* slopes) {
  if (spec.kind == hd::LossKind::softmax) {
    softmax_value(in, values);
    softmax_slope(in, slopes);
    return;
  }
  with_scalar_loss(spec, [&](auto loss) { value_and_slope(loss, in.z, in.y, in.count, values, slopes); });
}

void loss_slopes(const hd::LossSpec& spec, LossInputs in, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_slope(in, out);
  with_scalar_loss(spec, [&](auto loss) { slope(loss, in.z, in.y, in.count, out); });
}

void weighted_slopes(const hd::LossSpec& spec, LossInputs in, const double* weights, double* out) {
  if (spec.kind == hd::LossKind::softmax) {
    softmax_slope(in, out);
    for (std::int64_t k = 0; k < in.count; ++k)
      for (std::int64_t c = 0; c < in.outputs; ++c) out[k * in.outputs + c] *= weights[k];
    return;
  }
  with_scalar_loss(spec, [&](auto loss) { weighted_slope(loss, in.z, in.y, weights, in.count, out); });
}

void loss_curvatures(const hd::LossSpec& spec, LossInputs in, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_curvature(in, out);
  with_scalar_loss(spec, [&](auto loss) { curvature(loss, in.z, in.y, in.count, out); });
}

void loss_conjugates(const hd::LossSpec& spec, LossInputs in, double* out) {
  if (spec.kind == hd::LossKind::softmax) return softmax_conjugate(in, out);
  with_scalar_loss(spec, [&](auto loss) { conjugate(loss, in.z, in.y, in.count, out); });
}

}  // namespace leeward
