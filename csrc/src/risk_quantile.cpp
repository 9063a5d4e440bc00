#include "leeward/risk/quantile.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "leeward/risk/passes.hpp"
#include "leeward/risk/sample.hpp"

namespace leeward {
namespace {

struct Atom {
  double place, weight;
};

// The greatest v with sum of weights at or above v >= mass. Reorders the atoms.
double select_atoms(Atom* first, Atom* last, double mass) {
  while (last - first > 1) {
    Atom* middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, [](const Atom& a, const Atom& b) { return a.place > b.place; });
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

double select_places(double* x, std::int64_t n, double mass) {
  const double rank = std::ceil(mass);
  const std::int64_t k = rank < 1 ? 1 : (rank > static_cast<double>(n) ? n : static_cast<std::int64_t>(rank));
  std::nth_element(x, x + (k - 1), x + n, std::greater<>());
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
    return select_places(x, f.size, mass);
  }
  Atom* atoms = use.workspace.template take<Atom>(f.size);
  const auto in = reader_at<T, true>(f, 0);
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < f.size; ++i) {
    const Atom a{in.place(i), in.weight(i)};
    if (a.weight > 0) atoms[n++] = a;
  }
  return select_atoms(atoms, atoms + n, mass);
}

constexpr std::int64_t kRoom = kBlock / 8;  // atoms a block may collect
constexpr int kChunk = 64;                  // samples looked at before deciding whether any is to be collected

// One block against a bracket [low, high]: masses above high, on high, on low, and the atoms strictly inside.
struct Bracketed {
  double above = 0, on_high = 0, on_low = 0, inside = 0;
  std::int64_t collected = 0;  // may pass kRoom: then the atoms are incomplete
};

template <class T, bool Weighted>
LEEWARD_CLONES void bracket_block(Reader<T, Weighted> in, std::int64_t n, double low, double high, Atom* atoms, Bracketed* out) {
  double above[kLanes] = {}, on_high[kLanes] = {}, on_low[kLanes] = {}, inside[kLanes] = {};
  std::int64_t count = 0;
  for (std::int64_t first = 0; first < n; first += kChunk) {
    const std::int64_t last = first + kChunk < n ? first + kChunk : n;
    double seen[kLanes] = {};
    std::int64_t i = first;
    for (; i + kLanes <= last; i += kLanes) {
      prefetch_pass(in.losses + i);
      LEEWARD_LANES
      for (int k = 0; k < kLanes; ++k) {
        const double x = in.place(i + k), b = in.weight(i + k);
        const bool within = x > low && x < high;
        above[k] += x > high ? b : 0.0;
        on_high[k] += x == high ? b : 0.0;
        on_low[k] += x == low ? b : 0.0;
        inside[k] += within ? b : 0.0;
        seen[k] += within ? 1.0 : 0.0;
      }
    }
    for (int k = 0; i < last; ++i, ++k) {
      const double x = in.place(i), b = in.weight(i);
      const bool within = x > low && x < high;
      above[k] += x > high ? b : 0.0;
      on_high[k] += x == high ? b : 0.0;
      on_low[k] += x == low ? b : 0.0;
      inside[k] += within ? b : 0.0;
      seen[k] += within ? 1.0 : 0.0;
    }
    double any = 0;
    for (int k = 0; k < kLanes; ++k) any += seen[k];
    if (any == 0) continue;
    if (count + kChunk > kRoom) {
      count += static_cast<std::int64_t>(any) + kRoom;
      continue;
    }
    for (i = first; i < last; ++i) {
      const double x = in.place(i);
      atoms[count] = {x, in.weight(i)};
      count += x > low && x < high ? 1 : 0;
    }
  }
  Lanes l[4];
  for (int k = 0; k < kLanes; ++k) {
    l[0].lane[k] = above[k];
    l[1].lane[k] = on_high[k];
    l[2].lane[k] = on_low[k];
    l[3].lane[k] = inside[k];
  }
  *out = {l[0].fold(), l[1].fold(), l[2].fold(), l[3].fold(), count};
}

// The selection among the samples that a bracket from a fixed sample leaves in doubt; false if the bracket missed.
template <class T>
bool select_bracketed(const Frame<T>& f, double mass, Resources& use, double* quantile) {
  const Workspace::Scope scope(use.workspace);
  const Frame<double> s = sample_of(f, use);
  if (s.size == 0) return false;
  const double level = mass / f.total;
  const auto m = static_cast<double>(s.size);
  const double width = 4 * std::sqrt(level * (1 - level) / m) + 4 / m;
  const double high = level - width > 0 ? select_all(s, (level - width) * s.total, use) : 0.0;
  const double low = level + width < 1 ? select_all(s, (level + width) * s.total, use) : f.low;

  const std::int64_t blocks = block_count(f.size);
  Atom* atoms = use.workspace.template take<Atom>(blocks * kRoom);
  auto* part = use.workspace.template take<Bracketed>(blocks);
  parallel_blocks(blocks, use.threads, [&](std::int64_t b) {
    const std::int64_t first = b * kBlock, n = f.size - first < kBlock ? f.size - first : kBlock;
    if (f.base == nullptr)
      bracket_block<T, false>(reader_at<T, false>(f, first), n, low, high, atoms + b * kRoom, part + b);
    else
      bracket_block<T, true>(reader_at<T, true>(f, first), n, low, high, atoms + b * kRoom, part + b);
  });
  const auto total = [&](double Bracketed::*field) { return tree_sum(0, blocks, [&](std::int64_t b) { return part[b].*field; }); };
  double rest = mass - total(&Bracketed::above);
  if (!(rest > 0)) return false;
  rest -= total(&Bracketed::on_high);
  if (rest <= 0) {
    *quantile = high;
    return true;
  }
  const double inside = total(&Bracketed::inside);
  if (rest > inside) {
    *quantile = low;
    return rest <= inside + total(&Bracketed::on_low);
  }
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    if (part[b].collected > kRoom) return false;
    std::copy(atoms + b * kRoom, atoms + b * kRoom + part[b].collected, atoms + count);
    count += part[b].collected;
  }
  *quantile = select_atoms(atoms, atoms + count, rest);
  return true;
}

}  // namespace

template <class T>
double upper_quantile(const Frame<T>& f, double mass, Resources& use) {
  double quantile = 0;
  if (f.size >= kSampleFrom && select_bracketed(f, mass, use, &quantile)) return quantile;
  return select_all(f, mass, use);
}

template double upper_quantile(const Frame<float>&, double, Resources&);
template double upper_quantile(const Frame<double>&, double, Resources&);

}  // namespace leeward
