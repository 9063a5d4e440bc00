#include "py_level.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "leeward/core/check.hpp"
#include "leeward/oracle/fault.hpp"

namespace leeward::python {
namespace {

// f(arguments[0..count)), after which signal handlers have run; arguments[-1] is free for the callee.
py::object call_level(const py::object& f, PyObject** arguments, std::size_t count) {
  PyObject* const result = PyObject_Vectorcall(f.ptr(), arguments, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (result == nullptr) throw py::error_already_set();
  py::object owned = py::reinterpret_steal<py::object>(result);
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  return owned;
}

PyObject* shown_index(Arguments& arguments, Batch batch) {
  if (batch.index != nullptr) return arguments.of_size(batch.size).index.show(batch.index, batch.size);
  auto& index = arguments.all.index;
  if (index.count() != batch.size) {
    index = ShownArray<std::int64_t>(batch.size);
    std::iota(index.data(), index.data() + batch.size, std::int64_t{0});
  }
  return index.view();
}

std::string drawn_samples(Batch batch) {
  std::string text = batch.size == 1 ? "sample " : "samples ";
  for (std::int64_t k = 0; k < batch.size && k < 5; ++k) text += (k ? ", " : "") + std::to_string(batch[k]);
  return batch.size > 5 ? text + ", ..." : text;
}

}  // namespace

// A call of one of the user's functions, as messages name it.
struct PyLevel::Question {
  const char* name;
  const char* arguments;
  const char* meaning;
  std::int64_t rows, cols;  // of the answer; cols 0: a vector
  const double* u;
  Batch batch;
};

void PyLevel::take_answer(const Question& q, PyObject* answer, double* out) const {
  const bool table = q.cols > 0;
  const std::int64_t count = table ? q.rows * q.cols : q.rows;
  bool fine = false;
  const auto said = [&] { return std::string(q.name) + "(" + q.arguments + (indexed_ ? ", index)" : ")"); };
  const auto place = [&] { return indexed_ ? " for " + drawn_samples(q.batch) : std::string(); };
  const bool line = !table || q.rows == 1 || q.cols == 1;  // a vector will do
  const bool plain = (table && take_plain(answer, q.rows, q.cols, out, &fine)) || (line && take_plain(answer, count, out, &fine));
  if (!plain) {
    const std::string call = said(), meaning = std::string(q.meaning) + place();
    const Wanted wanted{call.c_str(), meaning.c_str()};
    fine = table ? take_table(answer, q.rows, q.cols, wanted, out) : take(answer, count, wanted, out);
  }
  if (fine) return;
  const std::int64_t k = bad_entry(out, count);
  oracle_error(said() + " must return finite numbers, got " + name_of(out[k]) + " in entry " + std::to_string(k) + place(),
               std::isinf(out[k]) || far_out(q.u, shape().inputs));
}

void PyLevel::evaluate(const LevelPoint* at, int count, Batch batch, Resources&) const {
  const LevelShape& s = shape();
  const py::gil_scoped_acquire gil;
  ArgumentSets::Lease lease(arguments_);
  Arguments& a = *lease;
  PyObject* const index = indexed_ ? shown_index(a, batch) : nullptr;
  for (int k = 0; k < count; ++k) {
    PyObject* given[] = {nullptr, a.w.show(at[k].point, s.inputs), index};
    const std::size_t arguments = indexed_ ? 2 : 1;
    if (!functions_.joint.is_none()) {
      py::object answer;
      py::object pullback = forward(given + 1, arguments, &answer);
      take_answer({"fun", "u", "the mean of the level's computed outputs, as the first of a pair", s.computed, 0, at[k].point, batch},
                  answer.ptr(), at[k].value);
      keep(at[k].point, batch, std::move(pullback));
      continue;
    }
    if (at[k].value != nullptr) {
      const py::object answer = call_level(functions_.value, given + 1, arguments);
      take_answer({"value", "u", "the mean of the level's computed outputs", s.computed, 0, at[k].point, batch}, answer.ptr(), at[k].value);
    }
    if (at[k].jacobian != nullptr) {
      const py::object answer = call_level(functions_.jacobian, given + 1, arguments);
      take_answer({"jacobian", "u", "the mean Jacobian of the computed outputs", s.computed, s.inputs, at[k].point, batch}, answer.ptr(),
                  at[k].jacobian);
    }
  }
}

py::object PyLevel::forward(PyObject** given, std::size_t arguments, py::object* value) const {
  const py::object pair = call_level(functions_.joint, given, arguments);
  const bool two = (PyTuple_Check(pair.ptr()) || PyList_Check(pair.ptr())) && PySequence_Size(pair.ptr()) == 2;
  const py::object pullback = two ? py::reinterpret_steal<py::object>(PySequence_GetItem(pair.ptr(), 1)) : py::object();
  if (!pullback || PyCallable_Check(pullback.ptr()) == 0)
    oracle_error(std::string("fun(u") + (indexed_ ? ", index)" : ")") + " must return (value, pullback) with a callable pullback(weights), got " +
                 std::string(py::str(py::type::of(pair).attr("__name__"))));
  if (value != nullptr) *value = py::reinterpret_steal<py::object>(PySequence_GetItem(pair.ptr(), 0));
  return pullback;
}

void PyLevel::keep(const double* u, Batch batch, py::object pullback) const {
  py::object dropped;  // let go after the lock, since that may run user code
  const std::lock_guard<std::mutex> lock(guard_);
  Kept& place = kept_[next_++ % kept_.size()];
  dropped = std::move(place.pullback);
  place.u.assign(u, u + shape().inputs);
  place.all = batch.index == nullptr;
  if (place.all)
    place.index.clear();
  else
    place.index.assign(batch.index, batch.index + batch.size);
  place.pullback = std::move(pullback);
}

py::object PyLevel::find(const double* u, Batch batch) const {
  const std::lock_guard<std::mutex> lock(guard_);
  for (Kept& k : kept_) {
    if (!k.pullback || k.all != (batch.index == nullptr)) continue;
    if (!k.all && !std::equal(k.index.begin(), k.index.end(), batch.index, batch.index + batch.size)) continue;
    if (std::memcmp(k.u.data(), u, k.u.size() * sizeof(double)) == 0) return std::move(k.pullback);
  }
  return py::object();
}

void PyLevel::pull(const double* u, Batch batch, const double* weights, double* out, Resources& use) const {
  const bool joint = !functions_.joint.is_none();
  if (functions_.pull.is_none() && !joint) return Level::pull(u, batch, weights, out, use);
  const py::gil_scoped_acquire gil;
  ArgumentSets::Lease lease(arguments_);
  Arguments& a = *lease;
  if (joint) {
    py::object pullback = find(u, batch);
    if (!pullback) {
      PyObject* at[] = {nullptr, a.w.show(u, shape().inputs), indexed_ ? shown_index(a, batch) : nullptr};
      pullback = forward(at + 1, indexed_ ? 2 : 1, nullptr);
    }
    PyObject* by[] = {nullptr, a.all.weights.show(weights, shape().computed)};
    const py::object answer = call_level(pullback, by + 1, 1);
    take_answer({"pullback", "weights", "the transposed mean Jacobian times weights", shape().inputs, 0, u, batch}, answer.ptr(), out);
    return;
  }
  PyObject* given[] = {nullptr, a.w.show(u, shape().inputs), a.all.weights.show(weights, shape().computed),
                       indexed_ ? shown_index(a, batch) : nullptr};
  const py::object answer = call_level(functions_.pull, given + 1, indexed_ ? 3 : 2);
  take_answer({"vjp", "u, weights", "the transposed mean Jacobian times weights", shape().inputs, 0, u, batch}, answer.ptr(), out);
}

void PyLevel::push(const double* u, Batch batch, const double* direction, double* out, Resources& use) const {
  if (functions_.push.is_none()) return Level::push(u, batch, direction, out, use);
  const py::gil_scoped_acquire gil;
  ArgumentSets::Lease lease(arguments_), second(arguments_);
  Arguments& a = *lease;
  PyObject* given[] = {nullptr, a.w.show(u, shape().inputs), (*second).w.show(direction, shape().inputs),
                       indexed_ ? shown_index(a, batch) : nullptr};
  const py::object answer = call_level(functions_.push, given + 1, indexed_ ? 3 : 2);
  take_answer({"jvp", "u, direction", "the mean Jacobian times direction", shape().computed, 0, u, batch}, answer.ptr(), out);
}

int PyLevel::traverse(visitproc visit, void* arg) const {
  Py_VISIT(functions_.value.ptr());
  Py_VISIT(functions_.jacobian.ptr());
  Py_VISIT(functions_.pull.ptr());
  Py_VISIT(functions_.push.ptr());
  Py_VISIT(functions_.joint.ptr());
  for (const Kept& k : kept_) Py_VISIT(k.pullback.ptr());
  return 0;
}

void PyLevel::clear() {
  functions_ = {py::none(), py::none(), py::none(), py::none(), py::none()};
  for (Kept& k : kept_) k.pullback = py::object();
}

}  // namespace leeward::python
