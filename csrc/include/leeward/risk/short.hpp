// Vectors of at most kAlone losses under uniform base weights, solved whole in one kernel: the losses become places on the stack,
// padded to full lanes, and what a search needs of each (an exponential, say) is computed once. Rows of a matrix are such vectors,
// and there a call of the general passes costs more than the work in it. Rows of at most kShort losses are solved kSide at a time, a
// lane a row, with the same operations in the same order as one alone: a row has the same bits beside others.
//
// A kernel leaves a row undone, with nothing written, where it or the parameters lie outside the ordinary range in which its
// closed forms keep their digits (and for losses that are not finite, or all equal); the general solver takes over.
#pragma once

#include <cstdint>

#include "leeward/hd/divergence.hpp"
#include "leeward/risk/risk.hpp"

namespace leeward {

inline constexpr std::int64_t kAlone = 1024;
inline constexpr std::int64_t kShort = 128;
inline constexpr int kSide = 8;  // rows side by side

// One row of at most kAlone losses, or at most kSide rows of at most kShort.
template <class T>
struct ShortRows {
  const T* losses = nullptr;  // (rows, size)
  std::int64_t rows = 1, size = 0;
  T* weights = nullptr;  // (rows, size), or null
};

// What happened to each row.
struct ShortAnswers {
  RiskSolution row[kSide];
  bool done[kSide] = {};
};

template <class T>
void short_kl(const ShortRows<T>& rows, double penalty, ShortAnswers* out);
template <class T>
void short_chi_square(const ShortRows<T>& rows, double penalty, double radius, ShortAnswers* out);
template <class T>
void short_kl_cvar(const ShortRows<T>& rows, const hd::CappedKLDivergence& divergence, double penalty, ShortAnswers* out);
template <class T>
void short_smoothed_cvar(const ShortRows<T>& rows, const hd::SmoothedCVaRDivergence& divergence, double penalty, ShortAnswers* out);
template <class T>
void short_cressie_read(const ShortRows<T>& rows, double order, double penalty, ShortAnswers* out);

}  // namespace leeward
