#include "leeward/risk/quantile.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "leeward/risk/passes.hpp"

namespace leeward {
namespace {

struct Atom {
  double place, weight;
};

// The greatest v with sum of weights at or above v >= mass. Reorders the atoms.
double select_weighted(Atom* first, Atom* last, double mass) {
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

}  // namespace

template <class T>
double upper_quantile(const Frame<T>& f, double mass, Resources& use) {
  const Workspace::Scope scope(use.workspace);
  if (f.base == nullptr) {
    const double rank = std::ceil(mass);
    const std::int64_t k = rank < 1 ? 1 : (rank > static_cast<double>(f.size) ? f.size : static_cast<std::int64_t>(rank));
    double* x = use.workspace.template take<double>(f.size);
    const auto in = reader_at<T, false>(f, 0);
    for (std::int64_t i = 0; i < f.size; ++i) x[i] = in.place(i);
    std::nth_element(x, x + (k - 1), x + f.size, std::greater<>());
    return x[k - 1];
  }
  Atom* atoms = use.workspace.template take<Atom>(f.size);
  const auto in = reader_at<T, true>(f, 0);
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < f.size; ++i) {
    const Atom a{in.place(i), in.weight(i)};
    if (a.weight > 0) atoms[n++] = a;
  }
  return select_weighted(atoms, atoms + n, mass);
}

template double upper_quantile(const Frame<float>&, double, Resources&);
template double upper_quantile(const Frame<double>&, double, Resources&);

}  // namespace leeward
