// Views of the caller's memory: a dense row-major matrix, a CSR matrix, and a batch of row numbers.
// A view owns nothing; whoever makes it keeps the arrays alive. Sizes are 64-bit, so more than 2^31 elements work.
#pragma once

#include <cstdint>

namespace leeward {

// Row i starts at data + i * stride; the columns of a row are contiguous. T is float or double, read as it comes.
template <class T>
struct DenseView {
  const T* data = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::int64_t stride = 0;  // elements from one row to the next, may be larger than cols
  const T* row(std::int64_t i) const { return data + i * stride; }
};

// Row i holds entries [indptr[i], indptr[i + 1]). indptr is always 64-bit; I is int32_t or int64_t.
template <class T, class I>
struct CsrView {
  const T* data = nullptr;
  const I* indices = nullptr;
  const std::int64_t* indptr = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::int64_t entries() const { return indptr[rows]; }
};

// The rows a call is about: index[0..size), or rows 0..size-1 in order when index is null (then size == rows).
struct Batch {
  const std::int64_t* index = nullptr;
  std::int64_t size = 0;
  // Room for size * Oracle::memory_per_sample() numbers, or null. A call for the losses of rows picked by number leaves there what the
  // gradient of the same rows at the same w needs; a call for a gradient with it must come after such a call.
  double* memory = nullptr;
  std::int64_t operator[](std::int64_t k) const { return index ? index[k] : k; }
};

}  // namespace leeward
