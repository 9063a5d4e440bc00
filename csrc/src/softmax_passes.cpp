// Softmax of few classes: kGroup samples side by side in lanes, what hd::SoftmaxLoss does for one, with the same bits. Of more than
// kWide classes: one sample after the other, class c in lane c mod kGroup, the lanes folded by halves; so its scores are read where
// they lie.
#include "leeward/oracle/softmax_passes.hpp"

#include <algorithm>

#include "leeward/core/lanes.hpp"
#include "leeward/core/simd.hpp"

namespace leeward {
namespace {

constexpr int kGroup = kLanes, kWide = 64;

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

LEEWARD_INLINE double largest(const Lanes& lanes) {
  double a[kGroup];
  for (int l = 0; l < kGroup; ++l) a[l] = lanes.lane[l];
  for (int width = kGroup / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) a[l] = a[l + width] > a[l] ? a[l + width] : a[l];
  return a[0];
}

// What is done with kGroup classes of a sample.
LEEWARD_INLINE void raise(const double* LEEWARD_RESTRICT z, Lanes& top) {
  LEEWARD_LANES
  for (int l = 0; l < kGroup; ++l) top.lane[l] = z[l] > top.lane[l] ? z[l] : top.lane[l];
}
// The largest scores are counted rather than added, so that 1 need not be taken from a sum that is near to it.
LEEWARD_INLINE void add_others(const double* LEEWARD_RESTRICT z, double top, Lanes& others, Lanes& largest) {
  LEEWARD_LANES
  for (int l = 0; l < kGroup; ++l) {
    const double below = z[l] == top ? 0.0 : 1.0;  // a factor: GCC would branch around the exponential and not vectorise
    others.lane[l] += below * hd::exp(z[l] - top);
    largest.lane[l] += 1.0 - below;
  }
}
LEEWARD_INLINE void exponentials(const double* LEEWARD_RESTRICT z, double top, double* LEEWARD_RESTRICT out, Lanes& total) {
  LEEWARD_LANES
  for (int l = 0; l < kGroup; ++l) {
    const double e = hd::exp(z[l] - top);
    out[l] = e;
    total.lane[l] += e;
  }
}
LEEWARD_INLINE void shares(double* LEEWARD_RESTRICT e, double inverse, double weight, Lanes& sum) {
  LEEWARD_LANES
  for (int l = 0; l < kGroup; ++l) {
    const double p = e[l] * inverse;
    sum.lane[l] += p;
    e[l] = weight * p;
  }
}
LEEWARD_INLINE void spreads(double* LEEWARD_RESTRICT e, double total, double inverse) {
  LEEWARD_LANES
  for (int l = 0; l < kGroup; ++l) e[l] = e[l] * inverse * ((total - e[l]) * inverse);
}
LEEWARD_INLINE void add_entropies(const double* LEEWARD_RESTRICT s, double own, Lanes& total, Lanes& entropy, Lanes& outside) {
  LEEWARD_LANES
  for (int l = 0; l < kGroup; ++l) {
    const double p = s[l] + (static_cast<double>(l) == own ? 1.0 : 0.0);
    outside.lane[l] += p < -hd::kDomainSlack ? 1.0 : 0.0;
    total.lane[l] += p;
    entropy.lane[l] += hd::entropy_term(p > 0.0 ? p : 0.0);
  }
}

// The classes of a sample by groups; those of the last, incomplete group are filled up.
struct WideRow {
  std::int64_t classes, whole;  // whole: the classes of full groups
  double rest[kGroup];

  LEEWARD_INLINE explicit WideRow(std::int64_t outputs) : classes(outputs), whole(outputs / kGroup * kGroup), rest{} {}
  LEEWARD_INLINE bool ragged() const { return whole < classes; }
  LEEWARD_INLINE void fill(const double* row, double with) {
    for (std::int64_t l = 0; l < kGroup; ++l) rest[l] = whole + l < classes ? row[whole + l] : with;
  }
  LEEWARD_INLINE void put_back(double* row) const {
    for (std::int64_t l = 0; whole + l < classes; ++l) row[whole + l] = rest[l];
  }
  // Leaves the last scores in `rest`, filled up with -infinity, whose exponential is 0.
  LEEWARD_INLINE double top(const double* z) {
    Lanes lanes;
    for (int l = 0; l < kGroup; ++l) lanes.lane[l] = z[l];
    for (std::int64_t c = kGroup; c < whole; c += kGroup) raise(z + c, lanes);
    fill(z, -hd::real::kInf);
    if (ragged()) raise(rest, lanes);
    return largest(lanes);
  }
  LEEWARD_INLINE double others(const double* z, double top) const {
    Lanes sum, same;
    for (std::int64_t c = 0; c < whole; c += kGroup) add_others(z + c, top, sum, same);
    if (ragged()) add_others(rest, top, sum, same);
    return sum.fold() + (same.fold() - 1.0);
  }
  // out becomes exp(z - top); their sum.
  LEEWARD_INLINE double exponents(const double* z, double* out) {
    const double largest = top(z);
    Lanes total;
    for (std::int64_t c = 0; c < whole; c += kGroup) exponentials(z + c, largest, out + c, total);
    if (ragged()) {
      double e[kGroup];
      exponentials(rest, largest, e, total);
      for (int l = 0; l < kGroup; ++l) rest[l] = e[l];
      put_back(out);
    }
    return total.fold();
  }
  LEEWARD_INLINE void slopes(const double* z, std::int64_t y, double weight, double* out) {
    const double inverse = 1.0 / exponents(z, out);
    out[y] = 0.0;  // the label's slope is minus the sum of the others, accurate near 0 as well
    Lanes sum;
    for (std::int64_t c = 0; c < whole; c += kGroup) shares(out + c, inverse, weight, sum);
    if (ragged()) {
      fill(out, 0.0);
      shares(rest, inverse, weight, sum);
      put_back(out);
    }
    out[y] = -(weight * sum.fold());
  }
  LEEWARD_INLINE void curvatures(const double* z, double* out) {
    const double total = exponents(z, out), inverse = 1.0 / total;
    for (std::int64_t c = 0; c < whole; c += kGroup) spreads(out + c, total, inverse);
    if (ragged()) {
      spreads(rest, total, inverse);
      put_back(out);
    }
  }
  LEEWARD_INLINE double conjugate(const double* s, double y) {
    Lanes total, entropy, outside;
    for (std::int64_t c = 0; c < whole; c += kGroup)
      add_entropies(s + c, y - static_cast<double>(c), total, entropy, outside);
    fill(s, 0.0);
    if (ragged()) add_entropies(rest, y - static_cast<double>(whole), total, entropy, outside);
    const bool off = hd::magnitude(total.fold() - 1.0) > hd::kDomainSlack * static_cast<double>(classes);
    return off || outside.fold() > 0.0 ? hd::real::kInf : entropy.fold();
  }
};

LEEWARD_CLONES void wide_values(LossInputs in, double* out) {
  WideRow row(in.outputs);
  double ahead[kGroup], others[kGroup] = {};
  for (std::int64_t first = 0; first < in.count; first += kGroup) {
    const std::int64_t count = std::min<std::int64_t>(kGroup, in.count - first);
    for (std::int64_t l = 0; l < count; ++l) {
      const double* const z = in.z + (first + l) * in.outputs;
      const double top = row.top(z);
      others[l] = row.others(z, top);
      ahead[l] = top - z[static_cast<std::int64_t>(in.y[first + l])];
    }
    LEEWARD_LANES
    for (int l = 0; l < kGroup; ++l) others[l] = hd::log1p(others[l]);
    for (std::int64_t l = 0; l < count; ++l) out[first + l] = ahead[l] + others[l];
  }
}
LEEWARD_CLONES void wide_slopes(LossInputs in, const double* weights, double* out) {
  WideRow row(in.outputs);
  for (std::int64_t k = 0; k < in.count; ++k)
    row.slopes(in.z + k * in.outputs, static_cast<std::int64_t>(in.y[k]), weights != nullptr ? weights[k] : 1.0, out + k * in.outputs);
}
LEEWARD_CLONES void wide_curvatures(LossInputs in, double* out) {
  WideRow row(in.outputs);
  for (std::int64_t k = 0; k < in.count; ++k) row.curvatures(in.z + k * in.outputs, out + k * in.outputs);
}
LEEWARD_CLONES void wide_conjugates(LossInputs in, double* out) {
  WideRow row(in.outputs);
  for (std::int64_t k = 0; k < in.count; ++k) out[k] = row.conjugate(in.z + k * in.outputs, in.y[k]);
}

LEEWARD_CLONES void grouped_values(LossInputs in, double* out) {
  SoftmaxGroup group;
  double value[kGroup];
  for (std::int64_t first = 0; first < in.count; first += kGroup) {
    group.load(in, first);
    group.values(value);
    for (std::int64_t l = 0; l < kGroup && first + l < in.count; ++l) out[first + l] = value[l];
  }
}
LEEWARD_CLONES void grouped_slopes(LossInputs in, double* out) {
  SoftmaxGroup group;
  for (std::int64_t first = 0; first < in.count; first += kGroup) {
    group.load(in, first);
    group.slopes();
    group.store(in.count - first, out + first * in.outputs);
  }
}
LEEWARD_CLONES void grouped_curvatures(LossInputs in, double* out) {
  SoftmaxGroup group;
  for (std::int64_t first = 0; first < in.count; first += kGroup) {
    group.load(in, first);
    group.curvatures();
    group.store(in.count - first, out + first * in.outputs);
  }
}
LEEWARD_CLONES void plain_conjugates(LossInputs in, double* out) {
  const hd::SoftmaxLoss loss{in.outputs};
  for (std::int64_t k = 0; k < in.count; ++k) out[k] = loss.conjugate(in.z + k * in.outputs, static_cast<std::int64_t>(in.y[k]));
}

}  // namespace

void softmax_values(LossInputs in, double* out) { in.outputs > kWide ? wide_values(in, out) : grouped_values(in, out); }

void softmax_slopes(LossInputs in, const double* weights, double* out) {
  if (in.outputs > kWide) return wide_slopes(in, weights, out);
  grouped_slopes(in, out);
  if (weights == nullptr) return;
  for (std::int64_t k = 0; k < in.count; ++k)
    for (std::int64_t c = 0; c < in.outputs; ++c) out[k * in.outputs + c] *= weights[k];
}

void softmax_curvatures(LossInputs in, double* out) {
  in.outputs > kWide ? wide_curvatures(in, out) : grouped_curvatures(in, out);
}

void softmax_conjugates(LossInputs in, double* out) {
  in.outputs > kWide ? wide_conjugates(in, out) : plain_conjugates(in, out);
}

}  // namespace leeward
