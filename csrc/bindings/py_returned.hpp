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
// The same for a table of shape (rows, cols), row-major; a vector will do where one of the two is 1.
bool take_table(PyObject* result, std::int64_t rows, std::int64_t cols, const Wanted& wanted, double* out);
// The short way alone: false where it is not open. `finite` says whether all numbers are.
bool take_plain(PyObject* result, std::int64_t count, double* out, bool* finite);
bool take_plain(PyObject* result, std::int64_t rows, std::int64_t cols, double* out, bool* finite);

}  // namespace leeward::python
