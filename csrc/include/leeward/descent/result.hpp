// What a descent has done so far.
#pragma once

#include <cstdint>

namespace leeward {

struct Work {
  std::int64_t steps = 0;      // steps made, those made again after going back included
  std::int64_t losses = 0;     // component losses evaluated
  std::int64_t gradients = 0;  // component gradients evaluated
  std::int64_t samples = 0;    // samples drawn: one evaluated at two points counts once
};

}  // namespace leeward
