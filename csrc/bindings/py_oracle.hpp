// An oracle whose losses and gradients are Python functions: called once a mini-batch, with read-only arrays that are kept
// and refilled from call to call, under the GIL, from whatever thread the algorithm runs in.
#pragma once

#include <atomic>
#include <cstdint>

#include "common.hpp"
#include "leeward/oracle/oracle.hpp"

namespace leeward::python {

class PyOracle final : public Oracle {
 public:
  PyOracle(py::object losses, py::object gradient, std::int64_t size, std::int64_t dim);

  std::int64_t size() const override { return size_; }
  std::int64_t dim() const override { return dim_; }
  void losses(const double* w, Batch batch, double* out, Resources& use) const override;
  void gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const override;

 private:
  // A one-dimensional array of our own and the read-only view of its first elements that user code sees.
  struct Shown {
    py::array store, view;
    template <class T>
    py::array show(const T* values, std::int64_t count);
  };
  struct Arguments {
    Shown w, index, weights;
    py::array all;  // 0, ..., size - 1
  };
  class Lease;

  py::array show_index(Arguments& to, Batch batch) const;

  py::object losses_, gradient_;
  std::int64_t size_, dim_;
  mutable Arguments kept_;        // in use by one call at a time; a call that finds them taken makes its own
  mutable std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
};

}  // namespace leeward::python
