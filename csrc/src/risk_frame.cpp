#include "leeward/risk/frame.hpp"

#include <cmath>
#include <cstdio>
#include <limits>

#include "leeward/core/lanes.hpp"
#include "leeward/risk/passes.hpp"

namespace leeward {
namespace {

// What one block of the losses says about the scale; `poison` is NaN once an entry is not finite.
struct Extremes {
  double max = -std::numeric_limits<double>::infinity();
  double min = std::numeric_limits<double>::infinity();
  double poison = 0;
  double base_max = 0, base_min = 0, base_sum = 0;
};

template <class T, bool Weighted>
LEEWARD_CLONES void scan_block(const T* l, const double* base, std::int64_t n, Extremes* out) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  T high[kLanes], low[kLanes], poison[kLanes];
  double bad[kLanes], heavy[kLanes], light[kLanes], sum[kLanes];
  for (int k = 0; k < kLanes; ++k) {
    high[k] = -kInf;
    low[k] = kInf;
    poison[k] = 0;
    bad[k] = heavy[k] = light[k] = sum[k] = 0;
  }
  const auto take = [&](std::int64_t i, int k) {
    const T x = l[i];
    poison[k] += x - x;  // 0, or NaN for infinities and NaN
    T up = x, down = x;
    if constexpr (Weighted) {
      const double b = base[i];
      bad[k] += b - b;
      heavy[k] = b > heavy[k] ? b : heavy[k];
      light[k] = b < light[k] ? b : light[k];
      sum[k] += b;
      up = b > 0 ? x : -kInf;
      down = b > 0 ? x : kInf;
    }
    high[k] = up > high[k] ? up : high[k];
    low[k] = down < low[k] ? down : low[k];
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch_pass(l + i);
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) take(i + k, k);
  }
  for (int k = 0; i < n; ++i, ++k) take(i, k);
  Lanes total;
  for (int k = 0; k < kLanes; ++k) {
    out->max = high[k] > out->max ? high[k] : out->max;
    out->min = low[k] < out->min ? low[k] : out->min;
    out->poison += poison[k];
    if constexpr (Weighted) {
      out->poison += bad[k];
      out->base_max = heavy[k] > out->base_max ? heavy[k] : out->base_max;
      out->base_min = light[k] < out->base_min ? light[k] : out->base_min;
      total.lane[k] = sum[k];
    }
  }
  if constexpr (Weighted) out->base_sum = total.fold();
}

template <class T>
Extremes scan(const LossVector<T>& l, Resources& use) {
  const auto block = [&](std::int64_t first, std::int64_t n, Extremes* out) {
    if (l.base == nullptr)
      scan_block<T, false>(l.losses + first, nullptr, n, out);
    else
      scan_block<T, true>(l.losses + first, l.base + first, n, out);
  };
  const std::int64_t blocks = block_count(l.size);
  Extremes all;
  if (blocks == 1) {
    block(0, l.size, &all);
    return all;
  }
  const Workspace::Scope scope(use.workspace);
  auto* part = use.workspace.template take<Extremes>(blocks);
  parallel_blocks(blocks, use.threads, [&](std::int64_t b) {
    use.glance();
    const std::int64_t first = b * kBlock;
    part[b] = Extremes{};
    block(first, l.size - first < kBlock ? l.size - first : kBlock, part + b);
  });
  for (std::int64_t b = 0; b < blocks; ++b) {
    all.max = part[b].max > all.max ? part[b].max : all.max;
    all.min = part[b].min < all.min ? part[b].min : all.min;
    all.poison += part[b].poison;
    all.base_max = part[b].base_max > all.base_max ? part[b].base_max : all.base_max;
    all.base_min = part[b].base_min < all.base_min ? part[b].base_min : all.base_min;
  }
  all.base_sum = tree_sum(0, blocks, [part](std::int64_t b) { return part[b].base_sum; });
  return all;
}

// Names the first entry that is not allowed; called once a scan has seen one.
template <class T>
[[noreturn]] void reject(const LossVector<T>& l) {
  for (std::int64_t i = 0; i < l.size; ++i)
    if (!std::isfinite(l.losses[i])) throw InvalidEntry(InvalidEntry::Where::kLosses, i, static_cast<double>(l.losses[i]));
  for (std::int64_t i = 0; i < l.size; ++i)
    if (!(l.base[i] >= 0) || !std::isfinite(l.base[i])) throw InvalidEntry(InvalidEntry::Where::kBase, i, l.base[i]);
  throw std::logic_error("a scan saw an invalid entry that is not there");
}

struct BaseTotal {
  static constexpr int kSums = 1;
  LEEWARD_INLINE void operator()(double, double b, double* v) const { v[0] = b; }
};

}  // namespace

InvalidEntry::InvalidEntry(Where w, std::int64_t p, double v) : std::invalid_argument(""), where(w), position(p), value(v) {
  static_cast<std::invalid_argument&>(*this) = std::invalid_argument(message(std::to_string(p)));
}

std::string InvalidEntry::message(const std::string& index) const {
  char number[40];
  if (std::isnan(value))
    std::snprintf(number, sizeof number, "nan");
  else
    std::snprintf(number, sizeof number, "%.17g", value);
  if (where == Where::kLosses) return "losses[" + index + "] is " + number + "; losses must be finite";
  return "sample_weight[" + index + "] is " + number + "; sample weights must be finite and not negative";
}

template <class T>
double Frame<T>::to_scaled(double amount) const {
  return std::ldexp(amount, -exponent);
}

template <class T>
double Frame<T>::from_scaled(double amount) const {
  return std::ldexp(amount, exponent);
}

template <class T>
double Frame<T>::value(double x) const {
  const double v = exponent < 1000 ? top + std::ldexp(x, exponent) : 2 * (0.5 * top + std::ldexp(x, exponent - 1));
  return mirrored ? -v : v;
}

template <class T>
Frame<T> make_frame(const LossVector<T>& l, bool mirrored, Resources& use) {
  if (l.size <= 0) throw std::invalid_argument("losses must have at least one entry, got none");
  const Extremes e = scan(l, use);
  if (e.poison != 0 || e.base_min < 0) reject(l);
  Frame<T> f{.losses = l.losses, .base = l.base, .size = l.size, .mirrored = mirrored};
  if (l.base != nullptr && !(e.base_max > 0)) throw std::invalid_argument("sample_weight must have a positive sum, got all zeros");
  f.top = mirrored ? -e.min : e.max;
  const double bottom = mirrored ? -e.max : e.min;
  const double range = f.top - bottom;
  int k = 0;
  if (range > 0) {
    if (std::isinf(range)) {
      std::frexp(0.5 * f.top - 0.5 * bottom, &k);
      ++k;
    } else {
      std::frexp(range, &k);
    }
  }
  f.exponent = k < -1000 ? -1000 : k;
  const double inverse = std::ldexp(1.0, -f.exponent);
  f.shift = f.top * inverse;
  f.low = bottom * inverse - f.shift;
  f.scale = mirrored ? -inverse : inverse;
  f.total = static_cast<double>(l.size);
  if (l.base != nullptr) {
    f.total = e.base_sum;
    if (!(e.base_sum > 1e-200 && e.base_sum < 1e200)) {
      int exponent = 0;
      std::frexp(e.base_max, &exponent);
      f.base_scale = std::ldexp(1.0, exponent < -1000 ? 1000 : -exponent);
      sum_over(f, BaseTotal{}, use, &f.total);
    }
  }
  return f;
}

template <class T>
RiskSolution in_loss_units(const Frame<T>& f, const Solved& s) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  return {.value = f.value(s.value), .eta = f.value(s.eta), .multiplier = f.from_scaled(s.multiplier), .gap = kNaN,
          .effective_sample_size = kNaN, .iterations = s.iterations};
}

template struct Frame<float>;
template struct Frame<double>;
template Frame<float> make_frame(const LossVector<float>&, bool, Resources&);
template Frame<double> make_frame(const LossVector<double>&, bool, Resources&);
template RiskSolution in_loss_units(const Frame<float>&, const Solved&);
template RiskSolution in_loss_units(const Frame<double>&, const Solved&);

}  // namespace leeward
