r"""Changes of variables ``w = w0 + P v`` in which a full-batch problem is nearly round.

The model of the curvature at a point with slopes s, second derivatives h of the losses in the scores, worst-case weights q and
curvature c of the risk (``d q_i / d l_j = diag(c) - c c^T / sum(c)`` while the weights sum to 1) is

    H = sum_i (q_i h_i + c_i s_i^2) x~_i x~_i^T - u u^T / sum(c) + l2 I,    u = sum_i c_i s_i x~_i,

a sum over few rows drawn with probability in proportion to their factor; ``P = L^-T`` with ``H = L L^T``. A wrong model costs
iterations, never correctness. Everything here is serial or cut by the problem's size, so bits do not depend on threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from leeward import _core
from leeward._risk_curvature import group_curvature, pools_of, radius_binds, risk_curvature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.oracles import LinearModel
    from leeward.problems import Evaluation, Robust

    Vector = NDArray[np.float64]

__all__ = ["Diagonal", "Factor", "Hessian", "Identity", "Scaling", "curvature_diagonal", "curvature_factor"]

# Relative damping of the diagonal: first try, and growth until the factorisation succeeds.
_DAMPING, _GROWTH = 1e-12, 100.0
_LEAST = 1e-12  # a diagonal's least entry over its largest
_BLOCK = 1 << 16  # samples at a time
# Coordinates of all outputs up to which their curvature is coupled.
_COUPLED = 500


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


def curvature_diagonal(
    problem: Robust, model: LinearModel, w: Vector, evaluation: Evaluation, threads: int
) -> Diagonal:
    """``P = diag(h)^{-1/2}`` with ``h_j = sum_i q_i l_i'' x_ij^2 + l2``: for models too wide for a factor. Columns that no weighted
    sample has get the least h of the others."""
    curvatures = model.curvatures(w, threads=threads).reshape(model.size, model.n_outputs)
    h = np.empty(model.dim)
    for k in range(model.n_outputs):
        p = np.ascontiguousarray(evaluation.weights * curvatures[:, k])
        h[k * model.n_features : (k + 1) * model.n_features] = model._column_squares(p, threads) + problem.l2
        if model.intercept:
            h[model.penalised + k] = p.sum()
    largest = float(h.max(initial=0.0))
    if not (largest > 0.0 and np.isfinite(largest)):
        return Diagonal(np.ones(model.dim))
    positive = h[h > 0]
    return Diagonal(1.0 / np.sqrt(np.maximum(h, max(float(positive.min()), _LEAST * largest))))


class Hessian:
    """``H = (P P^T)^-1`` of a change of variables as a dense matrix, and its products with vectors."""

    def __init__(self, factor: Factor, threads: int) -> None:
        size = len(factor.scale)
        self.matrix = np.zeros((size, size))
        for lower, at in zip(factor.factors, factor.places, strict=True):
            rows = np.ascontiguousarray(np.tril(lower).T) / factor.scale[at]
            self.matrix[np.ix_(at, at)] = _core.weighted_gram(rows, np.ones(len(at)), False, threads)
        self._rows, self._threads = _core.LinearMatrix.dense(self.matrix), threads

    def times(self, v: Vector) -> Vector:
        """H v."""
        out = np.empty(len(v))
        self._rows.scores(v, 1, False, out, self._threads)
        return out


@np.errstate(over="ignore", invalid="ignore")
def curvature_factor(
    problem: Robust,
    model: LinearModel,
    w: Vector,
    evaluation: Evaluation,
    limit: int,
    damping: float,
    threads: int,
    least: Vector | None = None,
) -> Factor | None:
    """The change of variables from the model above at w, from at most ``limit`` rows; None when the model is not finite.

    ``damping`` times the diagonal that the first sum would have on rows of equal factor is added: where few rows carry the
    curvature, or the second sum takes it away, steps can be far too long. The outputs of softmax are coupled up to 500
    coordinates in all, and treated one by one beyond. ``least`` (n,) bounds the curvature of the risk from below.
    """
    sketch = _sketch(problem, model, w, evaluation, limit, least)
    if sketch is None:
        return None
    outputs = range(model.n_outputs)
    width = model.n_features + (1 if model.intercept else 0)
    together = [list(outputs)] if width * model.n_outputs <= _COUPLED else [[k] for k in outputs]
    squares = _column_squares(model) if damping > 0.0 else None
    factors, places = [], []
    scale = np.ones(model.dim)
    for group in together:
        gram = _hessian(sketch, group, model.intercept, threads)
        if squares is not None:
            total = float(np.sum(sketch.share * np.abs(sketch.diagonal(group[0]))))
            gram[np.diag_indices_from(gram)] += np.tile(damping * total * squares, len(group))
        penalised = np.tile(np.arange(width) < model.n_features, len(group))
        gram[np.diag_indices_from(gram)] += np.where(penalised, problem.l2, 0.0)
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
        at = np.concatenate([_block(model, k) for k in group])
        factors.append(factor)
        places.append(at)
        scale[at] = 1.0 / d
    return Factor(tuple(factors), tuple(places), scale)


@dataclass(frozen=True)
class _Sketch:
    """Rows that stand for all: data (m, d), factors that keep sums unbiased, and what the sums are made of."""

    x: Vector
    share: Vector
    q: Vector
    slopes: Vector  # (m, C)
    curvatures: Vector  # (m, C), the diagonal
    probabilities: Vector | None  # (m, C) of softmax
    c: Vector  # curvature of the risk in the losses
    pools: NDArray[np.int64] | None  # sets of rows with a given weight; None: all have weight 1 together
    radius: Vector | None  # gradient of an active radius, orthogonal to the pools
    owners: NDArray[np.int64] | None  # groups of the rows
    per_group: Vector  # curvature of the risk in the groups' means
    inside: Vector  # share of a row in its group's mean

    def diagonal(self, k: int) -> Vector:
        """Factors of x x^T in the block of output k."""
        return self.q * self.curvatures[:, k] + self.c * self.slopes[:, k] ** 2


def _sketch(
    problem: Robust, model: LinearModel, w: Vector, evaluation: Evaluation, limit: int, least: Vector | None
) -> _Sketch | None:
    q = evaluation.weights
    c = risk_curvature(problem, evaluation)
    if least is not None:
        c = np.maximum(c, least)
    total = _factors(model, w, q, c)
    rows, share = _drawn(total, limit)
    if rows is None:
        return None
    some = None if len(rows) == model.size else rows  # all: their scores are known
    s, h = model.slopes(w, some), model.curvatures(w, some)
    s, h = (s[:, None], h[:, None]) if s.ndim == 1 else (s, h)
    probabilities = None
    if model.n_outputs > 1:
        probabilities = s.copy()
        probabilities[np.arange(len(rows)), model.targets(rows).astype(np.int64)] += 1.0
    radius = None
    weight = c[rows] * share
    if radius_binds(problem.risk, evaluation) and weight.any():
        losses = evaluation.losses[rows]
        radius = losses - float(np.sum(weight * losses)) / float(weight.sum())
    pools = pools_of(problem, evaluation)
    owners, per_group, inside = None, np.zeros(0), np.zeros(0)
    if problem.groups is not None:
        owners = problem.groups[rows]
        held = evaluation.solution.weights
        per_group, inside = group_curvature(problem, evaluation), np.zeros(len(rows))
        positive = held[owners] > 0
        inside[positive] = q[rows][positive] / held[owners][positive]
    return _Sketch(
        model.rows(rows),
        share,
        q[rows],
        s,
        h,
        probabilities,
        c[rows],
        None if pools is None else pools[rows],
        radius,
        owners,
        per_group,
        inside,
    )


def _factors(model: LinearModel, w: Vector, q: Vector, c: Vector) -> Vector:
    """``sum_k q_i h_ik + (c_i + q_i) s_ik^2`` (n,), in little memory beside the slopes or the curvatures."""
    s = model.slopes(w)
    if s.ndim == 1:
        total = c + q
        total *= s
        total *= s
        del s
        h = model.curvatures(w)
        h *= q
        total += h
        return total
    h, total = model.curvatures(w), np.empty(model.size)
    for first in range(0, model.size, _BLOCK):
        at = slice(first, first + _BLOCK)
        total[at] = (q[at, None] * h[at] + (c[at] + q[at])[:, None] * s[at] * s[at]).sum(axis=1)
    return total


def _hessian(sketch: _Sketch, outputs: list[int], ones: bool, threads: int) -> Vector:
    """The curvature in the coordinates of some outputs, one after the other, without l2."""
    width = sketch.x.shape[1] + (1 if ones else 0)
    total = np.zeros((width * len(outputs),) * 2)
    for i, k in enumerate(outputs):
        for j, other in enumerate(outputs[: i + 1]):
            a = sketch.c * sketch.slopes[:, k] * sketch.slopes[:, other]
            if k == other:
                a = sketch.diagonal(k)
            elif sketch.probabilities is not None:
                a = a - sketch.q * sketch.probabilities[:, k] * sketch.probabilities[:, other]
            block = _core.weighted_gram(sketch.x, a * sketch.share, ones, threads)
            total[i * width : (i + 1) * width, j * width : (j + 1) * width] = block
            total[j * width : (j + 1) * width, i * width : (i + 1) * width] = block
    if sketch.owners is not None:
        _add_groups(total, sketch, outputs, ones)
    elif sketch.pools is not None:
        _subtract_pools(total, sketch, sketch.pools, outputs, ones, threads)
    elif sketch.c.any():
        constraints = [np.ones(len(sketch.c))]
        if sketch.radius is not None:
            constraints.append(sketch.radius)
        for a in constraints:  # orthogonal in the metric c
            weight = sketch.c * sketch.share * a
            m = float(np.sum(weight * a))
            if m > 0.0:
                z = _per_output(sketch, outputs, weight, ones)
                total -= np.outer(z, z) / m
    return total


def _subtract_pools(
    total: Vector, sketch: _Sketch, pools: NDArray[np.int64], outputs: list[int], ones: bool, threads: int
) -> None:
    """``total -= sum_B u_B u_B^T / c_B`` with ``u_B = sum_{i in B} c_i s_i x~_i`` and c_B the sum of c over pool B."""
    order = np.argsort(pools, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(pools[order]) > 0])
    weight = (sketch.c * sketch.share)[order]
    mass = np.add.reduceat(weight, starts)
    x = np.column_stack([sketch.x, np.ones(len(pools))]) if ones else sketch.x
    sums = [np.add.reduceat((weight * sketch.slopes[order, k])[:, None] * x[order], starts) for k in outputs]
    inverse = np.divide(1.0, mass, out=np.zeros(len(mass)), where=mass > 0)
    total -= _core.weighted_gram(np.ascontiguousarray(np.concatenate(sums, axis=1)), inverse, False, threads)


def _add_groups(total: Vector, sketch: _Sketch, outputs: list[int], ones: bool) -> None:
    """``total += J^T C J`` with J the gradients of the groups' means and C the curvature of the risk in them."""
    c = sketch.per_group
    assert sketch.owners is not None
    if not c.any():
        return
    groups = np.flatnonzero(c > 0)
    mean = np.zeros(len(total))
    for g in groups:
        z = _per_output(sketch, outputs, np.where(sketch.owners == g, sketch.inside * sketch.share, 0.0), ones)
        total += c[g] * np.outer(z, z)
        mean += c[g] * z
    total -= np.outer(mean, mean) / c.sum()


def _per_output(sketch: _Sketch, outputs: list[int], weight: Vector, ones: bool) -> Vector:
    """``sum_i weight_i s_ik x~_i``, output after output."""
    return np.concatenate([_core.weighted_sum(sketch.x, weight * sketch.slopes[:, k], ones) for k in outputs])


def _column_squares(model: LinearModel) -> Vector:
    """Mean square of each column on 2000 rows at even distances, and a hundredth of their mean; 1 for the intercept."""
    x = model.rows(np.unique(np.linspace(0, model.size - 1, min(model.size, 2000)).astype(np.int64)))
    squares = np.mean(x * x, axis=0)
    squares += 0.01 * squares.mean() if squares.size else 0.0
    return np.append(squares, 1.0) if model.intercept else squares


def _drawn(total: Vector, limit: int) -> tuple[NDArray[np.int64] | None, Vector]:
    """Rows drawn in proportion to ``total`` at evenly spaced quantiles, and the factor that keeps sums unbiased."""
    nothing = np.zeros(0)
    positive = total > 0
    count = int(np.count_nonzero(positive))
    if count == 0 or not np.isfinite(total).all():
        return None, nothing
    if count <= limit:
        return np.flatnonzero(positive), np.ones(count)
    kept = None if count == total.size else np.flatnonzero(positive)  # None: all, which may be many
    cumulated = np.cumsum(total if kept is None else total[kept])
    at = np.searchsorted(cumulated, (np.arange(limit) + 0.5) * (cumulated[-1] / limit))
    at = np.minimum(at, count - 1)
    rows, repeats = np.unique(at if kept is None else kept[at], return_counts=True)
    return rows, repeats * (cumulated[-1] / limit) / total[rows]


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
