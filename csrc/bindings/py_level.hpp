// A level of a composition whose functions are Python's: value(u, index), and jacobian(u, index) or products with it. They are called
// under the GIL with read-only arrays that are kept and refilled, once a point and draw; a level of one sample gets no index.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "leeward/oracle/level.hpp"
#include "py_arguments.hpp"
#include "py_returned.hpp"

namespace leeward::python {

// The user's functions; None where there is none. `joint` answers value and pullback at once, in place of the others.
struct LevelFunctions {
  py::object value, jacobian, pull, push, joint;
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

  // The pullbacks of the last two points are kept: each serves the next product at its point and batch, once.
  struct Kept {
    std::vector<double> u;
    std::vector<std::int64_t> index;  // empty for all samples
    bool all = false;
    py::object pullback;  // null: nothing kept
  };
  py::object forward(PyObject** given, std::size_t arguments, py::object* value) const;  // the pullback
  void keep(const double* u, Batch batch, py::object pullback) const;
  py::object find(const double* u, Batch batch) const;  // taken out; null when there is none

  LevelFunctions functions_;
  bool indexed_;
  mutable std::mutex guard_;  // never held while Python code may run
  mutable std::array<Kept, 2> kept_;
  mutable std::size_t next_ = 0;
  mutable ArgumentSets arguments_;
};

}  // namespace leeward::python
