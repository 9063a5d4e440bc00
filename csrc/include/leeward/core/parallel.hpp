// parallel_blocks(count, threads, f): f(0), ..., f(count - 1), each once, on up to `threads` threads.
//
// The only place that knows OpenMP or std::thread (csrc/src/parallel.cpp). `count` must follow from the size of the
// problem alone and f must write to memory of its own block, so that results do not depend on the number of threads.
// The first exception thrown by f is rethrown here. A forked child runs serially, since a thread pool does not survive fork.
#pragma once

#include <cstdint>
#include <type_traits>

namespace leeward {

// A request of 0 means the default: LEEWARD_NUM_THREADS, else OMP_NUM_THREADS, else the CPUs this process may use
// (affinity and container quota). Never less than 1. Throws std::invalid_argument for a negative request.
int resolve_threads(int requested);

// "openmp" or "std::thread".
const char* parallel_backend();

namespace detail {
void run_blocks(std::int64_t count, int threads, void (*call)(void*, std::int64_t), void* context);
}

template <class F>
void parallel_blocks(std::int64_t count, int threads, F&& f) {
  if (count <= 1 || threads <= 1) {
    for (std::int64_t b = 0; b < count; ++b) f(b);
    return;
  }
  using Body = std::remove_reference_t<F>;
  detail::run_blocks(
      count, threads, [](void* context, std::int64_t b) { (*static_cast<Body*>(context))(b); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace leeward
