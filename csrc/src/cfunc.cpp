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

std::string samples_of(Batch batch, std::int64_t first, std::int64_t count) {
  std::string text = "samples ";
  for (std::int64_t k = 0; k < count && k < 5; ++k) text += (k ? ", " : "") + std::to_string(batch[first + k]);
  return count > 5 ? text + ", ..." : text;
}

[[noreturn]] void failed(const char* what, int status, const std::string& samples) {
  throw OracleFault(std::string(what) + " returned status " + std::to_string(status) + ", must return 0, for a batch of " + samples);
}

// Sample numbers of entries first..first + count - 1, written to scratch when the batch is all samples in order.
const std::int64_t* numbers(Batch batch, std::int64_t first, std::int64_t count, std::int64_t* scratch) {
  if (batch.index != nullptr) return batch.index + first;
  for (std::int64_t k = 0; k < count; ++k) scratch[k] = first + k;
  return scratch;
}

}  // namespace

void CFunctionOracle::losses(const double* w, Batch batch, double* out, Resources& use) const {
  const std::int64_t calls = block_count(batch.size, kCall), width = std::min(kCall, batch.size);
  const Workspace::Scope scope(use.workspace);
  std::int64_t* const scratch = batch.index != nullptr ? nullptr : use.workspace.take<std::int64_t>(calls * width);
  const auto one = [&](std::int64_t c) {
    const std::int64_t first = c * kCall, count = std::min(kCall, batch.size - first);
    const std::int64_t* const index = numbers(batch, first, count, scratch + (scratch != nullptr ? c * width : 0));
    std::fill(out + first, out + first + count, std::nan(""));  // an entry that is not written is found below
    const int status = f_.losses(w, dim_, index, count, out + first, f_.losses_user);
    if (status != 0) failed("losses", status, samples_of(batch, first, count));
    if (all_finite(out + first, count)) return;
    const std::int64_t k = first + bad_entry(out + first, count);
    throw OracleFault(std::string("losses must write finite numbers, got ") + name_of(out[k]) + " for sample " +
                      std::to_string(batch[k]) + " (entry " + std::to_string(k) + " of the batch)",
                      out[k] > 0 || far_out(w, dim_));
  };
  if (calls == 1) return one(0);
  parallel_blocks(calls, parallel_ ? use.threads : 1, [&](std::int64_t c) {
    use.poll();
    one(c);
  });
}

// Consecutive calls form a task with a sum of its own; tasks follow the batch's size alone and are added in order.
void CFunctionOracle::gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const {
  const std::int64_t calls = block_count(batch.size, kCall), tasks = std::min(calls, kMostTasks);
  const Workspace::Scope scope(use.workspace);
  // Whether a NaN in the gradient says no more than that a loss of the call is infinite.
  const auto loss_is_infinite = [&](const std::int64_t* index, std::int64_t count) {
    std::vector<double> l(static_cast<std::size_t>(count), 0.0);
    f_.losses(w, dim_, index, count, l.data(), f_.losses_user);
    return std::find(l.begin(), l.end(), std::numeric_limits<double>::infinity()) != l.end();
  };
  const auto one = [&](std::int64_t c, std::int64_t* scratch, double* to) {
    const std::int64_t first = c * kCall, count = std::min(kCall, batch.size - first);
    std::fill(to, to + dim_, 0.0);
    const std::int64_t* const index = numbers(batch, first, count, scratch);
    const int status = f_.gradient(w, dim_, weights + first, index, count, to, f_.gradient_user);
    if (status != 0) failed("gradient", status, samples_of(batch, first, count));
    if (all_finite(to, dim_)) return;
    const std::int64_t j = bad_entry(to, dim_);
    throw OracleFault(std::string("gradient must write finite numbers, got ") + name_of(to[j]) + " in coordinate " +
                      std::to_string(j) + " for a batch of " + samples_of(batch, first, count),
                      std::isinf(to[j]) || far_out(w, dim_) || loss_is_infinite(index, count));
  };
  if (tasks <= 1) {
    if (tasks == 0) std::fill(out, out + dim_, 0.0);
    else one(0, batch.index != nullptr ? nullptr : use.workspace.take<std::int64_t>(batch.size), out);
    return;
  }
  std::int64_t* const scratch = use.workspace.take<std::int64_t>(tasks * kCall);
  double* const sums = use.workspace.take<double>(2 * tasks * dim_);  // of a task, and of its present call
  parallel_blocks(tasks, parallel_ ? use.threads : 1, [&](std::int64_t t) {
    double* const sum = sums + 2 * t * dim_;
    std::fill(sum, sum + dim_, 0.0);
    for (std::int64_t c = calls * t / tasks; c < calls * (t + 1) / tasks; ++c) {
      use.poll();
      one(c, scratch + t * kCall, sum + dim_);
      for (std::int64_t j = 0; j < dim_; ++j) sum[j] += sum[dim_ + j];
    }
  });
  std::copy(sums, sums + dim_, out);
  for (std::int64_t t = 1; t < tasks; ++t)
    for (std::int64_t j = 0; j < dim_; ++j) out[j] += sums[2 * t * dim_ + j];
}

}  // namespace leeward
