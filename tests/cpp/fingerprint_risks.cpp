// Values and weights of every risk, for several sizes, both element types and one to three threads.
#include <string>
#include <utility>
#include <vector>

#include "fingerprint.hpp"
#include "leeward/core/stream.hpp"
#include "leeward/risk/factories.hpp"

using namespace leeward;

namespace {

std::vector<std::pair<std::string, RiskPointer>> risks() {
  constexpr double kNone = -1.0;
  return {{"mean", make_mean()},
          {"worst", make_worst()},
          {"cvar 0.1", make_cvar(0.1)},
          {"total variation 0.3", make_total_variation(0.3)},
          {"chi-square penalty 0.5", make_chi_square(0.5, kNone)},
          {"chi-square radius 1", make_chi_square(kNone, 1.0)},
          {"chi-square both", make_chi_square(0.2, 1.0)},
          {"kl penalty 0.3", make_kl(0.3, kNone)},
          {"kl radius 0.5", make_kl(kNone, 0.5)},
          {"tilted -2", make_tilted(-2.0)},
          {"kl-cvar", make_kl_cvar(0.1, 0.2)},
          {"smoothed cvar", make_smoothed_cvar(0.1, 0.2)},
          {"cressie-read 3 penalty", make_cressie_read(3.0, 0.5, kNone)},
          {"cressie-read 1.5 penalty", make_cressie_read(1.5, 0.5, kNone)},
          {"cressie-read 4 penalty", make_cressie_read(4.0, 0.5, kNone)},
          {"cressie-read 1.5 radius", make_cressie_read(1.5, kNone, 0.5)},
          {"extremile 5", make_extremile(5.0, -1.0)},
          {"exponential 3", make_exponential_spectrum(3.0, -1.0)},
          {"smoothed extremile", make_extremile(5.0, 0.1)},
          {"smoothed total variation", make_smoothed_total_variation(0.3, 0.1)}};
}

template <class T>
void solve_all(std::int64_t n, bool weighted) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<double> drawn(size), base(size);
  fill_normal(Stream(5, Purpose::user, 1), 0, n, drawn.data());
  fill_uniform(Stream(5, Purpose::user, 2), 0, n, base.data());
  std::vector<T> losses(size), weights(size);
  for (std::size_t i = 0; i < size; ++i) losses[i] = static_cast<T>(drawn[i] * drawn[i]);
  Workspace workspace;
  for (const auto& [name, risk] : risks())
    for (int threads = 1; threads <= 3; ++threads) {
      Resources use{workspace, threads};
      const RiskSolution s = risk->solve(LossVector<T>{losses.data(), weighted ? base.data() : nullptr, n}, weights.data(), use);
      const double numbers[] = {s.value, s.eta, s.multiplier, s.gap, s.effective_sample_size};
      fingerprint::print(name.c_str(), numbers, 5);
      fingerprint::print("  weights", weights.data(), n);
    }
}

// Rows of the squares, in one call.
template <class T>
void solve_rows(std::int64_t rows, std::int64_t n) {
  const auto size = static_cast<std::size_t>(rows * n);
  std::vector<double> drawn(size);
  fill_normal(Stream(5, Purpose::user, 3), 0, rows * n, drawn.data());
  std::vector<T> losses(size), weights(size);
  for (std::size_t i = 0; i < size; ++i) losses[i] = static_cast<T>(drawn[i] * drawn[i]);
  std::vector<RiskSolution> out(static_cast<std::size_t>(rows));
  Workspace workspace;
  Resources use{workspace, 1};
  for (const auto& [name, risk] : risks()) {
    risk->solve_rows(LossRows<T>{losses.data(), nullptr, rows, n}, weights.data(), out.data(), use);
    double sums[3] = {};
    for (const RiskSolution& s : out) {
      sums[0] += s.value;
      sums[1] += s.eta;
      sums[2] += s.gap;
    }
    fingerprint::print(name.c_str(), sums, 3);
    fingerprint::print("  weights", weights.data(), rows * n);
  }
}

const fingerprint::Section side_by_side("risks, 203 rows of 7 losses", [] { solve_rows<double>(203, 7); });
const fingerprint::Section longer_rows("risks, 21 rows of 100 losses in float32", [] { solve_rows<float>(21, 100); });
const fingerprint::Section small("risks, 100 losses", [] { solve_all<double>(100, false); });
const fingerprint::Section large("risks, 100003 losses", [] { solve_all<double>(100003, false); });
const fingerprint::Section single("risks, 100003 losses in float32, weighted", [] { solve_all<float>(100003, true); });

}  // namespace
