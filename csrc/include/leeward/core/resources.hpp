// What a call may use besides its arguments: scratch memory, a number of threads, and a way to be stopped.
#pragma once

#include "leeward/core/monitor.hpp"
#include "leeward/core/workspace.hpp"

namespace leeward {

struct Resources {
  Workspace& workspace;
  int threads = 1;              // resolved, at least 1
  Monitor* monitor = nullptr;   // may be null

  // In loops, on any thread: may end the call by throwing.
  void poll() const {
    if (monitor != nullptr) monitor->poll();
  }
  void glance() const {
    if (monitor != nullptr) monitor->glance();
  }
};

}  // namespace leeward
