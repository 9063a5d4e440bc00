#include "leeward/oracle/cfunc.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "leeward/core/check.hpp"
#include "leeward/core/lanes.hpp"
#include "leeward/core/parallel.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kCall = CFunctionOracle::kCallSamples;
constexpr std::int64_t kMostTasks = 16;  // vectors of partial gradients

std::string samples_of(Batch batch) {
  std::string text = "samples ";
  for (std::int64_t k = 0; k < batch.size && k < 5; ++k) text += (k ? ", " : "") + std::to_string(batch[k]);
  return batch.size > 5 ? text + ", ..." : text;
}

[[noreturn]] void failed(const char* what, int status, Batch batch) {
  throw OracleFault(std::string(what) + " returned status " + std::to_string(status) + ", must return 0, for a batch of " + samples_of(batch));
}

// Entries first..first + count - 1 of a batch, with their numbers written to scratch when it is all samples in order.
Batch part_of(Batch batch, std::int64_t first, std::int64_t count, std::int64_t* scratch) {
  if (batch.index != nullptr) return {batch.index + first, count};
  for (std::int64_t k = 0; k < count; ++k) scratch[k] = first + k;
  return {scratch, count};
}

// The batch is one call and its numbers are written down.
bool is_one_call(Batch batch) { return batch.index != nullptr && batch.size > 0 && batch.size <= kCall; }

}  // namespace

// One call; `first` is the place of its first sample in the whole batch.
void CFunctionOracle::call_losses(const double* w, Batch part, std::int64_t first, double* out) const {
  std::fill(out, out + part.size, std::nan(""));  // an entry that is not written is found below
  const int status = f_.losses(w, dim_, part.index, part.size, out, f_.losses_user);
  if (status != 0) failed("losses", status, part);
  if (all_finite(out, part.size)) return;
  const std::int64_t k = bad_entry(out, part.size);
  throw OracleFault(std::string("losses must write finite numbers, got ") + name_of(out[k]) + " for sample " +
                        std::to_string(part[k]) + " (entry " + std::to_string(first + k) + " of the batch)",
                    out[k] > 0 || far_out(w, dim_));
}

void CFunctionOracle::call_gradient(const double* w, Batch part, const double* weights, double* out) const {
  std::fill(out, out + dim_, 0.0);
  const int status = f_.gradient(w, dim_, weights, part.index, part.size, out, f_.gradient_user);
  if (status != 0) failed("gradient", status, part);
  if (all_finite(out, dim_)) return;
  const std::int64_t j = bad_entry(out, dim_);
  throw OracleFault(std::string("gradient must write finite numbers, got ") + name_of(out[j]) + " in coordinate " +
                        std::to_string(j) + " for a batch of " + samples_of(part),
                    std::isinf(out[j]) || far_out(w, dim_) || loss_is_infinite(w, part));
}

// Whether a NaN in the gradient says no more than that a loss is infinite.
bool CFunctionOracle::loss_is_infinite(const double* w, Batch part) const {
  std::vector<double> l(static_cast<std::size_t>(part.size), 0.0);
  f_.losses(w, dim_, part.index, part.size, l.data(), f_.losses_user);
  return std::find(l.begin(), l.end(), std::numeric_limits<double>::infinity()) != l.end();
}

void CFunctionOracle::losses(const double* w, Batch batch, double* out, Resources& use) const {
  if (is_one_call(batch)) return call_losses(w, batch, 0, out);
  const std::int64_t calls = block_count(batch.size, kCall), width = std::min(kCall, batch.size);
  const Workspace::Scope scope(use.workspace);
  std::int64_t* const scratch = batch.index != nullptr ? nullptr : use.workspace.take<std::int64_t>(calls * width);
  parallel_blocks(calls, parallel_ ? use.threads : 1, [&](std::int64_t c) {
    use.poll();
    const std::int64_t first = c * kCall, count = std::min(kCall, batch.size - first);
    call_losses(w, part_of(batch, first, count, scratch != nullptr ? scratch + c * width : nullptr), first, out + first);
  });
}

// Consecutive calls form a task with a sum of its own; tasks follow the batch's size alone and are added in order.
void CFunctionOracle::gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const {
  if (is_one_call(batch)) return call_gradient(w, batch, weights, out);
  const std::int64_t calls = block_count(batch.size, kCall), tasks = std::min(calls, kMostTasks);
  const Workspace::Scope scope(use.workspace);
  std::int64_t* const scratch = use.workspace.take<std::int64_t>(tasks * kCall);
  double* const sums = use.workspace.take<double>(2 * tasks * dim_);  // of a task, and of its present call
  parallel_blocks(tasks, parallel_ ? use.threads : 1, [&](std::int64_t t) {
    double* const sum = sums + 2 * t * dim_;
    std::fill(sum, sum + dim_, 0.0);
    for (std::int64_t c = calls * t / tasks; c < calls * (t + 1) / tasks; ++c) {
      use.poll();
      const std::int64_t first = c * kCall, count = std::min(kCall, batch.size - first);
      call_gradient(w, part_of(batch, first, count, scratch + t * kCall), weights + first, sum + dim_);
      for (std::int64_t j = 0; j < dim_; ++j) sum[j] += sum[dim_ + j];
    }
  });
  std::fill(out, out + dim_, 0.0);
  for (std::int64_t t = 0; t < tasks; ++t)
    for (std::int64_t j = 0; j < dim_; ++j) out[j] += sums[2 * t * dim_ + j];
}

}  // namespace leeward
