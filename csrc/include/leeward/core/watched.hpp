// Sorting and selecting long ranges in a way that a monitor can end: the comparison looks at it now and then. The order of the
// range is then unspecified, its elements are all there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "leeward/core/resources.hpp"

namespace leeward {

// `less`, with a look at the monitor every 65536 comparisons; copies share their count.
template <class Less>
class Watched {
 public:
  Watched(Less less, const Resources& use, std::uint32_t* count) : less_(std::move(less)), use_(&use), count_(count) {}
  template <class T>
  bool operator()(const T& a, const T& b) const {
    if (++*count_ % 65536 == 0) use_->poll();
    return less_(a, b);
  }

 private:
  Less less_;
  const Resources* use_;
  std::uint32_t* count_;
};

inline constexpr std::int64_t kWatchFrom = std::int64_t{1} << 20;  // shorter ranges take less than the time between two looks

template <class T, class Less>
void watched_sort(T* first, T* last, Less less, const Resources& use) {
  std::uint32_t count = 0;
  if (last - first < kWatchFrom || use.monitor == nullptr)
    std::sort(first, last, less);
  else
    std::sort(first, last, Watched<Less>(less, use, &count));
}

template <class T, class Less>
void watched_nth_element(T* first, T* nth, T* last, Less less, const Resources& use) {
  std::uint32_t count = 0;
  if (last - first < kWatchFrom || use.monitor == nullptr)
    std::nth_element(first, nth, last, less);
  else
    std::nth_element(first, nth, last, Watched<Less>(less, use, &count));
}

}  // namespace leeward
