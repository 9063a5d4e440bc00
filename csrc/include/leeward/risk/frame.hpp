// A loss vector seen through one change of scale, x_i = (l_i - max l) / 2^k, so that every solver works on numbers in
// (-1, 0] whatever the losses are: 2^k is just above max l - min l, hence products and squares neither over- nor underflow.
//
// With base weights, max and min run over the samples of positive weight; other samples are clamped into the frame and
// carry weight 0. A mirrored frame holds -l instead of l (tilts with a negative parameter).
#pragma once

#include <cstdint>

#include "leeward/core/resources.hpp"
#include "leeward/risk/risk.hpp"

namespace leeward {

template <class T>
struct Frame {
  const T* losses = nullptr;
  const double* base = nullptr;  // null for uniform
  std::int64_t size = 0;
  double scale = 1, shift = 0;   // x = l * scale - shift; scale is +-2^-k
  double base_scale = 1;         // base weights are read as base * base_scale
  double total = 0;              // sum of the scaled base weights
  double top = 0;                // max l (of -l if mirrored)
  double low = 0;                // the least x, in (-1, 0]
  int exponent = 0;              // k
  bool mirrored = false;

  bool constant() const { return low == 0.0; }
  double to_scaled(double amount) const;    // an amount of loss (a penalty, a price) in units of 2^k
  double from_scaled(double amount) const;  // and back
  double value(double x) const;             // the loss that stands at x
};

// Reads the losses once (twice for extreme base weights). Throws InvalidEntry for what is not finite, a negative base
// weight or base weights that sum to 0, and std::invalid_argument for an empty vector.
template <class T>
Frame<T> make_frame(const LossVector<T>& l, bool mirrored, Resources& use);

}  // namespace leeward
