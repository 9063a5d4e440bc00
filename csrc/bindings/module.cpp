// The table of contents of leeward._core.
#include "common.hpp"

PYBIND11_MODULE(_core, m, pybind11::mod_gil_not_used()) {
  using namespace leeward::python;
  m.doc() = "The compiled core of leeward; use the names in the package instead.";
  bind_core(m);
  bind_risk(m);
  bind_oracle(m);
  bind_descent(m);
  bind_sinkhorn(m);
  bind_gram(m);
  bind_gaussian(m);
}
