// Asks for a line of memory that will be read soon, into the L1 cache or only as near as L2; reading beyond an array this way is harmless.
#pragma once

#if defined(__GNUC__)
#define LEEWARD_PREFETCH(address) __builtin_prefetch(address)
#define LEEWARD_PREFETCH_L2(address) __builtin_prefetch(address, 0, 2)
#else
#define LEEWARD_PREFETCH(address) static_cast<void>(address)
#define LEEWARD_PREFETCH_L2(address) static_cast<void>(address)
#endif
