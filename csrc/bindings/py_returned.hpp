// What user functions return, taken into the core's memory: checked for kind, shape and finite values.
#pragma once

#include <cstdint>

#include "common.hpp"

namespace leeward::python {

// OracleError, or its subclass InfiniteError where the point is out of the function's range.
[[noreturn]] void oracle_error(const std::string& message, bool infinite = false);

// What an array must be, in words for messages: "losses(w, index)", "one loss for each entry of index".
struct Wanted {
  const char* call;
  const char* meaning;
};

// Copies `count` real numbers out of `result`. Returns whether all are finite; OracleError unless it is a one-dimensional
// array (or something that becomes one) of that many real numbers. A contiguous float64 ndarray takes the short way.
bool take(PyObject* result, std::int64_t count, const Wanted& wanted, double* out);


}  // namespace leeward::python
