// parallel_blocks(count, threads, f): f(0), ..., f(count - 1), each once, on up to `threads` threads.
//
// The only place that knows OpenMP or std::thread (csrc/src/parallel.cpp). `count` must follow from the size of the
// problem alone and f must write to memory of its own block, so that results do not depend on the number of threads.
// The exception of the lowest block that throws is rethrown here, which is the one a serial run would give. A call from
// inside a block runs serially, and so does every call in a forked child, since threads do not survive a fork. f runs
// on other threads than the caller's: it must not touch Python.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

namespace leeward {

// A request of 0 means the default: LEEWARD_NUM_THREADS, else OMP_NUM_THREADS (its first number), else the CPUs this
// process may use (affinity and container quota). Never less than 1. Throws std::invalid_argument for a negative request
// and for a LEEWARD_NUM_THREADS that is not a number of threads.
int resolve_threads(int requested);

// "openmp" or "std::thread".
const char* parallel_backend();

namespace detail {
void run_blocks(std::int64_t count, int threads, void (*call)(void*, std::int64_t), void* context);

// The CPUs allowed by the control groups of a process (quota / period rounded up, the least over the groups above it), or 0
// for no limit. `membership` is the text of /proc/self/cgroup, `root` the mount point, usually /sys/fs/cgroup.
int cgroup_cpus(const std::string& membership, const std::string& root);
}  // namespace detail

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
