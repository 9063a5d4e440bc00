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
from leeward.risks import KL, ChiSquare, CressieRead, Spectral, TotalVariation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.oracles import LinearModel
    from leeward.problems import Evaluation, Robust
    from leeward.risks import Risk

    Vector = NDArray[np.float64]

__all__ = ["Diagonal", "Factor", "Identity", "Scaling", "curvature_factor", "strength_pull"]

# Relative damping of the diagonal: first try, and growth until the factorisation succeeds.
_DAMPING, _GROWTH = 1e-12, 100.0
# Coordinates of all outputs up to which their curvature is coupled.
_COUPLED = 500
# Difference of the pools' constants, in units of the penalty, from which pools are apart.
_SAME_POOL = 1e-6


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

    ``damping`` times the diagonal that the first sum would have on rows of equal factor is added: where few rows carry the
    curvature, or the second sum takes it away, steps can be far too long. The outputs of softmax are coupled up to 500
    coordinates in all, and treated one by one beyond.
    """
    sketch = _sketch(problem, model, w, evaluation, limit)
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


def strength_pull(problem: Robust, model: LinearModel, w: Vector, evaluation: Evaluation, threads: int) -> Vector:
    """``b = sum_i c_i (l_i - mean_c l) s_i x~_i = -lam dg/dlam`` (d,), lam the penalty of the smoothed risk.

    Zero where a radius binds: the penalty then takes over from the radius's multiplier, and the weights stay.
    """
    if _radius_binds(problem.risk, evaluation):
        return np.zeros(model.dim)
    if problem.groups is None:
        c, losses = _risk_curvature(problem, evaluation), evaluation.losses
        share = np.ones(problem.size)
    else:
        held = evaluation.solution.weights
        kept = np.flatnonzero(problem.groups >= 0)
        number = np.where(problem.groups >= 0, problem.groups, 0)
        share = np.zeros(problem.size)
        share[kept] = np.divide(evaluation.weights, held[number], out=np.zeros(problem.size), where=held[number] > 0)[
            kept
        ]
        means = np.bincount(number[kept], weights=(share * evaluation.losses)[kept], minlength=len(held))
        c, losses = _group_curvature(problem, evaluation)[number], means[number]
    weight = share * c * (losses - _pool_means(share * c, losses, _pools(problem, evaluation)))
    s = model.slopes(w, threads=threads)
    return model.adjoint(weight * s if s.ndim == 1 else weight[:, None] * s, threads=threads)


def _pools(problem: Robust, evaluation: Evaluation) -> NDArray[np.int64] | None:
    """Number of the pool of each sample: sets of samples that share a given weight; None where all share one.

    With an entropic penalty lam over the weights of a spectrum or of a total variation, ``l_i - lam log(q_i/p_i)`` is
    constant on each pool.
    """
    risk = problem.risk
    if problem.groups is not None or not (isinstance(risk, Spectral | TotalVariation) and risk.penalty is not None):
        return None
    q = evaluation.weights
    p = np.full(problem.size, 1.0 / problem.size) if problem.base is None else problem.base
    key = np.full(problem.size, math.inf)
    held = (q > 0) & (p > 0)
    key[held] = evaluation.losses[held] - risk.penalty * np.log(q[held] / p[held])
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    new = np.zeros(problem.size, dtype=np.int64)
    new[1:] = ordered[1:] > ordered[:-1] + _SAME_POOL * risk.penalty
    pools = np.empty(problem.size, dtype=np.int64)
    pools[order] = np.cumsum(new)
    return pools


def _pool_means(weight: Vector, values: Vector, pools: NDArray[np.int64] | None) -> Vector:
    """The weighted mean of values over the pool of each sample; 0 where it has no weight."""
    at = np.zeros(len(values), dtype=np.int64) if pools is None else pools
    mass = np.bincount(at, weights=weight)
    total = np.bincount(at, weights=weight * values)
    return np.divide(total, mass, out=np.zeros(len(mass)), where=mass > 0)[at]


def _radius_binds(risk: Risk, evaluation: Evaluation) -> bool:
    """Whether the weights are held by a radius (of the f-divergences: total variation binds otherwise)."""
    if not (isinstance(risk, ChiSquare | KL | CressieRead) and risk.radius is not None):
        return False
    return risk.penalty is None or float(evaluation.solution.multiplier) > 0.0


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


def _sketch(problem: Robust, model: LinearModel, w: Vector, evaluation: Evaluation, limit: int) -> _Sketch | None:
    s, h = model.slopes(w), model.curvatures(w)
    s, h = (s[:, None], h[:, None]) if s.ndim == 1 else (s, h)
    q = evaluation.weights
    c = _risk_curvature(problem, evaluation)
    rows, share = _drawn((q[:, None] * h + (c + q)[:, None] * s * s).sum(axis=1), limit)
    if rows is None:
        return None
    probabilities = None
    if model.n_outputs > 1:
        probabilities = s[rows].copy()
        probabilities[np.arange(len(rows)), model._y[rows].astype(np.int64)] += 1.0
    radius = None
    weight = c[rows] * share
    if _radius_binds(problem.risk, evaluation) and weight.any():
        losses = evaluation.losses[rows]
        radius = losses - float(np.sum(weight * losses)) / float(weight.sum())
    pools = _pools(problem, evaluation)
    owners, per_group, inside = None, np.zeros(0), np.zeros(0)
    if problem.groups is not None:
        owners = problem.groups[rows]
        held = evaluation.solution.weights
        per_group, inside = _group_curvature(problem, evaluation), np.zeros(len(rows))
        positive = held[owners] > 0
        inside[positive] = q[rows][positive] / held[owners][positive]
    return _Sketch(
        model.rows(rows),
        share,
        q[rows],
        s[rows],
        h[rows],
        probabilities,
        c[rows],
        None if pools is None else pools[rows],
        radius,
        owners,
        per_group,
        inside,
    )


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
        for a in (None, sketch.radius):  # orthogonal in the metric c
            weight = sketch.c * sketch.share * (1.0 if a is None else a)
            m = float(np.sum(weight if a is None else weight * a))
            if m > 0.0:
                z = _per_output(sketch, outputs, weight, ones)
                total -= np.outer(z, z) / m
            if sketch.radius is None:
                break
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


def _risk_curvature(problem: Robust, evaluation: Evaluation) -> Vector:
    """c of the risk at the losses; zeros where it is not finite, for groups, and at the kink of a radius form."""
    losses = evaluation.losses
    tied = has_kink_at_ties(problem.risk) and float(np.ptp(losses)) <= 1e-6 * float(np.abs(losses).max())
    if problem.groups is not None or tied:
        return np.zeros(problem.size)
    c = np.asarray(problem.risk.curvature(evaluation.losses, sample_weight=problem.base))
    c = np.where(np.isfinite(c), c, 0.0)
    pools = _pools(problem, evaluation)
    if pools is not None:
        c[np.bincount(pools)[pools] == 1] = 0.0  # a sample alone cannot move
    return c


def _group_curvature(problem: Robust, evaluation: Evaluation) -> Vector:
    """c of the risk at the groups' mean losses."""
    assert problem.groups is not None
    held = evaluation.solution.weights
    kept = problem.groups >= 0
    number, q = problem.groups[kept], evaluation.weights[kept]
    inside = np.divide(q, held[number], out=np.zeros(len(q)), where=held[number] > 0)
    means = np.bincount(number, weights=inside * evaluation.losses[kept], minlength=len(held))
    empty = held <= 0  # groups without weight: their mean is below every other, and does not matter
    if empty.any():
        means[empty] = means[~empty].min(initial=0.0)
    c = np.asarray(problem.risk.curvature(means))
    return np.where(np.isfinite(c) & ~empty, c, 0.0)


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
