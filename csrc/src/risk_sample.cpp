#include "leeward/risk/sample.hpp"

#include "leeward/risk/passes.hpp"

namespace leeward {
namespace {

// A scrambled j, so that a period in the data does not meet a period in the sample.
std::uint64_t scrambled(std::uint64_t j) {
  j = (j + 1) * 0x9e3779b97f4a7c15ULL;
  j = (j ^ (j >> 30)) * 0xbf58476d1ce4e5b9ULL;
  return j ^ (j >> 27);
}

// The draws [first, last) into x and b; returns their mass.
template <class T, bool Weighted>
double draw(const Frame<T>& f, std::int64_t cell, std::int64_t first, std::int64_t last, double* x, double* b) {
  const auto in = reader_at<T, Weighted>(f, 0);
  double total = 0;
  for (std::int64_t j = first; j < last; ++j) {
    const auto within = static_cast<std::int64_t>(scrambled(static_cast<std::uint64_t>(j)) % static_cast<std::uint64_t>(cell));
    const std::int64_t i = j * cell + within;
    x[j] = in.place(i);
    if constexpr (Weighted) b[j] = in.weight(i);
    total += in.weight(i);
  }
  return total;
}

}  // namespace

template <class T>
Frame<double> sample_of(const Frame<T>& f, Resources& use) {
  const std::int64_t m = sample_size(f.size);
  double* x = use.workspace.template take<double>(m);
  double* b = f.base == nullptr ? nullptr : use.workspace.template take<double>(m);
  double total = 0;
  over_blocks<1>(m, use, &total, [&](std::int64_t first, std::int64_t n, double* out, std::int64_t) {
    const std::int64_t cell = f.size / m, last = first + n;
    *out = b == nullptr ? draw<T, false>(f, cell, first, last, x, b) : draw<T, true>(f, cell, first, last, x, b);
  });
  return {.losses = x, .base = b, .size = total > 0 ? m : 0, .total = total, .low = f.low};
}

template Frame<double> sample_of(const Frame<float>&, Resources&);
template Frame<double> sample_of(const Frame<double>&, Resources&);

}  // namespace leeward
