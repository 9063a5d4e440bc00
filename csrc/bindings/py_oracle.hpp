// Oracles whose losses and gradients are Python functions: called once a mini-batch, with read-only arrays that are kept
// and refilled from call to call, under the GIL, from whatever thread the algorithm runs in.
//
// With a sampler the functions get what the sampler makes of the sample numbers; it is asked again only when they change.
// After each call Python's signal handlers run, so that Ctrl-C during a slow function ends the run when it returns.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "leeward/oracle/oracle.hpp"
#include "py_arguments.hpp"
#include "py_returned.hpp"

namespace leeward::python {

struct PySizes {
  std::int64_t size, dim;
  std::int64_t population;  // = size without a sampler
};

// What the two oracles below share: sizes, the sampler, and arguments.
class PyOracleBase : public Oracle {
 public:
  std::int64_t size() const override { return sizes_.size; }
  std::int64_t dim() const override { return sizes_.dim; }
  std::int64_t population() const override { return sizes_.population; }

  // For Python's cycle collector: the user's objects held here, and letting go of them.
  virtual int traverse(visitproc visit, void* arg) const;
  virtual void clear();

 protected:
  PyOracleBase(py::object sample, PySizes sizes) : sample_(std::move(sample)), sizes_(sizes) {}

  // The set's arrays for the batch, filled with its sample numbers.
  Arguments::OfSize& show_batch(Arguments& to, Batch batch) const;
  // What stands for the samples in the functions' arguments: their numbers, or the sampler's answer.
  PyObject* shown(const Arguments::OfSize& a) const { return a.sample ? a.sample.ptr() : a.index.view(); }
  void take_losses(PyObject* result, const double* w, Batch batch, const Wanted& wanted, double* out) const;
  void take_gradient(PyObject* result, const double* w, Batch batch, const Wanted& wanted, double* out, Resources& use) const;

  mutable ArgumentSets arguments_;

 private:
  // Whether a loss of the batch is infinite at w, so that a NaN in the gradient says no more than that.
  bool out_of_range(const double* w, Batch batch, Resources& use) const;

  py::object sample_;  // null without a sampler
  PySizes sizes_;
};

// Two functions: losses(w, samples) and gradient(w, weights, samples).
class PyOracle final : public PyOracleBase {
 public:
  PyOracle(py::object losses, py::object gradient, py::object sample, PySizes sizes)
      : PyOracleBase(std::move(sample), sizes), losses_(std::move(losses)), gradient_(std::move(gradient)) {}
  void losses(const double* w, Batch batch, double* out, Resources& use) const override;
  void gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const override;
  int traverse(visitproc visit, void* arg) const override;
  void clear() override;

 private:
  py::object losses_, gradient_;
};

// One function fun(w, samples) -> (losses, pullback(weights)). The pullback of the last losses of a thread is kept, and serves
// the next gradient of that thread at the same w and batch, once.
class PyVjpOracle final : public PyOracleBase {
 public:
  PyVjpOracle(py::object fun, py::object sample, PySizes sizes) : PyOracleBase(std::move(sample), sizes), fun_(std::move(fun)) {}
  void losses(const double* w, Batch batch, double* out, Resources& use) const override;
  void gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const override;
  int traverse(visitproc visit, void* arg) const override;
  void clear() override;

 private:
  struct Kept {
    unsigned long thread = 0;
    std::vector<double> w;
    std::vector<std::int64_t> index;  // empty for all samples
    bool all = false;
    py::object pullback;              // null: nothing kept
  };
  static constexpr std::size_t kThreads = 4;

  py::object forward(const Arguments& a, const Arguments::OfSize& batch, py::object* losses) const;
  void keep(const double* w, Batch batch, py::object pullback) const;
  py::object find(const double* w, Batch batch) const;  // taken out; null when there is none

  py::object fun_;
  mutable std::mutex guard_;  // only ever tried: never waited for while Python code may run
  mutable std::vector<Kept> kept_;
};

}  // namespace leeward::python
