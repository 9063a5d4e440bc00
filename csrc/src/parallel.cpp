#include "leeward/core/parallel.hpp"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace leeward {
namespace {

#if defined(__unix__) || defined(__APPLE__)
// The process that first ran a parallel region; a child forked from it must not touch the inherited thread pool.
std::atomic<long> pool_owner{0};

bool forked_child() {
  const long self = static_cast<long>(getpid());
  long owner = 0;
  return !pool_owner.compare_exchange_strong(owner, self) && owner != self;
}
#else
bool forked_child() { return false; }
#endif

int environment_threads(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return 0;
  const int value = std::atoi(text);
  return value > 0 ? value : 0;
}

int usable_cpus() {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  const unsigned n = std::thread::hardware_concurrency();
  return n > 0 ? static_cast<int>(n) : 1;
}

// Runs blocks until none is left; keeps the first exception.
struct Shared {
  std::int64_t count;
  void (*call)(void*, std::int64_t);
  void* context;
  std::atomic<std::int64_t> next{0};
  std::mutex guard;
  std::exception_ptr error;

  void work() noexcept {
    for (;;) {
      const std::int64_t b = next.fetch_add(1, std::memory_order_relaxed);
      if (b >= count) return;
      try {
        call(context, b);
      } catch (...) {
        const std::lock_guard<std::mutex> hold(guard);
        if (!error) error = std::current_exception();
        next.store(count);
      }
    }
  }
};

}  // namespace

int resolve_threads(int requested) {
  if (requested < 0) throw std::invalid_argument("threads must be at least 1, got " + std::to_string(requested));
  if (requested > 0) return requested;
  if (const int n = environment_threads("LEEWARD_NUM_THREADS")) return n;
  if (const int n = environment_threads("OMP_NUM_THREADS")) return n;
  static const int cpus = usable_cpus();
  return cpus;
}

const char* parallel_backend() {
#if defined(LEEWARD_HAVE_OPENMP)
  return "openmp";
#else
  return "std::thread";
#endif
}

namespace detail {

void run_blocks(std::int64_t count, int threads, void (*call)(void*, std::int64_t), void* context) {
  if (threads > count) threads = static_cast<int>(count);
  if (threads <= 1 || forked_child()) {
    for (std::int64_t b = 0; b < count; ++b) call(context, b);
    return;
  }
  Shared shared{.count = count, .call = call, .context = context, .next = 0, .guard = {}, .error = {}};
#if defined(LEEWARD_HAVE_OPENMP)
#pragma omp parallel num_threads(threads)
  shared.work();
#else
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(threads - 1));
  for (int t = 1; t < threads; ++t) others.emplace_back([&shared] { shared.work(); });
  shared.work();
  for (std::thread& t : others) t.join();
#endif
  if (shared.error) std::rethrow_exception(shared.error);
}

}  // namespace detail
}  // namespace leeward
