// Moments of the normal draws of a stream, without storing them: a long loop that can be stopped.
#pragma once

#include <cstdint>

#include "leeward/core/monitor.hpp"
#include "leeward/core/stream.hpp"

namespace leeward {

struct Moments {
  double first = 0, second = 0, third = 0, fourth = 0;  // means of z, z^2, z^3, z^4
};

Moments normal_moments(const Stream& stream, std::int64_t count, Monitor* monitor);

}  // namespace leeward
