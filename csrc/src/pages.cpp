#include "leeward/core/pages.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#endif

namespace leeward {

#if defined(__linux__)
namespace {

// The whole pages that hold some bytes. (A page of two neighbours comes back when the other one reads it.)
void advise(const void* first, std::size_t bytes, int advice) {
  if (bytes == 0) return;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(first) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(first) + bytes + page - 1) / page * page;
  // Only advice: where it is refused (an older kernel), pages come and go by themselves.
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

void fetch_pages(const void* first, std::size_t bytes) {
#if defined(MADV_POPULATE_READ)
  advise(first, bytes, MADV_POPULATE_READ);
#else
  advise(first, bytes, MADV_WILLNEED);
#endif
}

void give_back_pages(const void* first, std::size_t bytes) { advise(first, bytes, MADV_DONTNEED); }
#else
void fetch_pages(const void*, std::size_t) {}
void give_back_pages(const void*, std::size_t) {}
#endif

}  // namespace leeward
