"""What the robust estimators share: the risk and its parameters, the fit itself, and the risk of a fitted model on any data."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

import leeward as lw
from leeward.sklearn._inputs import group_codes, level, weights_of
from leeward.sklearn._linear import Array, LinearFit
from leeward.sklearn._names import risk_of, risk_parameters, solver_of, with_parameters
from leeward.sklearn._partial import Stream, next_stream

__all__ = ["RobustLinear", "learns_in_batches"]

_SMOOTH_TOL, _KINKED_TOL = 1e-6, 1e-4  # relative certified gaps owed by default
_POLISH, _SMALL = 1e-8, 1 << 18  # on data of at most so many entries the default aims at this fraction of the gap owed


class RobustLinear(LinearFit):
    """Base of the robust linear estimators; subclasses say which losses they take and what the targets are."""

    _supported: tuple[str, ...] = ()
    _streams = True  # whether there is partial_fit
    _whole = "chooses by cross-validation, which needs all data"  # why not
    _stream: Stream | None = None

    def __init__(
        self,
        risk: Any = "chi_square",
        loss: Any = "squared",
        *,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        domain: Any = None,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.risk = risk
        self.loss = loss
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.domain = domain
        self.solver = solver
        self.tol = tol
        self.max_passes = max_passes
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- parameters -------------------------------------------------------------------------------------------------
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; with `deep`, those of the risk too, as ``risk__alpha``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to list the parameters of the risk.

        Returns
        -------
        params : dict
            Names and values.
        """
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            params |= {f"risk__{name}": value for name, value in risk_parameters(self.risk).items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``risk__alpha=0.2`` replaces the risk by one of its class with that alpha.

        Parameters
        ----------
        **params : dict
            Names and values.

        Returns
        -------
        self : estimator
            This estimator.
        """
        changes = {name[len("risk__") :]: params.pop(name) for name in list(params) if name.startswith("risk__")}
        if params:
            super().set_params(**params)
        if changes:
            self.risk = with_parameters(self.risk, changes)
        return self

    # -- fit --------------------------------------------------------------------------------------------------------
    def _solve(self, X: Any, target: Any, sample_weight: Array | None, groups: Any, start: Array | None) -> Array:
        """Minimise the robust objective and set the attributes that do not depend on the kind of target."""
        coded = group_codes(groups, X.shape[0])
        risk = risk_of(self.risk)
        model = self._model(X, target, sample_weight, l2=level("l2", self.l2))
        del target  # the model has its own
        problem = lw.Robust(model, risk, groups=None if coded is None else coded[0])
        solver = solver_of(self.solver)
        promised, aim = self._tolerances(problem, X.shape, solver)
        w = self._minimised(problem, start, solver, (promised, aim), X, self.domain)
        self.risk_ = risk
        self._stream = None
        return w

    def _learn(self, X: Any, target: Any, sample_weight: Array | None) -> Array:
        """One step on a batch; the coefficients that are the answer so far, as a vector w."""
        risk = risk_of(self.risk)
        model = self._model(X, target, sample_weight, l2=level("l2", self.l2))
        stream = self._stream
        if stream is None:
            fitted = hasattr(self, "coef_")
            w = self._vector() if fitted else np.zeros(model.dim)
            stream = Stream(w, w, rows=float(self.n_samples_seen_) if fitted else 0.0)
        if stream.w.shape != (model.dim,):
            raise ValueError("fit_intercept has changed since the last call: fit a new estimator")
        if self.domain is not None and not isinstance(self.domain, lw.Domain):
            raise TypeError(f"domain must be a leeward domain or None, got {self.domain!r}")
        with np.errstate(over="ignore", invalid="ignore"):
            self._stream = next_stream(stream, lw.Robust(model, risk), X, self.domain)
        self.risk_ = risk
        self.n_samples_seen_ = int(self._stream.rows)
        for stale in ("result_", "objective_", "gap_", "n_iter_"):  # they spoke of a fit on all data
            if hasattr(self, stale):
                delattr(self, stale)
        return self._stream.mean

    def _tolerances(
        self, problem: lw.Robust, shape: tuple[int, ...], solver: lw.Algorithm | None
    ) -> tuple[float, float]:
        """The relative gap that a fit owes, without which it warns, and the one it tries to reach.

        On small data the default goes on to where the order of rows no longer shows in the predictions. A solver that works on
        batches has its own default, and none where a budget is given.
        """
        if self.tol is not None:
            return (level("tol", self.tol),) * 2
        if not (solver is None or isinstance(solver, lw.LBFGS)):
            return (solver.default_tol(problem, self.max_passes),) * 2
        promised = _SMOOTH_TOL if problem.smooth else _KINKED_TOL
        small = problem.smooth and math.prod(shape) <= _SMALL
        return promised, promised * (_POLISH if small else 1.0)

    # -- the fitted model on any data ---------------------------------------------------------------------------------
    def _evaluated(self, X: Any, y: Any, sample_weight: Any, groups: Any, risk: Any) -> tuple[lw.Robust, Any]:
        check_is_fitted(self)
        X = self._check_features(X)
        n = X.shape[0]
        coded = group_codes(groups, n)
        model = self._model(X, self._target(y), weights_of(sample_weight, n), l2=0.0)
        used = self.risk_ if risk is None else risk_of(risk)
        problem = lw.Robust(model, used, groups=None if coded is None else coded[0])
        return problem, problem.evaluate(self._vector())

    def robust_score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, risk: Any = None) -> float:
        """Minus the risk of the losses on (X, y): greater is better.

        On the training data, without `class_weight`, ``-robust_score(X, y) + l2/2 * (coef_**2).sum()`` is `objective_`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            Samples.
        y : array-like of shape (n,)
            Labels or target values.
        sample_weight : array-like of shape (n,), default=None
            Base weights of the samples; only their ratios matter.
        groups : array-like of shape (n,), default=None
            Group labels: the risk is then taken over the groups' mean losses.
        risk : risk or name, default=None
            The risk to report; None is the risk that the model was fitted with.

        Returns
        -------
        score : float
            -R(losses), in units of the loss.
        """
        _, evaluation = self._evaluated(X, y, sample_weight, groups, risk)
        return -float(evaluation.value)

    def worst_case_weights(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Array:
        """The weights q of the samples under which the model looks worst; they sum to 1.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            Samples.
        y : array-like of shape (n,)
            Labels or target values.
        sample_weight : array-like of shape (n,), default=None
            Base weights of the samples; only their ratios matter.
        groups : array-like of shape (n,), default=None
            Group labels: the risk is then taken over the groups' mean losses.

        Returns
        -------
        weights : ndarray of shape (n,)
            q_i >= 0 with sum 1; q_i is the derivative of the risk with respect to the loss of sample i.
        """
        _, evaluation = self._evaluated(X, y, sample_weight, groups, None)
        return np.array(evaluation.weights, dtype=np.float64)


def learns_in_batches(estimator: Any) -> bool:
    """There is partial_fit but for the searches, which need all data at once."""
    if estimator._streams:
        return True
    raise AttributeError(f"{type(estimator).__name__} {estimator._whole}: no partial_fit")
