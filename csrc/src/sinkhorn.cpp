#include "leeward/estimator/sinkhorn.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "leeward/core/parallel.hpp"

namespace leeward {
namespace {

constexpr std::int64_t kPartPoints = std::int64_t{1} << 18;  // points of a part
constexpr std::int64_t kRowsTogether = 16384;                // losses in a block of rows
constexpr std::int64_t kRowsAtOnce = 64;                     // rows handed to the risk together
constexpr std::int64_t kSerial = 65536;                      // below this many losses rows are solved one after the other

// out[0..dim) += more
void accumulate(const double* more, std::int64_t dim, double* out) {
  for (std::int64_t j = 0; j < dim; ++j) out[j] += more[j];
}

bool all_finite(const double* x, std::int64_t count) {
  bool finite = true;
  for (std::int64_t k = 0; k < count; ++k) finite = finite && std::isfinite(x[k]);
  return finite;
}

}  // namespace

// Samples [first, first + count) of a batch, and the batch of their points.
struct SinkhornOracle::Part {
  std::int64_t first, count;
  Batch points;
  double* q;  // of the batch's memory, or room for them
};

SinkhornOracle::SinkhornOracle(std::shared_ptr<const PerturbedOracle> points, std::shared_ptr<const Risk> inner, SinkhornSettings settings)
    : points_(std::move(points)), inner_(std::move(inner)), settings_(settings) {
  if (!(settings_.lam >= 0.0 && std::isfinite(settings_.lam))) throw std::invalid_argument("lam must be finite and not negative");
}

std::int64_t SinkhornOracle::part() const { return std::max<std::int64_t>(1, kPartPoints / points_->draws()); }

// Calls f(part) for the parts of a batch. The memory of a batch holds, part by part, the weights q and then what the points' oracle
// remembers.
template <class F>
void SinkhornOracle::for_parts(Batch batch, Resources& use, const F& f) const {
  const std::int64_t m = points_->draws(), most = std::min(part(), batch.size), own = points_->memory_per_sample();
  const Workspace::Scope scope(use.workspace);
  auto* const index = use.workspace.take<std::int64_t>(most * m);
  double* const spare = batch.memory == nullptr ? use.workspace.take<double>(most * m * (1 + own)) : nullptr;
  for (std::int64_t first = 0; first < batch.size; first += most) {
    const std::int64_t count = std::min(most, batch.size - first);
    for (std::int64_t k = 0; k < count; ++k)
      for (std::int64_t j = 0; j < m; ++j) index[k * m + j] = batch[first + k] * m + j;
    double* const memory = spare != nullptr ? spare : batch.memory + first * memory_per_sample();
    f(Part{first, count, Batch{index, count * m, own > 0 ? memory + count * m : nullptr}, memory});
  }
}

void SinkhornOracle::shifted_losses(const double* w, const Part& part, double* out, Resources& use) const {
  if (settings_.lam == 0.0) return points_->losses(w, part.points, out, use);
  const Workspace::Scope scope(use.workspace);
  const std::int64_t count = part.points.size;
  double* const costs = use.workspace.take<double>(count);
  points_->losses_and_costs(w, part.points, out, costs, use);
  for (std::int64_t k = 0; k < count; ++k) out[k] -= settings_.lam * costs[k];
}

// One risk a row; eta and effective may be null.
void SinkhornOracle::solve(const double* shifted, std::int64_t count, double* q, double* values, double* eta, double* effective,
                           Resources& use) const {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t m = points_->draws();
  const auto refuse = [&](std::int64_t k) {  // infinite or NaN
    double total = 0.0;
    for (std::int64_t j = 0; j < m; ++j) total += shifted[k * m + j];
    values[k] = total > 0.0 && !std::isfinite(total) ? total : kNaN;
    std::fill(q + k * m, q + (k + 1) * m, 0.0);
    if (eta != nullptr) eta[k] = kNaN;
    if (effective != nullptr) effective[k] = kNaN;
  };
  const auto rows = [&](std::int64_t begin, std::int64_t end, Resources& own) {
    RiskSolution s[kRowsAtOnce];
    while (begin < end) {
      std::int64_t ready = 0;  // rows from `begin` on that are finite
      while (ready < kRowsAtOnce && begin + ready < end && all_finite(shifted + (begin + ready) * m, m)) ++ready;
      if (ready == 0) {
        refuse(begin++);
        continue;
      }
      inner_->solve_rows(LossRows<double>{shifted + begin * m, nullptr, ready, m}, q + begin * m, s, own);
      for (std::int64_t r = 0; r < ready; ++r, ++begin) {
        values[begin] = s[r].value + settings_.constant;
        if (eta != nullptr) eta[begin] = s[r].eta;
        if (effective != nullptr) effective[begin] = s[r].effective_sample_size;
      }
    }
  };
  if (count * m < kSerial || count == 1) return rows(0, count, use);
  const std::int64_t each = std::max<std::int64_t>(1, kRowsTogether / m), blocks = (count + each - 1) / each;
  const auto spaces = std::make_unique<Workspace[]>(static_cast<std::size_t>(blocks));
  parallel_blocks(blocks, use.threads, [&](std::int64_t b) {
    use.poll();
    Resources own{spaces[static_cast<std::size_t>(b)], 1, nullptr};
    rows(b * each, std::min(count, (b + 1) * each), own);
  });
}

void SinkhornOracle::losses(const double* w, Batch batch, double* out, Resources& use) const {
  const Workspace::Scope scope(use.workspace);
  double* const l = use.workspace.take<double>(std::min(part(), batch.size) * points_->draws());
  for_parts(batch, use, [&](const Part& p) {
    shifted_losses(w, p, l, use);
    solve(l, p.count, p.q, out + p.first, nullptr, nullptr, use);
  });
}

// With memory, q and what the points remember are there; else the inner problems are solved again.
void SinkhornOracle::gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const {
  const Workspace::Scope scope(use.workspace);
  const std::int64_t m = points_->draws(), most = std::min(part(), batch.size);
  double* const l = use.workspace.take<double>(most * m);
  double* const values = use.workspace.take<double>(most);
  double* const more = use.workspace.take<double>(dim());
  std::fill(out, out + dim(), 0.0);
  for_parts(batch, use, [&](const Part& p) {
    if (batch.memory == nullptr) {
      shifted_losses(w, p, l, use);
      solve(l, p.count, p.q, values, nullptr, nullptr, use);
    }
    for (std::int64_t k = 0; k < p.count; ++k)
      for (std::int64_t j = 0; j < m; ++j) l[k * m + j] = weights[p.first + k] * p.q[k * m + j];
    points_->gradient(w, p.points, l, more, use);
    accumulate(more, dim(), out);
  });
}

void SinkhornOracle::evaluate(const double* w, const double* p, SinkhornAnswers out, Resources& use) const {
  const Workspace::Scope scope(use.workspace);
  const std::int64_t m = points_->draws(), n = size();
  double* const l = use.workspace.take<double>(std::min(part(), n) * m);
  double* const more = use.workspace.take<double>(dim());
  const double equal = 1.0 / static_cast<double>(n);
  std::fill(out.gradient, out.gradient + dim(), 0.0);
  for_parts(Batch{nullptr, n}, use, [&](const Part& s) {
    shifted_losses(w, s, l, use);
    solve(l, s.count, s.q, out.values + s.first, out.eta + s.first, out.effective + s.first, use);
    for (std::int64_t k = 0; k < s.count; ++k)
      for (std::int64_t j = 0; j < m; ++j) l[k * m + j] = (p != nullptr ? p[s.first + k] : equal) * s.q[k * m + j];
    points_->gradient(w, s.points, l, more, use);
    accumulate(more, dim(), out.gradient);
  });
}

void SinkhornOracle::shifted(const double* w, Batch batch, double* out, Resources& use) const {
  for_parts(batch, use, [&](const Part& p) { shifted_losses(w, p, out + p.first * points_->draws(), use); });
}

void SinkhornOracle::weights(const double* w, Batch batch, double* out, Resources& use) const {
  const Workspace::Scope scope(use.workspace);
  const std::int64_t m = points_->draws(), most = std::min(part(), batch.size);
  double* const l = use.workspace.take<double>(most * m);
  double* const values = use.workspace.take<double>(most);
  for_parts(batch, use, [&](const Part& p) {
    shifted_losses(w, p, l, use);
    solve(l, p.count, p.q, values, nullptr, nullptr, use);
    std::copy(p.q, p.q + p.count * m, out + p.first * m);
  });
}

}  // namespace leeward
