// Shared by the bindings: the namespace alias and the table of contents of the module.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace leeward::python {

namespace py = pybind11;

void bind_core(py::module_& m);     // version, threads, draws, real math (for tests and teaching)
void bind_draws(py::module_& m);   // draws of a stream, called by bind_core
void bind_risk(py::module_& m);     // Risk
void bind_oracle(py::module_& m);   // Oracle, LinearOracle
void bind_functions(py::module_& m);  // oracles of user functions, called by bind_oracle
void bind_estimators(py::module_& m);  // Estimator, Minibatch, SnapshotDifference, Spider, Storm, called by bind_descent
void bind_levels(py::module_& m);   // levels of compositions and the estimators of their gradients, called by bind_descent
void bind_descent(py::module_& m);  // Run: the native descent loops
void bind_stage(py::module_& m);    // the inner loop of a stage on a linear model, called by bind_descent
void bind_sinkhorn(py::module_& m);  // points around samples, and the inner problems of Sinkhorn DRO
void bind_gram(py::module_& m);     // weighted Gram matrices and their factors
void bind_gaussian(py::module_& m);  // the Gaussian Sinkhorn objective

}  // namespace leeward::python
