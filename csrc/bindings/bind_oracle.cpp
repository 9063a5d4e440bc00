#include "common.hpp"

namespace leeward::python {

void bind_oracle(py::module_& m) { (void)m; }

}  // namespace leeward::python
