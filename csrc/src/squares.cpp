#include "leeward/oracle/squares.hpp"

#include <algorithm>

#include "leeward/core/parallel.hpp"
#include "leeward/oracle/page_run.hpp"
#include "leeward/oracle/row_tiles.hpp"

namespace leeward {

void column_squares(const LinearMatrix& x, const double* p, double* sums, double* tops, Resources& use) {
  const std::int64_t cols = x.cols(), two = 2 * cols;
  const RowTiles t = RowTiles::make(x.rows(), x, 1, two);
  const Workspace::Scope scope(use.workspace);
  double* const partial = use.workspace.take<double>(t.tasks * two);
  std::fill(partial, partial + t.tasks * two, 0.0);
  parallel_blocks(t.tasks, use.threads, [&](std::int64_t task) {
    double* const own = partial + task * two;
    PageRun pages(x, {nullptr, x.rows()}, t.first_row(t.first_tile(task + 1)));
    for (std::int64_t j = t.first_tile(task); j < t.first_tile(task + 1); ++j) {
      use.poll();
      pages.read(t.first_row(j), t.rows_of(j));
      x.add_squares({nullptr, t.first_row(j), t.rows_of(j)}, p != nullptr ? p + t.first_row(j) : nullptr, own, own + cols);
    }
  });
  const double share = p != nullptr ? 1.0 : 1.0 / static_cast<double>(std::max<std::int64_t>(x.rows(), 1));
  std::fill(sums, sums + cols, 0.0);
  std::fill(tops, tops + cols, 0.0);
  for (std::int64_t task = 0; task < t.tasks; ++task)
    for (std::int64_t j = 0; j < cols; ++j) {
      sums[j] += partial[task * two + j] * share;
      tops[j] = std::max(tops[j], partial[task * two + cols + j]);
    }
}

void row_squares(const LinearMatrix& x, const double* metric, double* out, Resources& use) {
  const RowTiles t = RowTiles::make(x.rows(), x, 1, 0);
  parallel_blocks(t.tasks, use.threads, [&](std::int64_t task) {
    PageRun pages(x, {nullptr, x.rows()}, t.first_row(t.first_tile(task + 1)));
    for (std::int64_t j = t.first_tile(task); j < t.first_tile(task + 1); ++j) {
      use.poll();
      pages.read(t.first_row(j), t.rows_of(j));
      x.squares({nullptr, t.first_row(j), t.rows_of(j)}, metric, out + t.first_row(j));
    }
  });
}

}  // namespace leeward
