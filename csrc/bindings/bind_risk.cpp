// Risk: solve and value on NumPy arrays that need no conversion (the caller converts others), one row or many.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "call.hpp"
#include "leeward/risk/factories.hpp"

namespace leeward::python {
namespace {

constexpr std::int64_t kHoldGil = 4096;          // below this many losses the GIL is kept: releasing costs as much as the work
constexpr std::int64_t kSerial = 65536;          // below this many losses one thread is used
constexpr std::int64_t kRowsTogether = 16384;    // losses in a block of rows
constexpr std::size_t kKeepBytes = std::size_t{512} << 20;

// Frees an unusually large workspace when the call ends.
struct WorkspaceLease {
  Workspace& workspace = thread_workspace();
  ~WorkspaceLease() {
    if (workspace.capacity() > kKeepBytes) workspace.release();
  }
};

// One solution, or one of each row; arrays only in the second case (an empty py::array would be a new NumPy array each time).
struct Solution {
  bool many = false;
  RiskSolution one;
  py::object weights;
  py::object value, eta, multiplier, gap, effective_sample_size, iterations;
};

// An exact ndarray of element type T, contiguous in C order, aligned and in native byte order.
template <class T>
bool is_plain(const py::handle& h) {
  if (Py_TYPE(h.ptr()) != py::detail::npy_api::get().PyArray_Type_) return false;
  if (!py::isinstance<py::array_t<T, py::array::c_style>>(h)) return false;
  constexpr int kAligned = 0x0100;
  return (py::reinterpret_borrow<py::array>(h).flags() & kAligned) != 0;
}

struct Call {
  std::int64_t rows = 1, size = 0;
  bool many = false;
  int threads = 1;
};

template <class T>
struct RowSolver {
  const Risk& risk;
  const T* losses;
  const double* base;
  T* weights;  // may be null
  RiskSolution* out;
  Call call;

  void rows(std::int64_t begin, std::int64_t end, Resources& use) const {
    risk.solve_rows(LossRows<T>{losses + begin * call.size, base, end - begin, call.size},
                    weights == nullptr ? nullptr : weights + begin * call.size, out + begin, use);
  }

  void run() const {
    if (call.rows == 0) return;
    const WorkspaceLease lease;
    const bool small = call.rows * call.size < kHoldGil;
    std::optional<py::gil_scoped_release> release;
    if (!small) release.emplace();
    try {
      if (call.size >= kSerial || call.rows == 1)
        one_by_one(lease.workspace, small);
      else
        together();
    } catch (const InvalidEntry& e) {
      explain(e);
    }
  }

 private:
  void one_by_one(Workspace& workspace, bool small) const {
    PyMonitor monitor;
    Resources use{workspace, call.size >= kSerial ? call.threads : 1, small ? nullptr : &monitor};
    rows(0, call.rows, use);
  }

  void together() const {
    PyMonitor monitor;
    const std::int64_t per_block = std::max<std::int64_t>(1, kRowsTogether / call.size);
    const std::int64_t blocks = (call.rows + per_block - 1) / per_block;
    const bool small = call.rows * call.size < kHoldGil;
    parallel_blocks(blocks, call.rows * call.size < kSerial ? 1 : call.threads, [&](std::int64_t b) {
      if (!small) monitor.poll();
      Resources use{thread_workspace(), 1, nullptr};
      rows(b * per_block, std::min(call.rows, (b + 1) * per_block), use);
    });
  }

  // Names the first invalid entry in C order, whichever row was looked at first.
  [[noreturn]] void explain(const InvalidEntry& e) const {
    if (e.where == InvalidEntry::Where::kBase || !call.many) throw std::invalid_argument(e.message(std::to_string(e.position)));
    for (std::int64_t i = 0; i < call.rows * call.size; ++i) {
      if (std::isfinite(losses[i])) continue;
      const InvalidEntry first(InvalidEntry::Where::kLosses, i % call.size, static_cast<double>(losses[i]));
      throw std::invalid_argument(first.message(std::to_string(i / call.size) + ", " + std::to_string(i % call.size)));
    }
    throw std::invalid_argument(e.message(std::to_string(e.position)));
  }
};

// Plain small integers pass here; anything else goes to the one check in Python, which has the words for it. The default is looked
// up only where more than one thread may be used.
int thread_count(const py::object& threads, const Call& call) {
  if (threads.is_none()) return call.rows * call.size < kSerial ? 1 : resolve_threads(0);
  if (PyLong_CheckExact(threads.ptr())) {
    int overflow = 0;
    const long count = PyLong_AsLongAndOverflow(threads.ptr(), &overflow);
    if (overflow == 0 && count >= 1 && count <= 1024) return static_cast<int>(count);
  }
  return py::module_::import("leeward._threads").attr("thread_request")(threads).cast<int>();
}

// Where the arrays are plain, checks nothing but shapes (the caller has checked those that it converted).
template <class T>
std::optional<Call> shape_of_call(const py::object& losses, const py::object& base) {
  if (!is_plain<T>(losses)) return std::nullopt;
  const auto l = py::reinterpret_borrow<py::array>(losses);
  Call call;
  if (l.ndim() == 1) {
    call.size = l.shape(0);
  } else if (l.ndim() == 2) {
    call.many = true;
    call.rows = l.shape(0);
    call.size = l.shape(1);
  } else {
    return std::nullopt;
  }
  if (call.size == 0) return std::nullopt;
  if (!base.is_none()) {
    if (!is_plain<double>(base)) return std::nullopt;
    const auto b = py::reinterpret_borrow<py::array>(base);
    if (b.ndim() != 1 || b.shape(0) != call.size) return std::nullopt;
  }
  return call;
}

const double* base_data(const py::object& base) {
  return base.is_none() ? nullptr : static_cast<const double*>(py::reinterpret_borrow<py::array>(base).data());
}

template <class T, class Get>
py::array column(const std::vector<RiskSolution>& rows, Get get) {
  py::array_t<T> out(static_cast<py::ssize_t>(rows.size()));
  T* p = out.mutable_data();
  for (std::size_t i = 0; i < rows.size(); ++i) p[i] = get(rows[i]);
  return out;
}

template <class T>
py::object solve_plain(const Risk& risk, const py::object& losses, const py::object& base, int threads, const py::object& out,
                       Call call) {
  call.threads = threads;
  const auto l = py::reinterpret_borrow<py::array>(losses);
  Solution s;
  s.many = call.many;
  if (!out.is_none())
    s.weights = out;
  else
    s.weights = call.many ? py::array_t<T>({call.rows, call.size}) : py::array_t<T>(call.size);
  T* const weights = static_cast<T*>(py::reinterpret_borrow<py::array>(s.weights).mutable_data());
  const auto solver = [&](RiskSolution* results) {
    return RowSolver<T>{risk, static_cast<const T*>(l.data()), base_data(base), weights, results, call};
  };
  if (!call.many) {
    solver(&s.one).run();
    return py::cast(std::move(s));
  }
  std::vector<RiskSolution> rows(static_cast<std::size_t>(call.rows));
  solver(rows.data()).run();
  s.value = column<double>(rows, [](const RiskSolution& r) { return r.value; });
  s.eta = column<double>(rows, [](const RiskSolution& r) { return r.eta; });
  s.multiplier = column<double>(rows, [](const RiskSolution& r) { return r.multiplier; });
  s.gap = column<double>(rows, [](const RiskSolution& r) { return r.gap; });
  s.effective_sample_size = column<double>(rows, [](const RiskSolution& r) { return r.effective_sample_size; });
  s.iterations = column<std::int64_t>(rows, [](const RiskSolution& r) { return r.iterations; });
  return py::cast(std::move(s));
}

template <class T>
py::object value_plain(const Risk& risk, const py::object& losses, const py::object& base, int threads, Call call) {
  call.threads = threads;
  const auto l = py::reinterpret_borrow<py::array>(losses);
  std::vector<RiskSolution> rows(static_cast<std::size_t>(call.rows));
  RowSolver<T>{risk, static_cast<const T*>(l.data()), base_data(base), nullptr, rows.data(), call}.run();
  if (!call.many) return py::float_(rows[0].value);
  return column<double>(rows, [](const RiskSolution& r) { return r.value; });
}

// The right place for weights: same type and shape as the losses, plain and writeable.
template <class T>
bool fits(const py::object& out, const py::object& losses) {
  if (out.is_none()) return true;
  if (!is_plain<T>(out)) return false;
  const auto o = py::reinterpret_borrow<py::array>(out), l = py::reinterpret_borrow<py::array>(losses);
  if (!o.writeable() || o.ndim() != l.ndim()) return false;
  for (py::ssize_t d = 0; d < o.ndim(); ++d)
    if (o.shape(d) != l.shape(d)) return false;
  return true;
}

// None when an argument is not plain: the caller converts and calls again.
py::object solve(const Risk& risk, const py::object& losses, const py::object& base, const py::object& threads, const py::object& out) {
  if (const auto call = shape_of_call<double>(losses, base); call && fits<double>(out, losses))
    return solve_plain<double>(risk, losses, base, thread_count(threads, *call), out, *call);
  if (const auto call = shape_of_call<float>(losses, base); call && fits<float>(out, losses))
    return solve_plain<float>(risk, losses, base, thread_count(threads, *call), out, *call);
  return py::none();
}

py::object value(const Risk& risk, const py::object& losses, const py::object& base, const py::object& threads) {
  if (const auto call = shape_of_call<double>(losses, base)) return value_plain<double>(risk, losses, base, thread_count(threads, *call), *call);
  if (const auto call = shape_of_call<float>(losses, base)) return value_plain<float>(risk, losses, base, thread_count(threads, *call), *call);
  return py::none();
}

// A number for one loss vector, an array for many.
template <class Number, class Array>
auto field(Number RiskSolution::*one, Array Solution::*many) {
  return [one, many](const Solution& s) -> py::object {
    if (s.many) return s.*many;
    return py::cast(s.one.*one);
  };
}

py::tuple solution_state(const Solution& s) {
  if (s.many)
    return py::make_tuple(true, s.weights, s.value, s.eta, s.multiplier, s.gap, s.effective_sample_size, s.iterations);
  return py::make_tuple(false, s.weights, s.one.value, s.one.eta, s.one.multiplier, s.one.gap, s.one.effective_sample_size,
                        s.one.iterations);
}

Solution solution_from(const py::tuple& t) {
  if (t.size() != 8) throw std::invalid_argument("not the state of a RiskSolution");
  Solution s;
  s.many = t[0].cast<bool>();
  s.weights = t[1];
  if (s.many) {
    s.value = t[2].cast<py::array>();
    s.eta = t[3].cast<py::array>();
    s.multiplier = t[4].cast<py::array>();
    s.gap = t[5].cast<py::array>();
    s.effective_sample_size = t[6].cast<py::array>();
    s.iterations = t[7].cast<py::array>();
  } else {
    s.one = {.value = t[2].cast<double>(), .eta = t[3].cast<double>(), .multiplier = t[4].cast<double>(), .gap = t[5].cast<double>(),
             .effective_sample_size = t[6].cast<double>(), .iterations = t[7].cast<int>()};
  }
  return s;
}

std::string solution_text(const Solution& s) {
  const auto text = [](const py::object& o) { return py::repr(o).cast<std::string>(); };
  const auto get = [&](auto one, auto many) { return text(field(one, many)(s)); };
  return "RiskSolution(value=" + get(&RiskSolution::value, &Solution::value) + ", eta=" + get(&RiskSolution::eta, &Solution::eta) +
         ", multiplier=" + get(&RiskSolution::multiplier, &Solution::multiplier) + ", gap=" + get(&RiskSolution::gap, &Solution::gap) +
         ", effective_sample_size=" + get(&RiskSolution::effective_sample_size, &Solution::effective_sample_size) +
         ", iterations=" + get(&RiskSolution::iterations, &Solution::iterations) + ")";
}

}  // namespace

void bind_risk(py::module_& m) {
  py::class_<Solution>(m, "RiskSolution", "The answer of Risk.solve: the value, the worst-case weights and how they were found.")
      .def_readonly("weights", &Solution::weights)
      .def_property_readonly("value", field(&RiskSolution::value, &Solution::value))
      .def_property_readonly("eta", field(&RiskSolution::eta, &Solution::eta))
      .def_property_readonly("multiplier", field(&RiskSolution::multiplier, &Solution::multiplier))
      .def_property_readonly("gap", field(&RiskSolution::gap, &Solution::gap))
      .def_property_readonly("effective_sample_size",
                             field(&RiskSolution::effective_sample_size, &Solution::effective_sample_size))
      .def_property_readonly("iterations", field(&RiskSolution::iterations, &Solution::iterations))
      .def("with_weights",
           [](const Solution& s, py::object weights) {
             Solution other = s;
             other.weights = std::move(weights);
             return other;
           },
           py::arg("weights"), "The same solution with other weights.")
      .def("__repr__", &solution_text)
      .def(py::pickle(&solution_state, &solution_from));

  py::classh<Risk>(m, "Risk")
      .def("solve", &solve, py::arg("losses"), py::arg("base"), py::arg("threads"), py::arg("out"))
      .def("value", &value, py::arg("losses"), py::arg("base"), py::arg("threads"));

  m.def("make_mean", &make_mean);
  m.def("make_worst", &make_worst);
  m.def("make_cvar", &make_cvar, py::arg("alpha"));
  m.def("make_total_variation", &make_total_variation, py::arg("radius"));
  m.def("make_chi_square", &make_chi_square, py::arg("penalty"), py::arg("radius"));
  m.def("make_kl", &make_kl, py::arg("penalty"), py::arg("radius"));
  m.def("make_tilted", &make_tilted, py::arg("t"));
  m.def("make_kl_cvar", &make_kl_cvar, py::arg("alpha"), py::arg("penalty"));
  m.def("make_smoothed_cvar", &make_smoothed_cvar, py::arg("alpha"), py::arg("penalty"));
  m.def("make_cressie_read", &make_cressie_read, py::arg("order"), py::arg("penalty"), py::arg("radius"));
  m.def("make_smoothed_total_variation", &make_smoothed_total_variation, py::arg("radius"), py::arg("penalty"));
  m.def(
      "make_step_spectrum",
      [](const py::array_t<double, py::array::c_style>& w, double penalty) {
        return make_step_spectrum(std::vector<double>(w.data(), w.data() + w.size()), penalty);
      },
      py::arg("weights"), py::arg("penalty"));
  m.def("make_extremile", &make_extremile, py::arg("draws"), py::arg("penalty"));
  m.def("make_exponential_spectrum", &make_exponential_spectrum, py::arg("rate"), py::arg("penalty"));
}

}  // namespace leeward::python
