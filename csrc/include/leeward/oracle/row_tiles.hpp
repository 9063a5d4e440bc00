// How a pass over the rows of a matrix is cut: tiles that fit the L2 cache, and tasks (runs of tiles) for the threads.
// Everything follows from sizes, never from the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "leeward/oracle/linear_matrix.hpp"

namespace leeward {

inline constexpr std::int64_t kTileEntries = 32768;  // stored entries of a tile: 256 KiB of doubles
inline constexpr std::int64_t kOnceEntries = 262144;  // of a tile whose rows are read once, and its most rows
inline constexpr std::int64_t kOnceRows = 1024;
inline constexpr std::int64_t kTaskEntries = 16384;  // the least work worth a task of its own
inline constexpr std::int64_t kMostTasks = 64;
inline constexpr std::int64_t kPartialWork = 32;  // entries read for each number of a task's own vector, at least

struct RowTiles {
  std::int64_t count = 0;  // rows in all
  std::int64_t tile = 8;   // rows of a tile
  std::int64_t tiles = 0, tasks = 0;

  // `partial` is the length of the vector each task owns (0: none); fewer tasks are made where it outweighs their work.
  static RowTiles make(std::int64_t count, const LinearMatrix& matrix, std::int64_t outputs, std::int64_t partial) {
    const std::int64_t entries = per_row(matrix);
    return cut(count, std::clamp<std::int64_t>(kTileEntries / entries, 8, 512) / 8 * 8, count * entries * outputs, partial);
  }

  // For a pass that reads each row once and keeps nothing but a number of it: longer tiles where there are rows for many, since each
  // begins by waiting for memory.
  static RowTiles once(std::int64_t count, const LinearMatrix& matrix) {
    const std::int64_t entries = per_row(matrix);
    const std::int64_t most = std::min({kOnceEntries / entries, kOnceRows, count / kMostTasks});
    return cut(count, std::max(most / 8 * 8, make(count, matrix, 1, 0).tile), count * entries, 0);
  }

  std::int64_t first_tile(std::int64_t task) const { return task * tiles / tasks; }
  std::int64_t first_row(std::int64_t j) const { return j * tile; }
  std::int64_t rows_of(std::int64_t j) const { return std::min(tile, count - j * tile); }

 private:
  static std::int64_t per_row(const LinearMatrix& matrix) {
    return 1 + matrix.entries() / std::max<std::int64_t>(matrix.rows(), 1);
  }
  static RowTiles cut(std::int64_t count, std::int64_t tile, std::int64_t work, std::int64_t partial) {
    RowTiles t;
    t.count = count;
    t.tile = tile;
    t.tiles = (count + tile - 1) / tile;
    t.tasks = std::min({t.tiles, kMostTasks, work / kTaskEntries});
    if (partial > 0) t.tasks = std::min(t.tasks, work / (kPartialWork * partial));
    t.tasks = std::max<std::int64_t>(t.tasks, count > 0 ? 1 : 0);
    return t;
  }
};

}  // namespace leeward
