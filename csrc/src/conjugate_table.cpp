#include "leeward/risk/conjugate_table.hpp"

namespace leeward {
namespace {

constexpr int kCells = 8192;
constexpr double kTail = 46.0;  // of the logistic function: e^-46

}  // namespace

ConjugateTable::ConjugateTable(double alpha, const NoisyConjugate& conjugate, std::int64_t freedom)
    : coefficients_(static_cast<std::size_t>(kCells) * kStride), view_{} {
  double low = conjugate.low(), high = conjugate.high();
  if (freedom == 0) {
    const double turn = alpha > 0.0 ? hd::log1p(-alpha) - hd::log(alpha) : -1.0;
    low = alpha > 0.0 ? std::min(hd::log1p(-alpha), 0.0) - kTail : turn;
    high = alpha > 0.0 ? turn + kTail : turn + 1.0;
  }
  const double width = (high - low) / kCells;
  const auto at = [&](double x) { return conjugate.at(x); };
  NoisyConjugate::Value left = at(low);
  if (alpha == 0.0 && freedom == 0) left.slope = 1.0;  // from the right
  for (int i = 0; i < kCells; ++i) {
    const NoisyConjugate::Value right = at(i + 1 < kCells ? low + width * (i + 1) : high);
    double* const c = coefficients_.data() + static_cast<std::size_t>(i) * kStride;
    const double d0 = left.ratio * width, d1 = right.ratio * width;
    const double s0 = left.slope * width * width, s1 = right.slope * width * width;
    const double rise = right.conjugate - left.conjugate;
    c[0] = left.conjugate;
    c[1] = d0;
    c[2] = 0.5 * s0;
    c[3] = 10.0 * rise - 6.0 * d0 - 4.0 * d1 - 1.5 * s0 + 0.5 * s1;
    c[4] = -15.0 * rise + 8.0 * d0 + 7.0 * d1 + 1.5 * s0 - s1;
    c[5] = 6.0 * rise - 3.0 * (d0 + d1) - 0.5 * (s0 - s1);
    left = right;
  }
  view_ = {coefficients_.data(), low, high, 1.0 / width, left.conjugate, left.ratio, alpha > 0.0 ? 0.0 : 1.0, kCells - 1};
}

}  // namespace leeward
