// Ctrl-C in native loops: Python's signal handlers run, and what they raise (KeyboardInterrupt) ends the loop.
#pragma once

#include "common.hpp"
#include "leeward/core/monitor.hpp"

namespace leeward::python {

class PyMonitor final : public Monitor {
 protected:
  void check() override {
    const py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
};

}  // namespace leeward::python
