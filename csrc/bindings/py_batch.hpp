// Batches from index arrays.
#pragma once

#include <optional>
#include <string>

#include <pybind11/stl.h>

#include "call.hpp"
#include "leeward/oracle/oracle.hpp"

namespace leeward::python {

using OptionalIndex = std::optional<Integers>;

// A batch from an index array of numbers below `population` (null: all `size` samples), checked.
inline Batch batch_of(const OptionalIndex& index, std::int64_t size, std::int64_t population) {
  if (!index) return {nullptr, size};
  if (index->ndim() != 1) throw py::value_error("index must be one-dimensional, got shape " + shape_of(*index));
  const std::int64_t* const i = index->data();
  const std::int64_t m = index->shape(0);
  for (std::int64_t k = 0; k < m; ++k)
    if (i[k] < 0 || i[k] >= population)
      throw py::index_error("index[" + std::to_string(k) + "] is " + std::to_string(i[k]) + ", must be in [0, " +
                            std::to_string(population) + ")");
  static constexpr std::int64_t kNothing = 0;  // an empty batch is not the batch of all samples
  return {m > 0 ? i : &kNothing, m};
}

inline Batch batch_of(const OptionalIndex& index, const Oracle& oracle) { return batch_of(index, oracle.size(), oracle.population()); }

}  // namespace leeward::python
