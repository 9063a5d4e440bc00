#include "py_arguments.hpp"

namespace leeward::python {

Arguments::OfSize& Arguments::of_size(std::int64_t count) {
  OfSize* oldest = sizes.data();
  ++calls;
  for (OfSize& s : sizes) {
    if (s.index.count() == count) {
      s.used = calls;
      return s;
    }
    if (s.used < oldest->used) oldest = &s;
  }
  *oldest = OfSize{};
  oldest->used = calls;
  return *oldest;
}

ArgumentSets::Lease::Lease(ArgumentSets& sets) : sets_(sets) {
  while (place_ < kKept && sets_.taken_[static_cast<std::size_t>(place_)].test_and_set(std::memory_order_acquire)) ++place_;
  if (place_ == kKept) fresh_.emplace();
}

}  // namespace leeward::python
