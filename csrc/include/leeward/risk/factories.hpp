// Makers of the risks. Parameters are checked by whoever makes them (the Python classes); a penalty or radius that is not
// used is negative.
#pragma once

#include <memory>
#include <vector>

#include "leeward/risk/risk.hpp"

namespace leeward {

using RiskPointer = std::shared_ptr<Risk>;

RiskPointer make_mean();
RiskPointer make_worst();
RiskPointer make_cvar(double alpha);
RiskPointer make_total_variation(double radius);
RiskPointer make_chi_square(double penalty, double radius);
RiskPointer make_kl(double penalty, double radius);
RiskPointer make_tilted(double t);
RiskPointer make_kl_cvar(double alpha, double penalty);
RiskPointer make_smoothed_cvar(double alpha, double penalty);
RiskPointer make_cressie_read(double order, double penalty, double radius);
RiskPointer make_smoothed_total_variation(double radius, double penalty);
RiskPointer make_step_spectrum(std::vector<double> weights, double penalty);  // non-decreasing, non-negative, positive sum
RiskPointer make_extremile(double draws, double penalty);
RiskPointer make_exponential_spectrum(double rate, double penalty);

}  // namespace leeward
