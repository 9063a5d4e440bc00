// How a pass over the rows of a matrix is cut: tiles that fit the L2 cache, and tasks (runs of tiles) for the threads.
// Everything follows from sizes, never from the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "leeward/oracle/linear_matrix.hpp"

namespace leeward {

inline constexpr std::int64_t kTileEntries = 32768;  // stored entries of a tile: 256 KiB of doubles
inline constexpr std::int64_t kTaskEntries = 16384;  // the least work worth a task of its own
inline constexpr std::int64_t kMostTasks = 64;
inline constexpr std::int64_t kPartialWork = 32;  // entries read for each number of a task's own vector, at least

struct RowTiles {
  std::int64_t count = 0;  // rows in all
  std::int64_t tile = 8;   // rows of a tile
  std::int64_t tiles = 0, tasks = 0;

  // `partial` is the length of the vector each task owns (0: none); fewer tasks are made where it outweighs their work.
  static RowTiles make(std::int64_t count, const LinearMatrix& matrix, std::int64_t outputs, std::int64_t partial) {
    RowTiles t;
    const std::int64_t per_row = 1 + matrix.entries() / std::max<std::int64_t>(matrix.rows(), 1);
    t.count = count;
    t.tile = std::clamp<std::int64_t>(kTileEntries / per_row, 8, 512) / 8 * 8;
    t.tiles = (count + t.tile - 1) / t.tile;
    const std::int64_t work = count * per_row * outputs;
    t.tasks = std::min({t.tiles, kMostTasks, work / kTaskEntries});
    if (partial > 0) t.tasks = std::min(t.tasks, work / (kPartialWork * partial));
    t.tasks = std::max<std::int64_t>(t.tasks, count > 0 ? 1 : 0);
    return t;
  }

  std::int64_t first_tile(std::int64_t task) const { return task * tiles / tasks; }
  std::int64_t first_row(std::int64_t j) const { return j * tile; }
  std::int64_t rows_of(std::int64_t j) const { return std::min(tile, count - j * tile); }
};

}  // namespace leeward
