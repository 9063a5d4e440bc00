r"""Changes of variables ``w = w0 + P v`` in which a full-batch problem is nearly round.

The model of the curvature at a point with slopes s, second derivatives h of the losses in the scores, worst-case weights q and
curvature c of the risk (``d q_i / d l_j = diag(c) - c c^T / sum(c)`` while the weights sum to 1) is

    H = sum_i (q_i h_i + c_i s_i^2) x~_i x~_i^T - u u^T / sum(c) + l2 I,    u = sum_i c_i s_i x~_i,

a sum over few rows drawn with probability in proportion to their factor; ``P = L^-T`` with ``H = L L^T``. A wrong model costs
iterations, never correctness. Everything here is serial or cut by the problem's size, so bits do not depend on threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from leeward import _core
from leeward._smoothing import has_kink_at_ties

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.oracles import LinearModel
    from leeward.problems import Evaluation, Robust

    Vector = NDArray[np.float64]

__all__ = ["Diagonal", "Factor", "Identity", "Scaling", "curvature_factor"]

# Relative damping of the diagonal: first try, and growth until the factorisation succeeds.
_DAMPING, _GROWTH = 1e-12, 100.0


class Scaling(Protocol):
    """P of ``w = w0 + P v``."""

    def forward(self, v: Vector) -> Vector:
        """P v"""

    def pull(self, gradient: Vector) -> Vector:
        """P^T gradient"""


class Identity:
    """P = I."""

    def forward(self, v: Vector) -> Vector:
        return v

    def pull(self, gradient: Vector) -> Vector:
        return gradient


@dataclass(frozen=True)
class Diagonal:
    """P = diag(scale)."""

    scale: Vector

    def forward(self, v: Vector) -> Vector:
        return self.scale * v

    def pull(self, gradient: Vector) -> Vector:
        return self.scale * gradient


@dataclass(frozen=True)
class Factor:
    """P = D L^-T, block by block: block k acts on coordinates ``places[k]``; D is diagonal."""

    factors: tuple[Vector, ...]
    places: tuple[NDArray[np.int64], ...]
    scale: Vector

    def forward(self, v: Vector) -> Vector:
        out = np.empty_like(v)
        for factor, at in zip(self.factors, self.places, strict=True):
            out[at] = _core.solve_triangular(factor, v[at], True)
        return out * self.scale

    def pull(self, gradient: Vector) -> Vector:
        scaled = gradient * self.scale
        out = np.empty_like(gradient)
        for factor, at in zip(self.factors, self.places, strict=True):
            out[at] = _core.solve_triangular(factor, scaled[at], False)
        return out


def curvature_factor(
    problem: Robust, model: LinearModel, w: Vector, evaluation: Evaluation, limit: int, damping: float, threads: int
) -> Factor | None:
    """The change of variables from the model above at w, from at most ``limit`` rows; None when the model is not finite.

    ``damping`` times the diagonal that the first sum would have on rows of equal factor is added: where few rows carry the curvature, or
    the second sum takes it away, steps can be far too long.
    """
    s, h = model.slopes(w), model.curvatures(w)
    c = _risk_curvature(problem, evaluation)
    columns = model.n_features + (1 if model.intercept else 0)
    one = s.ndim == 1
    s, h = (s[:, None], h[:, None]) if one else (s, h)
    q = evaluation.weights
    classes = s.shape[1]
    total = (q[:, None] * h + c[:, None] * s * s).sum(axis=1)
    rows, share = _drawn(total, limit)
    if rows is None:
        return None
    x = model.rows(rows)
    factors, places = [], []
    scale = np.ones(model.dim)
    for k in range(classes):
        at = _block(model, k)
        a = (q[rows] * h[rows, k] + c[rows] * s[rows, k] ** 2) * share
        gram = _core.weighted_gram(x, a, model.intercept, threads)
        damped = damping * float(a.sum()) * _column_squares(model) if damping > 0.0 else 0.0
        if one:
            _subtract_coupling(gram, x, c[rows] * share, s[rows, 0], evaluation, rows, problem, model.intercept)
        gram[np.diag_indices_from(gram)] += damped
        gram[np.arange(model.n_features), np.arange(model.n_features)] += problem.l2
        if not np.isfinite(gram).all():
            return None
        d = np.sqrt(np.maximum(np.diag(gram), 0.0))
        largest = d.max(initial=0.0)
        if largest == 0.0:
            return None
        d = np.maximum(d, 1e-8 * largest)  # columns without curvature
        factor = _damped_factor(gram / d[:, None] / d)
        if factor is None:
            return None
        factors.append(factor)
        places.append(at)
        scale[at] = 1.0 / d
    assert len(factors[0]) == columns
    return Factor(tuple(factors), tuple(places), scale)


def _column_squares(model: LinearModel) -> Vector:
    """Mean square of each column on 2000 rows at even distances, and a hundredth of their mean; 1 for the intercept."""
    x = model.rows(np.unique(np.linspace(0, model.size - 1, min(model.size, 2000)).astype(np.int64)))
    squares = np.mean(x * x, axis=0)
    squares += 0.01 * squares.mean() if squares.size else 0.0
    return np.append(squares, 1.0) if model.intercept else squares


def _risk_curvature(problem: Robust, evaluation: Evaluation) -> Vector:
    """c of the risk at the losses; zeros where it is not finite, for groups, and at the kink of a radius form."""
    losses = evaluation.losses
    tied = has_kink_at_ties(problem.risk) and float(np.ptp(losses)) <= 1e-6 * float(np.abs(losses).max())
    if problem.groups is not None or tied:
        return np.zeros(problem.size)
    c = np.asarray(problem.risk.curvature(evaluation.losses, sample_weight=problem.base))
    return np.where(np.isfinite(c), c, 0.0)


def _drawn(total: Vector, limit: int) -> tuple[NDArray[np.int64] | None, Vector]:
    """Rows drawn in proportion to ``total`` at evenly spaced quantiles, and the factor that keeps sums unbiased."""
    nothing = np.zeros(0)
    kept = np.flatnonzero(total > 0)
    if kept.size == 0 or not np.isfinite(total).all():
        return None, nothing
    if kept.size <= limit:
        return kept, np.ones(kept.size)
    cumulated = np.cumsum(total[kept])
    at = np.searchsorted(cumulated, (np.arange(limit) + 0.5) * (cumulated[-1] / limit))
    rows, repeats = np.unique(kept[np.minimum(at, kept.size - 1)], return_counts=True)
    return rows, repeats * (cumulated[-1] / limit) / total[rows]


def _subtract_coupling(
    gram: Vector,
    x: Vector,
    c: Vector,
    s: Vector,
    evaluation: Evaluation,
    rows: NDArray[np.int64],
    problem: Robust,
    ones: bool,
) -> None:
    """``gram -= Z M^-1 Z^T``: the part of the curvature that the constraints on the weights take away.

    Columns of A are the gradients of the active constraints: ones for ``sum q = 1`` and the losses for a radius; ``Z = X~^T diag(c s) A``,
    ``M = A^T diag(c) A``.
    """
    if not c.any():
        return
    columns = [np.ones(len(rows))]
    if getattr(problem.risk, "radius", None):
        losses = evaluation.losses[rows]
        mean = float(c @ losses) / float(c.sum())
        columns.append(losses - mean)
    for a in columns:  # orthogonal in the metric c
        m = float(np.sum(c * a * a))
        if m <= 0.0 or not math.isfinite(m):
            continue
        z = _core.weighted_sum(x, c * s * a, ones)
        gram -= np.outer(z, z) / m


def _damped_factor(matrix: Vector) -> Vector | None:
    """Cholesky factor of a matrix with unit diagonal, damped as little as makes it positive definite."""
    n = len(matrix)
    damping = _DAMPING
    while damping < 1.0:
        trial = np.ascontiguousarray(matrix)
        trial = trial + damping * np.eye(n)
        if _core.cholesky(trial) == n:
            return trial
        damping *= _GROWTH
    return None


def _block(model: LinearModel, k: int) -> NDArray[np.int64]:
    """Coordinates of w that belong to output k: its coefficients, then its intercept."""
    d = model.n_features
    at = np.arange(k * d, (k + 1) * d)
    return np.append(at, model.n_outputs * d + k) if model.intercept else at
