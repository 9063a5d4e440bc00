// Points around samples whose losses, gradients and costs are Python functions of the points' numbers (oracle/perturbed.hpp):
// the Python half makes the points themselves (python/leeward/oracles/_drawn.py).
#pragma once

#include <cstdint>
#include <utility>

#include "leeward/oracle/perturbed.hpp"
#include "py_oracle.hpp"

namespace leeward::python {

class PyPoints final : public PerturbedOracle {
 public:
  // costs(numbers); losses and gradient as for PyOracle, on numbers of points.
  PyPoints(py::object losses, py::object gradient, py::object costs, std::int64_t samples, std::int64_t dim, std::int64_t draws);

  std::int64_t size() const override { return functions_.size(); }
  std::int64_t dim() const override { return functions_.dim(); }
  std::int64_t draws() const override { return draws_; }
  void losses(const double* w, Batch batch, double* out, Resources& use) const override { functions_.losses(w, batch, out, use); }
  void gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const override {
    functions_.gradient(w, batch, weights, out, use);
  }
  void costs(Batch batch, double* out, Resources& use) const override;

  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  PyOracle functions_;
  py::object costs_;
  std::int64_t draws_;
};

}  // namespace leeward::python
