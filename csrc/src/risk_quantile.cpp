#include "leeward/risk/quantile.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "leeward/core/watched.hpp"
#include "leeward/risk/passes.hpp"
#include "leeward/risk/sample.hpp"

namespace leeward {
namespace {

struct Atom {
  double place, weight;
};

// The greatest v with sum of weights at or above v >= mass. Reorders the atoms.
double select_atoms(Atom* first, Atom* last, double mass, const Resources& use) {
  while (last - first > 1) {
    Atom* middle = first + (last - first) / 2;
    watched_nth_element(first, middle, last, [](const Atom& a, const Atom& b) { return a.place > b.place; }, use);
    double above = 0;
    for (Atom* a = first; a != middle; ++a) above += a->weight;
    if (above >= mass) {
      last = middle;
    } else {
      mass -= above;
      first = middle;
      if (first->weight >= mass) return first->place;
      mass -= first->weight;
      if (++first == last) return (first - 1)->place;
    }
  }
  return first->place;
}

double select_places(double* x, std::int64_t n, double mass, const Resources& use) {
  const double rank = std::ceil(mass);
  const std::int64_t k = rank < 1 ? 1 : (rank > static_cast<double>(n) ? n : static_cast<std::int64_t>(rank));
  watched_nth_element(x, x + (k - 1), x + n, std::greater<>(), use);
  return x[k - 1];
}

// The selection over all samples.
template <class T>
double select_all(const Frame<T>& f, double mass, Resources& use) {
  const Workspace::Scope scope(use.workspace);
  if (f.base == nullptr) {
    double* x = use.workspace.template take<double>(f.size);
    const auto in = reader_at<T, false>(f, 0);
    for (std::int64_t i = 0; i < f.size; ++i) x[i] = in.place(i);
    return select_places(x, f.size, mass, use);
  }
  Atom* atoms = use.workspace.template take<Atom>(f.size);
  const auto in = reader_at<T, true>(f, 0);
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < f.size; ++i) {
    const Atom a{in.place(i), in.weight(i)};
    if (a.weight > 0) atoms[n++] = a;
  }
  return select_atoms(atoms, atoms + n, mass, use);
}

// mass above the threshold, mass on it, sum of the excess above it
struct TailSums {
  static constexpr int kSums = 3;
  double threshold;
  LEEWARD_INLINE void operator()(double x, double b, double* v) const {
    v[0] = x > threshold ? b : 0.0;
    v[1] = x == threshold ? b : 0.0;
    v[2] = x > threshold ? b * (x - threshold) : 0.0;
  }
};

template <class T>
UpperTail tail_at(const Frame<T>& f, double threshold, Resources& use) {
  double v[3];
  sum_over(f, TailSums{threshold}, use, v);
  return {threshold, v[0], v[1], v[2]};
}

// Two places between which the threshold very likely lies.
struct Bracket {
  double low = 0, high = 0;
};

template <class T>
Bracket bracket_from(const Frame<T>& f, const Frame<double>& s, double mass, Resources& use) {
  constexpr double kDeviations = 3.5;
  const double level = mass / f.total, m = static_cast<double>(s.size);
  const double width = kDeviations * std::sqrt(level * (1 - level) / m) + 4 / m;
  const bool top = !(level - width > 0), bottom = !(level + width < 1);
  return {bottom ? f.low : upper_tail(s, (level + width) * s.total, use).threshold,
          top ? 0.0 : upper_tail(s, (level - width) * s.total, use).threshold};
}

constexpr std::int64_t kSelectAll = 16384;  // shorter vectors are selected from as they are
constexpr std::int64_t kRoom = kBlock / 8;  // places a block may collect

// LEEWARD_LANES for a loop that sets bits of one number.
#if defined(__GNUC__)
#define LEEWARD_PRAGMA(text) _Pragma(#text)
#define LEEWARD_LANES_BITS(bits) LEEWARD_PRAGMA(omp simd reduction(| : bits))
#else
#define LEEWARD_LANES_BITS(bits)
#endif

// One block against a bracket [low, high]: mass above high, sum of b (x - high) over it, and how many lie inside.
struct Bracketed {
  double above = 0, excess = 0;
  std::int64_t inside = 0;  // kRoom + 1 when they are too many to collect
};

template <class T, bool Weighted>
LEEWARD_CLONES void bracket_block(Reader<T, Weighted> in, std::int64_t n, Bracket bracket, double* places, double* weights,
                                  Bracketed* out) {
  const double low = bracket.low, high = bracket.high;
  double above[kLanes] = {}, excess[kLanes] = {};
  std::int64_t bit[kLanes];
  for (int k = 0; k < kLanes; ++k) bit[k] = std::int64_t{1} << k;
  const auto take = [&](std::int64_t i, int k) {
    const double x = in.place(i), b = in.weight(i);
    above[k] += x > high ? b : 0.0;
    excess[k] += x > high ? b * (x - high) : 0.0;
    return (x >= low) & (x <= high) ? bit[k] : 0;
  };
  std::int64_t count = 0;
  const auto collect = [&](std::int64_t i, std::int64_t inside) {  // the bits of `inside`; false when there is no room
    for (auto bits = static_cast<std::uint64_t>(inside); bits != 0; bits &= bits - 1) {
      if (count == kRoom) return false;
      const std::int64_t at = i + std::countr_zero(bits);
      places[count] = in.place(at);
      if constexpr (Weighted) weights[count] = in.weight(at);
      ++count;
    }
    return true;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch_pass(in.losses + i);
    std::int64_t inside = 0;
    LEEWARD_LANES_BITS(inside)
    for (int k = 0; k < kLanes; ++k) inside |= take(i + k, k);
    if (inside != 0 && !collect(i, inside)) {
      out->inside = kRoom + 1;
      return;
    }
  }
  std::int64_t inside = 0;
  for (int k = 0; i + k < n; ++k) inside |= take(i + k, k);
  if (!collect(i, inside)) {
    out->inside = kRoom + 1;
    return;
  }
  Lanes a, e;
  for (int k = 0; k < kLanes; ++k) {
    a.lane[k] = above[k];
    e.lane[k] = excess[k];
  }
  *out = {a.fold(), e.fold(), count};
}

// The tail from the samples that a bracket leaves in doubt; false if the bracket missed or left too many.
template <class T>
bool tail_inside(const Frame<T>& f, double mass, const Bracket& bracket, Resources& use, UpperTail* tail) {
  const bool weighted = f.base != nullptr;
  const std::int64_t blocks = block_count(f.size);
  double* places = use.workspace.template take<double>(blocks * kRoom);
  double* weights = weighted ? use.workspace.template take<double>(blocks * kRoom) : nullptr;
  auto* part = use.workspace.template take<Bracketed>(blocks);
  parallel_blocks(blocks, use.threads, [&](std::int64_t b) {
    use.glance();
    const std::int64_t first = b * kBlock, n = f.size - first < kBlock ? f.size - first : kBlock;
    if (weighted)
      bracket_block<T, true>(reader_at<T, true>(f, first), n, bracket, places + b * kRoom, weights + b * kRoom, part + b);
    else
      bracket_block<T, false>(reader_at<T, false>(f, first), n, bracket, places + b * kRoom, nullptr, part + b);
  });
  std::int64_t count = 0;
  double inside = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    if (part[b].inside > kRoom) return false;
    for (std::int64_t i = 0; i < part[b].inside; ++i, ++count) {
      places[count] = places[b * kRoom + i];
      if (weighted) weights[count] = weights[b * kRoom + i];
      inside += weighted ? weights[count] : 1.0;
    }
  }
  tail->above = tree_sum(0, blocks, [&](std::int64_t b) { return part[b].above; });
  tail->excess = tree_sum(0, blocks, [&](std::int64_t b) { return part[b].excess; });
  const double rest = mass - tail->above;
  if (!(rest > 0 && rest <= inside)) return false;
  // The threshold is among them, `rest` the mass that is missing above it.
  const Frame<double> doubtful{.losses = places, .base = weights, .size = count, .total = inside, .low = bracket.low};
  const UpperTail found = upper_tail(doubtful, rest, use);
  tail->excess += tail->above * (bracket.high - found.threshold) + found.excess;
  tail->above += found.above;
  tail->threshold = found.threshold;
  tail->on = found.on;
  return true;
}

template <class T>
bool tail_by_sample(const Frame<T>& f, double mass, Resources& use, UpperTail* tail) {
  const Workspace::Scope scope(use.workspace);
  const Frame<double> sample = sample_of(f, use);
  if (sample.size == 0) return false;
  const Bracket bracket = bracket_from(f, sample, mass, use);
  if (bracket.low < bracket.high && tail_inside(f, mass, bracket, use, tail)) return true;
  // Many equal losses: the threshold is an end of the bracket.
  for (const double end : {bracket.high, bracket.low}) {
    *tail = tail_at(f, end, use);
    if (tail->above < mass && tail->above + tail->on >= mass) return true;
  }
  return false;
}

}  // namespace

template <class T>
UpperTail upper_tail(const Frame<T>& f, double mass, Resources& use) {
  UpperTail tail;
  if (f.size >= kSelectAll && tail_by_sample(f, mass, use, &tail)) return tail;
  return tail_at(f, select_all(f, mass, use), use);
}

template UpperTail upper_tail(const Frame<float>&, double, Resources&);
template UpperTail upper_tail(const Frame<double>&, double, Resources&);

}  // namespace leeward
