#include "common.hpp"

namespace leeward::python {

void bind_descent(py::module_& m) { (void)m; }

}  // namespace leeward::python
