// The dual form of a risk at given dual variables, for a batch of losses: with s = (l - eta)/lam and r = (f*)'(s), the means of r, f*(s)
// and s r (so that the mean of f(r) is that of s r less that of f*(s)), and the weights r/n.
#pragma once

#include <cstdint>

namespace leeward {

enum class DualKind : int { cvar = 0, kl = 1, chi_square = 2, kl_cvar = 3, smoothed_cvar = 4, cressie_read = 5 };

struct DualForm {
  DualKind kind = DualKind::cvar;
  double parameter = 1;  // alpha, or the order k
  double radius = 0;     // of a radius form
};

struct DualMeans {
  double ratio = 0, conjugate = 0, paired = 0;
};

DualMeans dual_means(const DualForm& form, const double* losses, std::int64_t n, double eta, double lam, double* weights);

}  // namespace leeward
