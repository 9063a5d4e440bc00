// A level of a composition whose functions are Python's: value(u, index), and jacobian(u, index) or products with it. They are called
// under the GIL with read-only arrays that are kept and refilled, once a point and draw; a level of one sample gets no index.
#pragma once

#include <cstdint>
#include <string>

#include "leeward/oracle/level.hpp"
#include "py_arguments.hpp"
#include "py_returned.hpp"

namespace leeward::python {

// The user's functions; None where there is none.
struct LevelFunctions {
  py::object value, jacobian, pull, push;
};

class PyLevel final : public Level {
 public:
  PyLevel(const LevelShape& shape, LevelFunctions functions, bool indexed)
      : Level(shape), functions_(std::move(functions)), indexed_(indexed) {}

  void evaluate(const LevelPoint* at, int count, Batch batch, Resources& use) const override;
  void pull(const double* u, Batch batch, const double* weights, double* out, Resources& use) const override;
  void push(const double* u, Batch batch, const double* direction, double* out, Resources& use) const override;

  // For Python's cycle collector.
  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  struct Question;
  void take_answer(const Question& question, PyObject* answer, double* out) const;

  LevelFunctions functions_;
  bool indexed_;
  mutable ArgumentSets arguments_;
};

}  // namespace leeward::python
