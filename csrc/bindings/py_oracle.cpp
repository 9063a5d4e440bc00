#include "py_oracle.hpp"

#include <cmath>
#include <numeric>
#include <string>

#include "leeward/oracle/fault.hpp"

namespace leeward::python {
namespace {

constexpr Wanted kLosses{"losses(w, index)", "one loss for each entry of index"};
constexpr Wanted kGradient{"gradient(w, weights, index)", "the sum of weights[k] times the gradient of loss index[k]"};
constexpr Wanted kVjpLosses{"fun(w, index)", "one loss for each entry of index, as the first of a pair"};
constexpr Wanted kPullback{"pullback(weights)", "the sum of weights[k] times the gradient of loss index[k]"};

// f(arguments...), after which signal handlers have run.
template <class... Arguments>
py::object call(const py::object& f, Arguments... arguments) {
  PyObject* with_room[] = {nullptr, arguments...};
  PyObject* const result =
      PyObject_Vectorcall(f.ptr(), with_room + 1, sizeof...(arguments) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (result == nullptr) throw py::error_already_set();
  py::object owned = py::reinterpret_steal<py::object>(result);
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  return owned;
}

std::string samples_of(Batch batch) {
  std::string text = "samples ";
  for (std::int64_t k = 0; k < batch.size && k < 5; ++k) text += (k ? ", " : "") + std::to_string(batch[k]);
  return batch.size > 5 ? text + ", ..." : text;
}

}  // namespace

Arguments::OfSize& PyOracleBase::show_batch(Arguments& to, Batch batch) const {
  if (batch.index == nullptr) {
    Arguments::OfSize& a = to.all;
    if (a.index.count() != batch.size) {
      a.index = ShownArray<std::int64_t>(batch.size);
      std::iota(a.index.data(), a.index.data() + batch.size, std::int64_t{0});
    }
    if (sample_ && !a.sample) a.sample = call(sample_, a.index.view());
    return a;
  }
  Arguments::OfSize& a = to.of_size(batch.size);
  if (sample_ && a.sample && a.index.holds(batch.index, batch.size)) return a;
  if (sample_) a.sample = py::object();
  a.index.show(batch.index, batch.size);
  if (sample_) a.sample = call(sample_, a.index.view());
  return a;
}

void PyOracleBase::take_losses(PyObject* result, const double* w, Batch batch, const Wanted& wanted, double* out) const {
  if (take(result, batch.size, wanted, out)) return;
  const std::int64_t k = bad_entry(out, batch.size);
  oracle_error(std::string(wanted.call) + " must return finite numbers, got " + name_of(out[k]) + " for sample " +
               std::to_string(batch[k]) + " (entry " + std::to_string(k) + " of the batch)",
               out[k] > 0 || far_out(w, dim()));
}

void PyOracleBase::take_gradient(PyObject* result, const double* w, Batch batch, const Wanted& wanted, double* out,
                                 Resources& use) const {
  if (take(result, dim(), wanted, out)) return;
  const std::int64_t j = bad_entry(out, dim());
  oracle_error(std::string(wanted.call) + " must return finite numbers, got " + name_of(out[j]) + " in coordinate " +
               std::to_string(j) + " for a batch of " + samples_of(batch),
               std::isinf(out[j]) || far_out(w, dim()) || out_of_range(w, batch, use));
}

bool PyOracleBase::out_of_range(const double* w, Batch batch, Resources& use) const {
  std::vector<double> out(static_cast<std::size_t>(batch.size));
  try {
    losses(w, batch, out.data(), use);
    return false;
  } catch (const py::error_already_set& error) {
    const py::module_ errors = py::module_::import("leeward.errors");
    if (!error.matches(errors.attr("OracleError"))) throw;
    return error.matches(errors.attr("InfiniteError"));
  }
}

int PyOracleBase::traverse(visitproc visit, void* arg) const {
  Py_VISIT(sample_.ptr());
  return 0;
}

void PyOracleBase::clear() { sample_ = py::object(); }

int PyOracle::traverse(visitproc visit, void* arg) const {
  Py_VISIT(losses_.ptr());
  Py_VISIT(gradient_.ptr());
  return PyOracleBase::traverse(visit, arg);
}

void PyOracle::clear() {
  losses_ = gradient_ = py::none();
  PyOracleBase::clear();
}

int PyVjpOracle::traverse(visitproc visit, void* arg) const {
  Py_VISIT(fun_.ptr());
  for (const Kept& k : kept_) Py_VISIT(k.pullback.ptr());
  return PyOracleBase::traverse(visit, arg);
}

void PyVjpOracle::clear() {
  fun_ = py::none();
  kept_.clear();
  PyOracleBase::clear();
}

void PyOracle::losses(const double* w, Batch batch, double* out, Resources&) const {
  const py::gil_scoped_acquire gil;
  ArgumentSets::Lease lease(arguments_);
  Arguments& a = *lease;
  const Arguments::OfSize& b = show_batch(a, batch);
  const py::object result = call(losses_, a.w.show(w, dim()), shown(b));
  take_losses(result.ptr(), w, batch, kLosses, out);
}

void PyOracle::gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const {
  const py::gil_scoped_acquire gil;
  ArgumentSets::Lease lease(arguments_);
  Arguments& a = *lease;
  Arguments::OfSize& b = show_batch(a, batch);
  const py::object result = call(gradient_, a.w.show(w, dim()), b.weights.show(weights, batch.size), shown(b));
  take_gradient(result.ptr(), w, batch, kGradient, out, use);
}

py::object PyVjpOracle::forward(const Arguments& a, const Arguments::OfSize& batch, py::object* losses) const {
  const py::object pair = call(fun_, a.w.view(), shown(batch));
  const bool two = (PyTuple_Check(pair.ptr()) || PyList_Check(pair.ptr())) && PySequence_Size(pair.ptr()) == 2;
  const py::object pullback = two ? py::reinterpret_steal<py::object>(PySequence_GetItem(pair.ptr(), 1)) : py::object();
  if (!pullback || PyCallable_Check(pullback.ptr()) == 0)
    oracle_error("fun(w, index) must return (losses, pullback) with a callable pullback(weights), got " +
                 std::string(py::str(py::type::of(pair).attr("__name__"))));
  if (losses != nullptr) *losses = py::reinterpret_steal<py::object>(PySequence_GetItem(pair.ptr(), 0));
  return pullback;
}

void PyVjpOracle::losses(const double* w, Batch batch, double* out, Resources&) const {
  const py::gil_scoped_acquire gil;
  find(nullptr, batch);  // what is kept for this thread is let go before new memory is asked for
  ArgumentSets::Lease lease(arguments_);
  Arguments& a = *lease;
  const Arguments::OfSize& b = show_batch(a, batch);
  a.w.show(w, dim());
  py::object result;
  py::object pullback = forward(a, b, &result);
  take_losses(result.ptr(), w, batch, kVjpLosses, out);
  keep(w, batch, std::move(pullback));
}

void PyVjpOracle::gradient(const double* w, Batch batch, const double* weights, double* out, Resources& use) const {
  const py::gil_scoped_acquire gil;
  py::object pullback = find(w, batch);
  ArgumentSets::Lease lease(arguments_);
  Arguments& a = *lease;
  Arguments::OfSize& b = show_batch(a, batch);
  a.w.show(w, dim());
  if (!pullback) pullback = forward(a, b, nullptr);
  const py::object result = call(pullback, b.weights.show(weights, batch.size));
  take_gradient(result.ptr(), w, batch, kPullback, out, use);
}

void PyVjpOracle::keep(const double* w, Batch batch, py::object pullback) const {
  const unsigned long thread = PyThread_get_thread_ident();
  py::object dropped;  // let go after the lock, since that may run user code
  const std::unique_lock<std::mutex> lock(guard_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  Kept* place = nullptr;
  for (Kept& k : kept_)
    if (k.thread == thread || (place == nullptr && !k.pullback)) place = &k;
  if (place == nullptr) place = kept_.size() < kThreads ? &kept_.emplace_back() : &kept_[thread % kThreads];
  dropped = std::move(place->pullback);
  place->thread = thread;
  place->all = batch.index == nullptr;
  place->w.assign(w, w + dim());
  if (place->all) place->index.clear();
  else place->index.assign(batch.index, batch.index + batch.size);
  place->pullback = std::move(pullback);
}

py::object PyVjpOracle::find(const double* w, Batch batch) const {
  const unsigned long thread = PyThread_get_thread_ident();
  py::object found;
  bool fits = false;
  {
    const std::unique_lock<std::mutex> lock(guard_, std::try_to_lock);
    if (!lock.owns_lock()) return found;
    for (Kept& k : kept_)
      if (k.thread == thread && k.pullback) {
        fits = w != nullptr && std::memcmp(k.w.data(), w, k.w.size() * sizeof(double)) == 0 &&
               k.all == (batch.index == nullptr) &&
               (k.all || (k.index.size() == static_cast<std::size_t>(batch.size) &&
                          std::memcmp(k.index.data(), batch.index, k.index.size() * sizeof(std::int64_t)) == 0));
        found = std::move(k.pullback);
      }
  }
  return fits ? found : py::object();
}

}  // namespace leeward::python
