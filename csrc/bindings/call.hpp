// What a bound call needs: scratch memory of the calling thread, and checked pointers into NumPy arrays.
#pragma once

#include <string>
#include <vector>

#include "common.hpp"
#include "leeward/core/parallel.hpp"
#include "leeward/core/resources.hpp"
#include "py_monitor.hpp"

namespace leeward::python {

using Doubles = py::array_t<double, py::array::c_style>;
using Integers = py::array_t<std::int64_t, py::array::c_style>;

// One a thread and kept, so that repeated calls fault no fresh pages.
inline Workspace& thread_workspace() {
  static thread_local Workspace workspace;
  return workspace;
}

// Resources of one call, which Ctrl-C can end. threads: 0 means the default.
class CallResources : public Resources {
 public:
  explicit CallResources(int request) : Resources{thread_workspace(), resolve_threads(request)} { monitor = &signals_; }
  CallResources(const CallResources&) = delete;
  CallResources& operator=(const CallResources&) = delete;

 private:
  PyMonitor signals_;
};

inline std::vector<double> vector_of(const Doubles& a) { return {a.data(), a.data() + a.size()}; }

inline std::string shape_of(const py::array& a) { return py::str(a.attr("shape")); }

// Data of `a`, which must have `size` elements.
inline const double* input(const Doubles& a, std::int64_t size, const char* name) {
  if (a.size() != size)
    throw py::value_error(std::string(name) + " must hold " + std::to_string(size) + " numbers, got shape " + shape_of(a));
  return a.data();
}
inline double* output(Doubles& a, std::int64_t size, const char* name) {
  if (a.size() != size)
    throw py::value_error(std::string(name) + " must hold " + std::to_string(size) + " numbers, got shape " + shape_of(a));
  return a.mutable_data();
}

}  // namespace leeward::python
