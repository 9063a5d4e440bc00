// What is wrong with an answer of user code: a NaN, an infinite number, a status.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace leeward {

// User code answered something wrong. infinite: its numbers left the range of doubles, as happens where a run diverges.
class OracleFault : public std::runtime_error {
 public:
  explicit OracleFault(const std::string& message, bool infinite = false) : std::runtime_error(message), infinite_(infinite) {}
  bool infinite() const { return infinite_; }

 private:
  bool infinite_;
};

// The entry to be named among numbers that are not all finite: the first NaN, else the first infinite one.
inline std::int64_t bad_entry(const double* x, std::int64_t n) {
  std::int64_t first = n;
  for (std::int64_t k = 0; k < n; ++k) {
    if (std::isnan(x[k])) return k;
    if (first == n && !std::isfinite(x[k])) first = k;
  }
  return first;
}

inline const char* name_of(double bad) { return std::isnan(bad) ? "nan" : (bad > 0 ? "inf" : "-inf"); }

// Whether the point is so far out that squares overflow: then anything that is not finite is the point's fault.
inline bool far_out(const double* w, std::int64_t dim) {
  for (std::int64_t j = 0; j < dim; ++j)
    if (!(std::fabs(w[j]) < 1e100)) return true;
  return false;
}

}  // namespace leeward
