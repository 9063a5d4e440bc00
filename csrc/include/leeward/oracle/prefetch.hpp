// Asks for a line of memory that will be read soon; reading beyond an array this way is harmless.
#pragma once

#if defined(__GNUC__)
#define LEEWARD_PREFETCH(address) __builtin_prefetch(address)
#else
#define LEEWARD_PREFETCH(address) static_cast<void>(address)
#endif
