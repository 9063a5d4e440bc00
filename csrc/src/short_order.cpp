// Each number becomes a key in [1, 2], its index in the last ten bits. Sixteen columns of keys go through Batcher's odd-even
// network, a lane a column, and the sorted columns are merged pair by pair, from both ends at once. Numbers that a key does not tell
// apart are put right by insertion.
#include "leeward/core/short_order.hpp"

#include <algorithm>

#include "leeward/core/lanes.hpp"
#include "leeward/core/simd.hpp"
#include "leeward/hd/real_math.hpp"

namespace leeward {
namespace {

using Key = std::uint64_t;
constexpr std::int64_t kRows = 32;                             // of keys in a block
constexpr Key kIndex = static_cast<Key>(kOrderMost) - 1;       // the bits that hold the index
constexpr double kAbove = 4.0;                             // above all keys

LEEWARD_INLINE void exchange(double* a, double* b) {
  LEEWARD_LANES
  for (int k = 0; k < kLanes; ++k) {
    const double x = a[k], y = b[k];
    a[k] = y < x ? y : x;
    b[k] = y < x ? x : y;
  }
}

// Sorts the columns of rows (a power of two) x kLanes keys.
LEEWARD_INLINE void sort_columns(double* key, std::int64_t rows) {
  for (std::int64_t p = 1; p < rows; p *= 2)
    for (std::int64_t gap = p; gap > 0; gap /= 2)
      for (std::int64_t first = gap % p; first + gap < rows; first += 2 * gap)
        for (std::int64_t row = first; row < first + gap && row + gap < rows; ++row)
          if (row / (2 * p) == (row + gap) / (2 * p)) exchange(key + row * kLanes, key + (row + gap) * kLanes);
}

// Two sorted runs of `length` keys, a stride apart, into one: step k gives its k-th key from the front and its k-th from the back. The
// keys are compared as integers, and counts grow by comparisons: a choice would become a branch, guessed wrong every other time.
template <std::int64_t Stride>
struct Merge {
  const double *a, *b, *end_a, *end_b;
  double *low, *high;
  std::int64_t front = 0, back = 0;  // keys taken from a, times the stride
  LEEWARD_INLINE Merge(const double* one, const double* other, std::int64_t length, double* to)
      : a(one), b(other), end_a(one + (length - 1) * Stride), end_b(other + (length - 1) * Stride), low(to), high(to + 2 * length - 1) {}
  LEEWARD_INLINE void step(std::int64_t k) {
    const Key x = hd::bits_of(a[front]), y = hd::bits_of(b[k * Stride - front]);
    low[k] = hd::from_bits(y < x ? y : x);
    front += y < x ? 0 : Stride;
    const Key u = hd::bits_of(*(end_a - back)), v = hd::bits_of(*(end_b - k * Stride + back));
    *(high - k) = hd::from_bits(u > v ? u : v);
    back += u > v ? Stride : 0;
  }
};

// `runs` runs of `length` keys into half as many: run r of `from` starts at r * length, or, where they are columns, at its column.
template <std::int64_t Stride>
LEEWARD_INLINE void merge_runs(const double* from, std::int64_t runs, std::int64_t length, double* to) {
  const auto start = [&](std::int64_t r) {
    return Stride == 1 ? from + r * length : from + r / kLanes * (length * kLanes) + r % kLanes;
  };
  if (runs == 2) {
    Merge<Stride> m(start(0), start(1), length, to);
    for (std::int64_t i = 0; i < length; ++i) m.step(i);
    return;
  }
  for (std::int64_t r = 0; r < runs; r += 4) {  // two at a time: each waits for its own loads
    Merge<Stride> m(start(r), start(r + 1), length, to + r * length);
    Merge<Stride> o(start(r + 2), start(r + 3), length, to + (r + 2) * length);
    for (std::int64_t i = 0; i < length; ++i) {
      m.step(i);
      o.step(i);
    }
  }
}

// Whether the places ascend, and whether some are equal.
LEEWARD_INLINE bool ascends(const double* place, std::int64_t padded, std::int64_t n, bool* ties) {
  double down[kLanes] = {}, equal[kLanes] = {};
  for (std::int64_t i = 0; i < padded; i += kLanes) {
    LEEWARD_LANES
    for (int k = 0; k < kLanes; ++k) {
      const double before = place[i + k - 1], here = place[i + k];
      down[k] += before > here ? 1.0 : 0.0;
      equal[k] += before == here ? 1.0 : 0.0;
    }
  }
  double descents = 0, pairs = 0;
  for (int k = 0; k < kLanes; ++k) {
    descents += down[k];
    pairs += equal[k];
  }
  *ties = pairs > static_cast<double>(1 + padded - n);  // the first one and the padding are pairs too
  return descents == 0;
}

// Insertion, or a sort where it takes more than a few moves a number.
void insert_all(const double* x, std::int64_t n, ShortOrder* out) {
  double* const place = out->place();
  std::int64_t left = 8 * n;
  for (std::int64_t i = 1; i < n && left >= 0; ++i) {
    const double at = place[i];
    const std::uint16_t index = out->index[i];
    std::int64_t j = i;
    for (; j > 0 && (place[j - 1] > at || (place[j - 1] == at && out->index[j - 1] > index)) && --left >= 0; --j) {
      place[j] = place[j - 1];
      out->index[j] = out->index[j - 1];
    }
    place[j] = at;
    out->index[j] = index;
  }
  if (left >= 0) return;
  std::sort(out->index, out->index + n, [x](std::uint16_t a, std::uint16_t b) { return x[a] < x[b] || (x[a] == x[b] && a < b); });
  for (std::int64_t i = 0; i < n; ++i) place[i] = x[out->index[i]];
}

LEEWARD_INLINE std::int64_t pad(double* place, std::int64_t n) {
  const std::int64_t padded = (n + kLanes - 1) / kLanes * kLanes;
  place[-1] = place[0];
  for (std::int64_t i = n; i < padded; ++i) place[i] = place[n - 1];
  return padded;
}

LEEWARD_CLONES bool sort_all(const double* x, std::int64_t n, ShortOrder* out) {
  alignas(64) double one[kOrderMost], other[kOrderMost];
  std::int64_t rows = 1;
  while (rows < kRows && rows * kLanes < n) rows *= 2;
  const std::int64_t blocks = n <= rows * kLanes ? 1 : 2, room = blocks * rows * kLanes;
  LEEWARD_LANES
  for (std::int64_t i = 0; i < n; ++i) one[i] = hd::from_bits((hd::bits_of(2.0 + x[i]) & ~kIndex) | static_cast<Key>(i));
  for (std::int64_t i = n; i < room; ++i) one[i] = kAbove;
  for (std::int64_t b = 0; b < blocks; ++b) sort_columns(one + b * rows * kLanes, rows);
  double *from = other, *to = one;
  std::int64_t length = rows, runs = blocks * kLanes;
  merge_runs<kLanes>(one, runs, length, other);
  for (length *= 2, runs /= 2; runs > 1; length *= 2, runs /= 2) {
    merge_runs<1>(from, runs, length, to);
    double* const swap = from;
    from = to;
    to = swap;
  }
  double* const place = out->place();
  for (std::int64_t i = 0; i < n; ++i) {
    const auto index = static_cast<std::uint16_t>(hd::bits_of(from[i]) & kIndex);
    out->index[i] = index;
    place[i] = x[index];
  }
  const std::int64_t padded = pad(place, n);
  return ascends(place, padded, n, &out->ties);
}

}  // namespace

void ascending_order(const double* x, std::int64_t n, ShortOrder* out) {
  // Equal keys are in the order of their indices, so places that ascend are in order throughout.
  if (sort_all(x, n, out)) return;
  insert_all(x, n, out);
  double* const place = out->place();
  ascends(place, pad(place, n), n, &out->ties);
}

}  // namespace leeward
