// The penalty form of a divergence's risk by bisection on its dual variable: with v(eta) = 1 - mean (f*)'((l - eta)/lam), which rises
// with eta, halves an interval around the root until it is as short as `tol` times the spread of the losses plus lam. Weights are
// r/sum r. For comparison with the exact solvers, which are as exact and several times faster.
#pragma once

#include <cstdint>
#include <memory>

#include "leeward/risk/dual_form.hpp"
#include "leeward/risk/risk.hpp"

namespace leeward {

// form: any kind but cvar, which has no slope to halve by. Losses have equal base weights.
std::shared_ptr<Risk> make_bisection(DualForm form, double lam, double tol);

}  // namespace leeward
