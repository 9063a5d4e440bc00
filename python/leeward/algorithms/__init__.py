"""Algorithms: an estimator of the gradient, an update of the iterate and a schedule of steps (docs/extending/update.md)."""

from __future__ import annotations

from leeward.algorithms.base import Algorithm
from leeward.algorithms.estimators import Estimator, Minibatch
from leeward.algorithms.lbfgs import LBFGS
from leeward.algorithms.nesterov import Nesterov
from leeward.algorithms.proximal_newton import ProximalNewton
from leeward.algorithms.sgd import SGD

__all__ = ["LBFGS", "SGD", "Algorithm", "Estimator", "Minibatch", "Nesterov", "ProximalNewton"]
