"""What the tilted estimators share: the problem with its groups, the fit from the mean's solution, and scores on any data."""

from __future__ import annotations

import dataclasses
import math
import numbers
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import leeward as lw
from leeward.sklearn._errors import ConvergenceWarning, convergence_warnings
from leeward.sklearn._inputs import group_codes, level, threads_of, weights_of
from leeward.sklearn._linear import Array, LinearFit
from leeward.sklearn._names import solver_of

__all__ = ["TiltedLinear"]

_TOL = 1e-6  # owed by default: relative certified gap, or scaled gradient norm
_POLISH, _SMALL = 1e-2, 1 << 18  # on data of at most so many entries the default aims at this fraction of it


class TiltedLinear(LinearFit):
    """Base of the tilted estimators; subclasses say which losses they take, what the targets are and what groups are by default."""

    def __init__(
        self,
        t: float = 10.0,
        tau: float = -2.0,
        loss: Any = "squared",
        *,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.t = t
        self.tau = tau
        self.loss = loss
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_passes = max_passes
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _groups(self, groups: Any, target: Any) -> NDArray[np.int64]:
        """Codes of the groups, by default those that the subclass takes from the target."""
        coded = group_codes(groups, len(target))
        return self._usual_groups(target) if coded is None else coded[0]

    def _usual_groups(self, target: Any) -> NDArray[np.int64]:
        raise NotImplementedError

    def _problem(self, X: Any, target: Any, weight: Array | None, groups: Any, l2: float) -> lw.HierarchicalTilt:
        model = self._model(X, target, weight, l2=l2)
        return lw.HierarchicalTilt(model, self._groups(groups, target), _tilt("t", self.t), _tilt("tau", self.tau))

    def _solve(self, X: Any, target: Any, weight: Array | None, groups: Any, start: Array | None) -> Array:
        """Minimise the objective and set the attributes that do not depend on the kind of target."""
        problem = self._problem(X, target, weight, groups, level("l2", self.l2))
        if start is None:
            start = self._mean_start(problem)
        solver = solver_of(self.solver)
        if self.tol is not None:
            promised = aim = level("tol", self.tol)
        elif solver is None or isinstance(solver, lw.LBFGS):
            promised, aim = _TOL, _TOL * (_POLISH if math.prod(X.shape) <= _SMALL else 1.0)
        else:
            promised = aim = solver.default_tol(problem, self.max_passes)
        with convergence_warnings() as early:
            w = self._minimised(problem, start, solver, (promised, aim), X, None)
        result = self.result_
        error = float(np.linalg.norm(result.jac)) * max(1.0, float(np.linalg.norm(w)))
        near = self.gap_ is None and error <= promised * max(1.0, abs(self.objective_))
        if near and result.status is lw.Status.STALLED:
            message = f"converged to what double precision resolves: the gradient norm at the objective {result.fun:.9g} is {error:.3g}"
            self.result_ = dataclasses.replace(result, status=lw.Status.CONVERGED, message=message)
        elif early and not near:
            warnings.warn(early[0], ConvergenceWarning, stacklevel=3)
        return w

    def _mean_start(self, problem: lw.HierarchicalTilt) -> Array | None:
        """The fit of the mean loss: a problem that is not convex needs a start near its solution."""
        with np.errstate(over="ignore", invalid="ignore"), convergence_warnings():
            x = lw.minimize(lw.Robust(problem.samples), threads=threads_of(self.n_jobs)).x
        return x if np.isfinite(x).all() else None

    def _posed(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> lw.HierarchicalTilt:
        check_is_fitted(self)
        X = self._check_features(X)
        return self._problem(X, self._target(y), weights_of(sample_weight, X.shape[0]), groups, 0.0)

    def robust_score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """Minus the tilted loss on (X, y): greater is better.

        On the training data, without `class_weight`, ``-robust_score(X, y, groups=groups)`` and the ridge term are `objective_`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            Samples.
        y : array-like of shape (n,)
            Labels or target values.
        sample_weight : array-like of shape (n,), default=None
            Weights of the samples; only their ratios matter.
        groups : array-like of shape (n,), default=None
            Group labels, by default as in `fit`.

        Returns
        -------
        score : float
            In units of the loss.
        """
        return -float(self._posed(X, y, sample_weight, groups).value(self._vector()))

    def sample_weights(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Array:
        """The share of each sample in the fit: its tilted weight in its group times that of the group.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            Samples.
        y : array-like of shape (n,)
            Labels or target values.
        sample_weight : array-like of shape (n,), default=None
            Weights of the samples; only their ratios matter.
        groups : array-like of shape (n,), default=None
            Group labels, by default as in `fit`.

        Returns
        -------
        weights : ndarray of shape (n,)
            They sum to 1; under a negative tau, small ones are samples that the fit takes for wrong.
        """
        return np.array(self._posed(X, y, sample_weight, groups).sample_weights(self._vector()))


def _tilt(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    return float(value)
