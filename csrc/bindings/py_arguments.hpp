// The arrays that user functions are called with: one-dimensional, read-only for the user, kept and refilled from call to
// call. Several sets stand ready, so that threads and functions that call their own oracle find one each.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>

#include "common.hpp"
#include "leeward/core/views.hpp"

namespace leeward::python {

// `count` numbers of our own, and the array over them that user code sees. The array keeps them alive, and cannot be made
// writable: its memory belongs to a capsule.
template <class T>
class ShownArray {
 public:
  ShownArray() = default;
  explicit ShownArray(std::int64_t count) : count_(count) {
    const auto bytes = static_cast<std::size_t>(count > 0 ? count : 1) * sizeof(T);
    data_ = static_cast<T*>(::operator new(bytes, std::align_val_t{64}));
    const py::capsule owner(data_, [](void* p) { ::operator delete(p, std::align_val_t{64}); });
    view_ = py::array(py::dtype::of<T>(), {count}, {static_cast<py::ssize_t>(sizeof(T))}, data_, owner);
    py::detail::array_proxy(view_.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  }
  // A copy of values[0..count), made in place when there is room for just that many.
  PyObject* show(const T* values, std::int64_t count) {
    if (count != count_) *this = ShownArray(count);
    if (count > 0) std::memcpy(data_, values, static_cast<std::size_t>(count) * sizeof(T));
    return view_.ptr();
  }
  T* data() { return data_; }
  std::int64_t count() const { return count_; }
  PyObject* view() const { return view_.ptr(); }
  bool holds(const T* values, std::int64_t count) const {
    return count == count_ && std::memcmp(data_, values, static_cast<std::size_t>(count) * sizeof(T)) == 0;
  }

 private:
  T* data_ = nullptr;
  std::int64_t count_ = -1;
  py::array view_;
};

// Arguments of one call. Batches of the last few sizes keep their arrays: an algorithm alternates between two or three.
struct Arguments {
  struct OfSize {
    ShownArray<std::int64_t> index;
    ShownArray<double> weights;
    py::object sample;  // what the user's sampler made of index, or null
    std::uint64_t used = 0;
  };
  static constexpr int kSizes = 4;

  ShownArray<double> w;
  std::array<OfSize, kSizes> sizes;
  OfSize all;  // the batch of all samples
  std::uint64_t calls = 0;

  OfSize& of_size(std::int64_t count);
};

// Sets of arguments for calls that run at the same time.
class ArgumentSets {
 public:
  // Sole use of a set, kept or fresh. Made and destroyed with the GIL held.
  class Lease {
   public:
    explicit Lease(ArgumentSets& sets);
    ~Lease() {
      if (place_ < kKept) sets_.taken_[static_cast<std::size_t>(place_)].clear(std::memory_order_release);
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Arguments& operator*() { return place_ < kKept ? sets_.kept_[static_cast<std::size_t>(place_)] : *fresh_; }

   private:
    ArgumentSets& sets_;
    int place_ = 0;
    std::optional<Arguments> fresh_;
  };

 private:
  static constexpr int kKept = 4;
  std::array<Arguments, kKept> kept_;
  std::array<std::atomic_flag, kKept> taken_{};
};

}  // namespace leeward::python
