// Data that lie in a mapped file: pages are asked for ahead of a pass and given back behind it, so that a pass over a file of
// any size keeps a few megabytes of it in the process. The file's cache in the kernel is not touched, and what was given back
// can be read again at any time. Nothing happens where the system has no such calls.
#pragma once

#include <cstddef>

namespace leeward {

// Makes the pages of a range present, many at a time instead of one fault each.
void fetch_pages(const void* first, std::size_t bytes);

// Takes the pages of a range of a shared mapping out of the process.
void give_back_pages(const void* first, std::size_t bytes);

}  // namespace leeward
