// Spectral risks, with and without a penalty (risk_spectral.cpp), of short rows. What a spectrum gives to the sorted losses depends on
// their number alone under uniform base weights: it is found once for each size and kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "leeward/core/short_order.hpp"
#include "leeward/risk/short.hpp"

namespace leeward {

// Phi(k / n) for k = 0..n, with ones up to full lanes after it.
struct Ladder {
  static constexpr std::int64_t kRoom = kAlone + 32;
  std::int64_t size = 0;
  double least = std::numeric_limits<double>::infinity();  // the least positive step
  alignas(64) double reached[kRoom];

  template <class Spectrum>
  void fill(const Spectrum& spectrum, std::int64_t n) {
    size = n;
    const auto cells = static_cast<double>(n);
    reached[0] = 0.0;
    for (std::int64_t k = 1; k < n; ++k) {
      const double at = spectrum(static_cast<double>(k) / cells), before = reached[k - 1];
      reached[k] = at < before ? before : (at < 1.0 ? at : 1.0);
    }
    for (std::int64_t k = n; k < kRoom; ++k) reached[k] = 1.0;
    for (std::int64_t k = 0; k < n; ++k) {
      const double step = reached[k + 1] - reached[k];
      if (step > 0 && step < least) least = step;
    }
  }
};

// The ladders of a few sizes; any thread may ask for one or add one. They are never taken away before the end.
class Ladders {
 public:
  Ladders() = default;
  Ladders(const Ladders&) = delete;
  Ladders& operator=(const Ladders&) = delete;
  ~Ladders() {
    for (const Kept* at = head_.load(std::memory_order_acquire); at != nullptr;) {
      const Kept* const next = at->next;
      delete at;
      at = next;
    }
  }

  // Calls use(ladder) with the one for n.
  template <class Spectrum, class Use>
  void with(const Spectrum& spectrum, std::int64_t n, const Use& use) {
    Kept* first = head_.load(std::memory_order_acquire);
    int kept = 0;
    for (const Kept* at = first; at != nullptr; at = at->next, ++kept)
      if (at->ladder.size == n) return use(at->ladder);
    if (kept >= kMost) {
      Ladder passing;
      passing.fill(spectrum, n);
      return use(passing);
    }
    Kept* const fresh = new Kept;
    fresh->ladder.fill(spectrum, n);
    fresh->next = first;
    while (!head_.compare_exchange_weak(fresh->next, fresh, std::memory_order_acq_rel, std::memory_order_acquire)) {
    }
    use(fresh->ladder);
  }

 private:
  static constexpr int kMost = 4;
  struct Kept {
    Ladder ladder;
    Kept* next = nullptr;
  };
  std::atomic<Kept*> head_{nullptr};
};

// penalty: 0 for none.
template <class T>
void short_spectral(const ShortRows<T>& rows, const Ladder& ladder, double penalty, ShortAnswers* out);

}  // namespace leeward
