// The hook by which long loops can be stopped. Loops call poll() often; it is cheap and looks at the outside world at most
// every 20 ms. An implementation stops a run by throwing (the bindings throw Python's KeyboardInterrupt).
#pragma once

#include <chrono>

namespace leeward {

class Monitor {
 public:
  virtual ~Monitor() = default;

  void poll() {
    const auto now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(20)) return;
    last_ = now;
    check();
  }

 protected:
  virtual void check() = 0;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

}  // namespace leeward
