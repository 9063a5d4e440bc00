// Threads: how many there may be, and the two ways to run blocks on them (a pool of std::thread, or OpenMP).
#include "leeward/core/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <limits>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace leeward {
namespace {

// A child made by fork has the forking thread alone: whatever pool the parent had would never answer.
std::atomic<bool> forked_child{false};
#if defined(__unix__) || defined(__APPLE__)
[[maybe_unused]] const int watch_forks = pthread_atfork(nullptr, nullptr, [] { forked_child.store(true); });
#endif

// True on a thread that is running a block.
thread_local bool inside_block = false;

struct InsideBlock {
  const bool before = inside_block;
  InsideBlock() { inside_block = true; }
  ~InsideBlock() { inside_block = before; }
  InsideBlock(const InsideBlock&) = delete;
  InsideBlock& operator=(const InsideBlock&) = delete;
};

// The integer at the start of `text`, or 0 if there is none of at least 1; `rest` is what follows.
int leading_count(const char* text, const char** rest) {
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text, &end, 10);
  *rest = end;
  if (end == text || errno != 0 || value < 1 || value > std::numeric_limits<int>::max()) return 0;
  return static_cast<int>(value);
}

int environment_threads() {
  const char* rest = nullptr;
  if (const char* text = std::getenv("LEEWARD_NUM_THREADS"); text != nullptr && *text != '\0') {
    const int n = leading_count(text, &rest);
    if (n == 0 || *rest != '\0')
      throw std::invalid_argument(std::string("LEEWARD_NUM_THREADS must be an integer of at least 1, got '") + text + "'");
    return n;
  }
  if (const char* text = std::getenv("OMP_NUM_THREADS")) return leading_count(text, &rest);
  return 0;
}

int affinity_cpus() {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// Read once: a quota does not move in practice, and the files cost tens of microseconds. 0 for none.
int quota_cpus() {
#if defined(__linux__)
  static std::atomic<int> known{-1};
  if (const int n = known.load(std::memory_order_relaxed); n >= 0) return n;
  std::ostringstream membership;
  membership << std::ifstream("/proc/self/cgroup").rdbuf();
  const int n = detail::cgroup_cpus(membership.str(), "/sys/fs/cgroup");
  known.store(n, std::memory_order_relaxed);
  return n;
#else
  return 0;
#endif
}

// quota / period rounded up; 0 where either is missing, "max" or -1.
int cpus_of(const std::string& quota, const std::string& period) {
  const double q = std::strtod(quota.c_str(), nullptr), p = std::strtod(period.c_str(), nullptr);
  if (!(q > 0.0) || !(p > 0.0) || q / p > 1e6) return 0;
  return std::max(1, static_cast<int>(std::ceil(q / p)));
}

std::string first_word(std::istream& file) {
  std::string word;
  file >> word;
  return word;
}

// Limit of one group: cpu.max of version 2, the pair of files of version 1.
int group_cpus(const std::string& folder) {
  if (std::ifstream file(folder + "/cpu.max"); file) {
    const std::string quota = first_word(file);
    return cpus_of(quota, first_word(file));
  }
  std::ifstream quota(folder + "/cpu.cfs_quota_us"), period(folder + "/cpu.cfs_period_us");
  return cpus_of(first_word(quota), first_word(period));
}

// The blocks of one call: handed out in order until none is left.
class Blocks {
 public:
  Blocks(std::int64_t count, void (*call)(void*, std::int64_t), void* context)
      : count_(count), call_(call), context_(context), failed_(count) {}

  void work() noexcept {
    const InsideBlock mark;
    for (;;) {
      const std::int64_t b = next_.fetch_add(1, std::memory_order_relaxed);
      if (b >= count_) return;
      try {
        call_(context_, b);
      } catch (...) {
        const std::lock_guard<std::mutex> hold(guard_);
        if (b < failed_) {
          failed_ = b;
          error_ = std::current_exception();
        }
        next_.store(count_, std::memory_order_relaxed);  // blocks before b were handed out before it
      }
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const std::int64_t count_;
  void (*const call_)(void*, std::int64_t);
  void* const context_;
  std::atomic<std::int64_t> next_{0};
  std::mutex guard_;
  std::int64_t failed_;
  std::exception_ptr error_;
};

// More threads than this are not started, however many are asked for; results do not depend on it.
int team_limit() {
  static const int limit = std::max(16, 2 * static_cast<int>(std::thread::hardware_concurrency()));
  return limit;
}

#if !defined(LEEWARD_HAVE_OPENMP)

void pause() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Threads kept between calls. A caller posts its blocks, works on them itself and waits only for helpers that took a block:
// one that the system has not scheduled in time is not waited for, so a busy machine costs a call no more than a serial run.
class Pool {
 public:
  // Made once and never destroyed: its threads wait in it until the process ends.
  static Pool& instance() {
    static Pool* const pool = new Pool;
    return *pool;
  }

  void run(Blocks& blocks, int helpers) {
    Job job{.blocks = &blocks, .seats = helpers, .active = 0};
    {
      const std::lock_guard<std::mutex> hold(guard_);
      jobs_.push_back(&job);
      while (idle_ < helpers && start_thread()) {
      }
      posted_.fetch_add(1, std::memory_order_release);
    }
    if (helpers == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
    blocks.work();
    std::unique_lock<std::mutex> hold(guard_);
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    left_.wait(hold, [&job] { return job.active == 0; });
  }

 private:
  struct Job {
    Blocks* blocks;
    int seats;   // helpers that may still join
    int active;  // helpers at work
  };
  static constexpr int kSpins = 1000;  // 15 to 40 microseconds: the next call of a loop often comes sooner

  // Under guard_. False if there are enough threads or the system refuses another.
  bool start_thread() {
    if (total_ >= team_limit() - 1) return false;
    try {
      std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++total_;
    ++idle_;
    return true;
  }

  Job* open_job() const {
    for (Job* job : jobs_)
      if (job->seats > 0) return job;
    return nullptr;
  }

  [[noreturn]] void serve() {
    for (;;) {
      const std::uint64_t seen = posted_.load(std::memory_order_acquire);
      std::unique_lock<std::mutex> hold(guard_);
      Job* job = open_job();
      if (job == nullptr) {
        hold.unlock();
        for (int k = 0; k < kSpins && posted_.load(std::memory_order_acquire) == seen; ++k) pause();
        hold.lock();
        wake_.wait(hold, [&] { return (job = open_job()) != nullptr; });
      }
      --job->seats;
      ++job->active;
      --idle_;
      hold.unlock();
      job->blocks->work();
      hold.lock();
      ++idle_;
      if (--job->active == 0) left_.notify_all();
    }
  }

  std::mutex guard_;
  std::condition_variable wake_, left_;
  std::vector<Job*> jobs_;
  int total_ = 0, idle_ = 0;  // threads; of them not at work
  std::atomic<std::uint64_t> posted_{0};
};

#endif

}  // namespace

int resolve_threads(int requested) {
  if (requested < 0)
    throw std::invalid_argument("threads must be an integer of at least 1, got " + std::to_string(requested));
  if (requested > 0) return requested;
  if (const int n = environment_threads()) return n;
  const int cpus = affinity_cpus(), quota = quota_cpus();
  return quota > 0 ? std::min(cpus, quota) : cpus;
}

const char* parallel_backend() {
#if defined(LEEWARD_HAVE_OPENMP)
  return "openmp";
#else
  return "std::thread";
#endif
}

namespace detail {

int cgroup_cpus(const std::string& membership, const std::string& root) {
  int least = 0;
  const auto look = [&least](const std::string& folder) {
    const int n = group_cpus(folder);
    if (n > 0) least = least > 0 ? std::min(least, n) : n;
  };
  // Lines are "0::/path" in version 2 and "4:cpu,cpuacct:/path" in version 1. In a container the path may be the host's:
  // then only the mount point itself exists, which is the container's own group.
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t one = line.find(':'), two = one == std::string::npos ? one : line.find(':', one + 1);
    if (two == std::string::npos) continue;
    const std::string controllers = line.substr(one + 1, two - one - 1);
    std::string path = line.substr(two + 1);
    if (("," + controllers + ",").find(",cpu,") == std::string::npos && !controllers.empty()) continue;
    const std::string mount = controllers.empty() ? root : root + "/" + controllers;
    while (!path.empty() && path != "/") {
      look(mount + path);
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
    look(mount);
    if (!controllers.empty()) look(root + "/cpu");
  }
  return least;
}

void run_blocks(std::int64_t count, int threads, void (*call)(void*, std::int64_t), void* context) {
  const int team = static_cast<int>(std::min<std::int64_t>({count, threads, team_limit()}));
  if (team <= 1 || inside_block || forked_child.load(std::memory_order_relaxed)) {
    for (std::int64_t b = 0; b < count; ++b) call(context, b);
    return;
  }
  Blocks blocks(count, call, context);
#if defined(LEEWARD_HAVE_OPENMP)
#pragma omp parallel num_threads(team)
  blocks.work();
#else
  Pool::instance().run(blocks, team - 1);
#endif
  blocks.rethrow();
}

}  // namespace detail
}  // namespace leeward
