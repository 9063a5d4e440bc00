#include "leeward/core/real_arrays.hpp"

#include "leeward/core/lanes.hpp"
#include "leeward/hd/real_math.hpp"

namespace leeward {
namespace {

// A short end is padded to sixteen lanes, so every element takes the same instructions.
template <double (*f)(double)>
LEEWARD_INLINE void map(const double* x, std::int64_t n, double* out) {
  double in[kLanes];
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const int m = static_cast<int>(n - i < kLanes ? n - i : kLanes);
    if (m == kLanes) {
      double result[kLanes];
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) result[l] = f(x[i + l]);
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) out[i + l] = result[l];
    } else {
      for (int l = 0; l < kLanes; ++l) in[l] = l < m ? x[i + l] : 0.0;
      LEEWARD_LANES
      for (int l = 0; l < kLanes; ++l) in[l] = f(in[l]);
      for (int l = 0; l < m; ++l) out[i + l] = in[l];
    }
  }
}

}  // namespace

LEEWARD_CLONES void exp_array(const double* x, std::int64_t n, double* out) {
  map<hd::exp>(x, n, out);
}
LEEWARD_CLONES void expm1_array(const double* x, std::int64_t n, double* out) {
  map<hd::expm1>(x, n, out);
}
LEEWARD_CLONES void log_array(const double* x, std::int64_t n, double* out) {
  map<hd::log>(x, n, out);
}
LEEWARD_CLONES void log1p_array(const double* x, std::int64_t n, double* out) {
  map<hd::log1p>(x, n, out);
}
LEEWARD_CLONES void sigmoid_array(const double* x, std::int64_t n, double* out) {
  map<hd::sigmoid>(x, n, out);
}
LEEWARD_CLONES void softplus_array(const double* x, std::int64_t n, double* out) {
  map<hd::softplus>(x, n, out);
}

}  // namespace leeward
