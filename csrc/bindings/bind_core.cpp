#include "common.hpp"
#include "leeward/core/parallel.hpp"

namespace leeward::python {

void bind_core(py::module_& m) {
  m.attr("__version__") = LEEWARD_VERSION;
  m.def("resolve_threads", &resolve_threads, py::arg("requested"));
  m.def("parallel_backend", &parallel_backend);
}

}  // namespace leeward::python
