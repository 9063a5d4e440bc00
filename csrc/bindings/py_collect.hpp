// For objects of the core that hold the user's functions: how Python's cycle collector sees them.
#pragma once

#include "common.hpp"

namespace leeward::python {

// Cycles through the user's functions (a function that knows its own oracle) are collected.
template <class T>
void let_collect(PyHeapTypeObject* heap) {
  PyTypeObject* const type = &heap->ht_type;
  type->tp_flags |= Py_TPFLAGS_HAVE_GC;
  type->tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    return py::detail::is_holder_constructed(self) ? py::cast<const T&>(py::handle(self)).traverse(visit, arg) : 0;
  };
  type->tp_clear = [](PyObject* self) {
    if (py::detail::is_holder_constructed(self)) py::cast<T&>(py::handle(self)).clear();
    return 0;
  };
}

}  // namespace leeward::python
