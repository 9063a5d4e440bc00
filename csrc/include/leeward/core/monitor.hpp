// The hook by which long loops can be stopped. Loops call poll() often, or glance() where a turn takes a few microseconds;
// both are cheap and look at the outside world at most every 20 ms. An implementation stops a run by throwing (the bindings
// throw Python's KeyboardInterrupt).
//
// A monitor belongs to the thread that made it: on any other thread both do nothing, so blocks of parallel work may call
// them, and the part that the calling thread works on is where a run is stopped.
#pragma once

#include <chrono>

namespace leeward {

class Monitor {
 public:
  virtual ~Monitor() = default;

  void poll() {
    if (here() != owner_) return;
    const auto now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(20)) return;
    last_ = now;
    check();
  }

  // Looks at the clock every 16th time only.
  void glance() {
    if (here() == owner_ && ++glances_ % 16 == 0) poll();
  }

 protected:
  virtual void check() = 0;

 private:
  using Clock = std::chrono::steady_clock;
  // An address that no other living thread has.
  static const void* here() {
    static thread_local char mark;
    return &mark;
  }

  const void* owner_ = here();
  unsigned glances_ = 0;
  Clock::time_point last_ = Clock::now();
};

}  // namespace leeward
