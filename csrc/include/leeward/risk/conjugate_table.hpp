// A noisy conjugate F on equal cells, for many arguments at a time: the polynomial of degree 5 with the values, slopes and
// second derivatives of F at both ends. F' and F'' are the derivatives of that polynomial, so that sums of F have exactly
// the slopes that sums of F' say; F itself is met to about 1e-10. Below the cells F is a constant, above them a parabola.
#pragma once

#include <vector>

#include "leeward/risk/noisy_conjugate.hpp"

namespace leeward {

class ConjugateTable {
 public:
  // alpha = 0 stands for chi-square, as for NoisyConjugate.
  ConjugateTable(double alpha, const NoisyConjugate& conjugate, std::int64_t freedom);

  struct View {
    const double* coefficient;  // (cells, kStride), of powers of the place in the cell
    double low, high, inverse;  // 1 / width of a cell
    double value, slope, bend;  // F, F' and F'' from `high` on
    int last;                   // cell

    struct Place {
      double above, t;  // beyond `high`, and inside the cell
      int at;           // of the cell's coefficients
    };
    LEEWARD_INLINE Place place_of(double x) const {
      const double inside = x > low ? (x < high ? x : high) : low;
      const double place = (inside - low) * inverse;
      int cell = static_cast<int>(place);
      cell = cell > last ? last : cell;
      return {x > high ? x - high : 0.0, place - static_cast<double>(cell), cell * kStride};
    }
    LEEWARD_INLINE NoisyConjugate::Balance balance(double x) const {
      const auto [above, t, at] = place_of(x);
      const double c1 = coefficient[at + 1], c2 = coefficient[at + 2], c3 = coefficient[at + 3], c4 = coefficient[at + 4],
                   c5 = coefficient[at + 5];
      const double ratio = inverse * (c1 + t * (2.0 * c2 + t * (3.0 * c3 + t * (4.0 * c4 + t * (5.0 * c5))))) + bend * above;
      const double second = inverse * inverse * (2.0 * c2 + t * (6.0 * c3 + t * (12.0 * c4 + t * (20.0 * c5))));
      const double below = x < low ? 0.0 : 1.0;
      return {below * ratio, below * (x > high ? bend : second)};
    }
    LEEWARD_INLINE double conjugate(double x) const {
      const auto [above, t, at] = place_of(x);
      const double c0 = coefficient[at], c1 = coefficient[at + 1], c2 = coefficient[at + 2], c3 = coefficient[at + 3],
                   c4 = coefficient[at + 4], c5 = coefficient[at + 5];
      return c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * c5)))) + above * (slope + 0.5 * bend * above);
    }
  };
  View view() const { return view_; }

 private:
  static constexpr int kStride = 8;
  std::vector<double> coefficients_;
  View view_;
};

}  // namespace leeward
