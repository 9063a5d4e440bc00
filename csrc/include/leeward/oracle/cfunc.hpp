// An oracle of two C functions, called through their addresses without any language's lock:
//
//   int losses(const double* w, int64_t dim, const int64_t* index, int64_t count, double* out, void* user);
//   int gradient(const double* w, int64_t dim, const double* weights, const int64_t* index, int64_t count, double* out, void* user);
//
// losses writes out[k] = loss(w; index[k]), k < count. gradient adds sum_k weights[k] * grad loss(w; index[k]) to out[0..dim),
// which comes zeroed. Both return 0, anything else ends the run. A batch comes in calls of at most kCallSamples samples.
#pragma once

#include <cstdint>

#include "leeward/oracle/fault.hpp"
#include "leeward/oracle/oracle.hpp"

namespace leeward {


struct CFunctions {
  using Losses = int (*)(const double*, std::int64_t, const std::int64_t*, std::int64_t, double*, void*);
  using Gradient = int (*)(const double*, std::int64_t, const double*, const std::int64_t*, std::int64_t, double*, void*);
  Losses losses = nullptr;
  Gradient gradient = nullptr;
  void* losses_user = nullptr;
  void* gradient_user = nullptr;
};

class CFunctionOracle final : public Oracle {
 public:
  static constexpr std::int64_t kCallSamples = 4096;

  // parallel: the functions may run in several threads at once. The bits do not depend on it.
  CFunctionOracle(CFunctions functions, std::int64_t size, std::int64_t dim, bool parallel)
      : f_(functions), size_(size), dim_(dim), parallel_(parallel) {}

  std::int64_t size() const override { return size_; }
  std::int64_t dim() const override { return dim_; }
  void losses(const double* w, Batch batch, double* out, Resources& use) const override;
  void gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const override;

 private:
  void call_losses(const double* w, Batch part, std::int64_t first, double* out) const;
  void call_gradient(const double* w, Batch part, const double* weights, double* out) const;
  bool loss_is_infinite(const double* w, Batch part) const;

  CFunctions f_;
  std::int64_t size_, dim_;
  bool parallel_;
};

}  // namespace leeward
