#include "common.hpp"

namespace leeward::python {

void bind_risk(py::module_& m) { (void)m; }

}  // namespace leeward::python
