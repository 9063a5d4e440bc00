// The one seam between data and algorithms: per-sample losses of a batch, and one weighted sum of their gradients.
// All scale and sign is in the weights; regularisation is not part of an oracle's losses.
#pragma once

#include <cstdint>

#include "leeward/core/resources.hpp"
#include "leeward/core/views.hpp"

namespace leeward {

class Oracle {
 public:
  virtual ~Oracle() = default;
  virtual std::int64_t size() const = 0;  // number of samples n
  virtual std::int64_t dim() const = 0;   // length of w
  // Sample numbers 0..population() - 1 may be drawn: the n samples, or more where the loss is an expectation and a call about
  // all samples takes the first n of them for it.
  virtual std::int64_t population() const { return size(); }
  // Numbers a sample in the memory of a batch (see Batch); 0 for an oracle that has no use for it.
  virtual std::int64_t memory_per_sample() const { return 0; }
  // out[k] = loss(w; batch[k]), k < batch.size
  virtual void losses(const double* w, Batch batch, double* out, Resources& use) const = 0;
  // out[0..dim) = sum_k weights[k] * grad_w loss(w; batch[k]); overwrites out
  virtual void gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const = 0;
};

}  // namespace leeward
