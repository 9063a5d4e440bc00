#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "harness.hpp"
#include "leeward/core/parallel.hpp"

#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace leeward;

namespace {

bool each_block_ran_once(std::int64_t count, int threads) {
  std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
  parallel_blocks(count, threads, [&](std::int64_t b) { ++runs[static_cast<std::size_t>(b)]; });
  for (const auto& r : runs)
    if (r != 1) return false;
  return true;
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text << '\n';
}

}  // namespace

TEST("each block runs once, for any number of threads") {
  for (const std::int64_t count : {0, 1, 2, 7, 1000})
    for (const int threads : {1, 2, 3, 16, 1000000}) CHECK(each_block_ran_once(count, threads));
}

TEST("many short calls end") {
  std::atomic<std::int64_t> total{0};
  for (int call = 0; call < 2000; ++call) parallel_blocks(4, 3, [&](std::int64_t b) { total += b; });
  CHECK(total == 2000 * 6);
}

TEST("the exception of the lowest failing block is the one rethrown, and later calls work") {
  for (int round = 0; round < 200; ++round) {
    std::string message;
    try {
      parallel_blocks(100, 3, [](std::int64_t b) {
        if (b >= 17) throw std::runtime_error(std::to_string(b));
      });
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    CHECK(message == "17");
  }
  CHECK(each_block_ran_once(50, 3));
}

TEST("a call from inside a block runs on the block's own thread") {
  std::atomic<int> elsewhere{0}, inner{0};
  parallel_blocks(8, 3, [&](std::int64_t) {
    const auto self = std::this_thread::get_id();
    parallel_blocks(8, 3, [&](std::int64_t) {
      ++inner;
      if (std::this_thread::get_id() != self) ++elsewhere;
    });
  });
  CHECK(inner == 64);
  CHECK(elsewhere == 0);
}

TEST("two callers at once both end with all their blocks done") {
  std::vector<std::thread> callers;
  std::atomic<int> good{0};
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&good] {
      bool all = true;
      for (int round = 0; round < 200; ++round) all = each_block_ran_once(20, 3) && all;
      if (all) ++good;
    });
  for (std::thread& t : callers) t.join();
  CHECK(good == 3);
}

#if defined(__unix__) && !defined(__SANITIZE_THREAD__)
TEST("a child forked while another thread is in a parallel call runs serially and ends") {
  CHECK(each_block_ran_once(100, 3));
  std::atomic<bool> stop{false};
  std::thread busy([&stop] {
    while (!stop) parallel_blocks(64, 3, [](std::int64_t) {});
  });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a hang ends by a signal
      const auto self = std::this_thread::get_id();
      bool serial = true;
      parallel_blocks(100, 3, [&](std::int64_t) { serial = serial && std::this_thread::get_id() == self; });
      _exit(serial ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  busy.join();
}
#endif

TEST("a quota of version 2 is read from the group and from those above it") {
  const auto root = std::filesystem::temp_directory_path() / ("leeward_cgroup_" + std::to_string(::getpid()));
  std::filesystem::remove_all(root);
  write(root / "a/b/cpu.max", "250000 100000");
  CHECK(detail::cgroup_cpus("0::/a/b\n", root.string()) == 3);
  write(root / "a/cpu.max", "100000 100000");
  CHECK(detail::cgroup_cpus("0::/a/b\n", root.string()) == 1);
  write(root / "a/b/cpu.max", "max 100000");
  write(root / "a/cpu.max", "max 100000");
  CHECK(detail::cgroup_cpus("0::/a/b\n", root.string()) == 0);
  write(root / "cpu.max", "50000 100000");
  CHECK(detail::cgroup_cpus("0::/not/visible/here\n", root.string()) == 1);
  std::filesystem::remove_all(root);
}

TEST("a quota of version 1 is read, and -1 is none") {
  const auto root = std::filesystem::temp_directory_path() / ("leeward_cgroup1_" + std::to_string(::getpid()));
  std::filesystem::remove_all(root);
  const std::string membership = "5:memory:/x\n4:cpu,cpuacct:/box\n1:cpuset:/x\n";
  write(root / "cpu,cpuacct/box/cpu.cfs_quota_us", "400000");
  write(root / "cpu,cpuacct/box/cpu.cfs_period_us", "100000");
  CHECK(detail::cgroup_cpus(membership, root.string()) == 4);
  write(root / "cpu,cpuacct/box/cpu.cfs_quota_us", "-1");
  CHECK(detail::cgroup_cpus(membership, root.string()) == 0);
  CHECK(detail::cgroup_cpus("", root.string()) == 0);
  CHECK(detail::cgroup_cpus("garbage\n::\n", root.string()) == 0);
  std::filesystem::remove_all(root);
}

TEST("the number of threads comes from the request, then LEEWARD_NUM_THREADS, then OMP_NUM_THREADS") {
  CHECK(resolve_threads(5) == 5);
  setenv("OMP_NUM_THREADS", "4,2", 1);
  unsetenv("LEEWARD_NUM_THREADS");
  CHECK(resolve_threads(0) == 4);
  setenv("OMP_NUM_THREADS", "many", 1);
  CHECK(resolve_threads(0) >= 1);
  setenv("LEEWARD_NUM_THREADS", "3", 1);
  CHECK(resolve_threads(0) == 3);
  for (const char* wrong : {"0", "-1", "two", "2x", "99999999999999"}) {
    setenv("LEEWARD_NUM_THREADS", wrong, 1);
    bool thrown = false;
    try {
      resolve_threads(0);
    } catch (const std::invalid_argument&) {
      thrown = true;
    }
    CHECK(thrown);
  }
  unsetenv("LEEWARD_NUM_THREADS");
  unsetenv("OMP_NUM_THREADS");
  bool thrown = false;
  try {
    resolve_threads(-1);
  } catch (const std::invalid_argument&) {
    thrown = true;
  }
  CHECK(thrown);
}
