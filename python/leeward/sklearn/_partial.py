r"""Learning a batch at a time: one step of the stochastic proximal point method for each batch, with averaging.

With P_t the robust objective of batch t and H a model of the curvature, averaged over the batches so far, the last ones most,

    w_{t+1}  ~  argmin_w  P_t(w) + h(w) + (k_t / 2) |w - w_t|_H^2,        k_t = 0.4 sqrt(1 + batches before),

h the domain or prox term, solved by a few accelerated proximal steps whose length is found by backtracking. Nothing needs tuning: a
step that solves the batch cannot be too long, and the pull towards w_t grows as ``sqrt(t)``. The answer is the average of the w_t
with the weights ``(3 + 1)/(t + 3)``, in which the noise of single batches goes. H is the matrix ``sum_i q_i l_i'' x_i x_i^T`` for few
features, and its diagonal for many, or where a domain or prox term needs coordinates to stay apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray

import leeward as lw
from leeward.sklearn._names import risk_parameters, with_parameters

__all__ = ["Stream", "next_stream"]

Array = NDArray[np.float64]
_STEPS = 16  # accelerated steps a batch, at most
_DOUBLINGS = 40
_ENOUGH = 1e-4  # relative decrease of the batch's objective below which the steps end
_STRENGTH = 0.05  # of the smoothing of kinks, over the spread of the losses
_LEVEL = 3.0  # of the averaging
_PULL = 0.4  # k_t of the first batch
_FULL = 300  # features up to which H is a matrix
_FLOOR = 1e-10  # of the eigenvalues of H, over the largest entry of its diagonal


@dataclass(frozen=True)
class Stream:
    """What is kept between batches: the iterate, its average, the curvature H (k, k) or (k,), and the rows so far.

    H is shared by all outputs; k is the number of features, and one more for the intercept.
    """

    w: Array
    mean: Array
    curvature: Array | None = None
    rows: float = 0.0


def next_stream(stream: Stream, problem: lw.Robust, X: Any, domain: Any) -> Stream:
    """The stream after one more batch.

    Parameters
    ----------
    stream : Stream
        The stream before it.
    problem : leeward.Robust
        The robust problem of the batch alone, on a linear model. Kinks are smoothed, each batch by a twentieth of the spread of
        its losses; those of radius forms, where all losses are equal, too.
    X : (m, d) array or CSR matrix
        The samples of the batch.
    domain : leeward domain or None
        Where the coefficients may lie, or a term of the objective.
    """
    count = problem.size if problem.base is None else int(np.count_nonzero(problem.base))
    before, total = stream.rows / count, stream.rows + count
    problem = _smoothed(problem, problem.oracle.losses(stream.w))
    weights = problem.evaluate(stream.w).weights
    model: Any = problem.oracle
    bend = np.abs(model.curvatures(stream.w))
    here = _curvature(X, weights * (bend if bend.ndim == 1 else bend.max(axis=1)), model.intercept, domain is None)
    share = min((_LEVEL + 1.0) / (before + 1.0 + _LEVEL), 1.0)
    curvature = here if stream.curvature is None else stream.curvature + share * (here - stream.curvature)
    metric = _metric(model, curvature, domain)
    w = _proximal_point(problem, domain, stream.w, _PULL * math.sqrt(1.0 + before), metric)
    return replace(stream, w=w, mean=stream.mean + share * (w - stream.mean), curvature=curvature, rows=total)


def _smoothed(problem: lw.Robust, losses: Array) -> lw.Robust:
    strength = _STRENGTH * (float(losses.std()) or abs(float(losses.mean())) or 1.0)
    settings = risk_parameters(problem.risk)
    if (
        settings.get("radius") is not None
        and "penalty" in settings
        and settings["penalty"] is None
        and problem.risk.smooth
    ):
        problem = lw.Robust(problem.oracle, with_parameters(problem.risk, {"penalty": strength}))
    if problem.smooth:
        return problem
    try:
        return problem.smoothed(strength)
    except ValueError:  # a risk that has no smoothing: its subgradients must do
        return problem


def _curvature(X: Any, v: Array, intercept: bool, free: bool) -> Array:
    """``sum_i v_i x~_i x~_i^T``, or its diagonal, x~ with a 1 for the intercept."""
    sparse = bool(sp.issparse(X))
    one = [np.array([v.sum()])] if intercept else []
    if X.shape[1] > _FULL or not free:
        squares = X.multiply(X) if sparse else np.square(X, dtype=np.float64)
        return np.concatenate([np.asarray(squares.T @ v).ravel(), *one])
    scaled = sp.diags_array(v) @ X if sparse else X * v[:, None]
    gram = (X.T @ scaled).toarray() if sparse else np.asarray(X.T @ scaled)
    if not intercept:
        return gram
    sums = np.asarray(scaled.sum(axis=0)).reshape(-1, 1)
    return np.block([[gram, sums], [sums.T, one[0][:, None]]])


@dataclass(frozen=True)
class _Metric:
    """|v|^2 in H for vectors in the layout of w, and H^{-1} v. ``factor``: Cholesky's (k, k), or the diagonal (k,)."""

    factor: Array
    outputs: int
    intercept: bool

    def _rows(self, v: Array) -> Array:
        """v as (outputs, k)."""
        d = len(self.factor) - int(self.intercept)
        coef = v[: self.outputs * d].reshape(self.outputs, d)
        return np.column_stack([coef, v[self.outputs * d :]]) if self.intercept else coef

    def _flat(self, rows: Array) -> Array:
        return np.concatenate([rows[:, :-1].ravel(), rows[:, -1]]) if self.intercept else rows.ravel()

    def times(self, v: Array) -> Array:
        """H v."""
        rows = self._rows(v)
        return self._flat(rows * self.factor if self.factor.ndim == 1 else rows @ self.factor.T @ self.factor)

    def solve(self, v: Array) -> Array:
        """H^{-1} v."""
        rows = self._rows(v)
        return self._flat(rows / self.factor if self.factor.ndim == 1 else la.cho_solve((self.factor, False), rows.T).T)


def _metric(model: Any, curvature: Array, domain: Any) -> _Metric:
    """The metric of H with the l2 term, kept away from 0 where a loss or a feature is flat."""
    diagonal = np.array(curvature if curvature.ndim == 1 else np.diag(curvature))
    diagonal[: model.n_features] += model.l2
    largest = float(diagonal.max()) or 1.0
    floored = np.maximum(diagonal, 1e-16 * largest)
    if curvature.ndim == 1:
        if domain is not None and not domain.separable:
            floored = np.full_like(floored, largest)
        return _Metric(floored, model.n_outputs, model.intercept)
    scale = np.sqrt(floored)
    matrix = curvature.copy()
    matrix[np.diag_indices_from(matrix)] = floored
    matrix /= scale
    matrix /= scale[:, None]
    for damping in (_FLOOR, 1e-7, 1e-4, 1e-1):
        try:
            factor = la.cholesky(matrix + damping * np.eye(len(matrix)), lower=False)
        except la.LinAlgError:
            continue
        return _Metric(factor * scale, model.n_outputs, model.intercept)
    return _Metric(floored, model.n_outputs, model.intercept)


def _proximal_point(problem: lw.Robust, domain: Any, centre: Array, pull: float, metric: _Metric) -> Array:
    """Accelerated proximal steps from ``centre`` on the batch's objective plus ``(pull/2) |w - centre|^2`` in the metric."""
    k = problem.penalised

    def step(v: Array, gradient: Array, size: float) -> Array:
        moved = v - size * metric.solve(gradient)
        if domain is not None:
            steps = size * metric.solve(np.ones(len(v)))[:k]
            moved[:k] = domain.prox(moved[:k], steps if domain.separable else float(steps[0]))
        return moved

    def smooth(w: Array) -> tuple[float, Array]:
        evaluation = problem.evaluate(w)
        move = w - centre
        drawn = metric.times(move)
        return evaluation.value + 0.5 * pull * float(move @ drawn), evaluation.gradient + pull * drawn

    def whole(w: Array, value: float) -> float:
        return value if domain is None else value + float(domain.value(w[:k]))

    point = best = step(centre, np.zeros_like(centre), 1.0 / (1.0 + pull))
    lowest, theta, size = math.inf, 1.0, 1.0 / (1.0 + pull)
    for _ in range(_STEPS):
        value, gradient = smooth(point)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            break
        for _ in range(_DOUBLINGS):
            trial = step(point, gradient, size)
            move = trial - point
            reached, bound = math.inf, value
            with np.errstate(over="ignore", invalid="ignore"):
                if np.isfinite(trial).all():
                    reached = smooth(trial)[0]
                    bound = value + float(gradient @ move) + 0.5 / size * float(move @ metric.times(move))
            if math.isfinite(reached) and reached <= bound + 1e-12 * abs(value):
                break
            size *= 0.5
        else:
            break
        now = whole(trial, reached)
        if not now < lowest:  # the momentum overshot
            if theta == 1.0:
                break
            theta, point = 1.0, best
            continue
        done = lowest - now <= _ENOUGH * abs(now)
        after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * theta * theta))
        point = trial + ((theta - 1.0) / after) * (trial - best)
        best, lowest, theta = trial, now, after
        if done:
            break
        size *= 1.4
    return best
