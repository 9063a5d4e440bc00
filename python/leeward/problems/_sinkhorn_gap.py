r"""A certificate for sampled Sinkhorn problems with an intercept, by weak duality (docs/maths/sinkhorn.md).

With q the worst-case weights at w and ``s_ij`` slopes that balance, ``sum_ij p_i q_ij s_ij = 0`` for every intercept,

    P(w) - P*  <=  sum_ij p_i q_ij (l_ij + l*(s_ij) - z_ij s_ij) + |l2 w + v|^2 / (2 l2),    v = sum_ij p_i q_ij s_ij xi_ij.

The slopes at w make the first sum 0 and balance where the intercept's derivative vanishes; near it they are moved a little.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _core
from leeward._sums import dot
from leeward.oracles import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.oracles._perturbed import PerturbedModel

    Array = NDArray[np.float64]

__all__ = ["repaired_gap", "slope_energy"]

_NUMBERS = 1 << 22  # coordinates of points held at a time


class _Part:
    """Points of some samples with the weights of each, and what a linear model says of them."""

    def __init__(self, model: LinearModel, points: Any, first: int, weights: Array, threads: int) -> None:
        index = np.arange(first, first + weights.size, dtype=np.int64)
        rows, self.labels = points.points(index, threads)
        self.model, self.weights, self.threads = model, weights, threads
        self.matrix, loss = _core.LinearMatrix.dense(rows), model.loss
        settings = (loss.name, loss.parameter, loss.smoothing, model.n_outputs, model.intercept)
        self.oracle = _core.LinearOracle(self.matrix, self.labels, *settings, _core.ScoreMemo())
        self.shape = (len(index),) if model.n_outputs == 1 else (len(index), model.n_outputs)

    def slopes(self, w: Array) -> Array:
        out = np.empty(self.shape)
        self.oracle.slopes(w, None, out, self.threads)
        return out

    def probabilities(self, s: Array) -> Array:
        """Of the classes, from slopes ``pi - e_y``."""
        pi = s.copy()
        pi[np.arange(len(pi)), self.labels.astype(np.int64)] += 1.0
        return pi

    def adjoint(self, s: Array) -> Array:
        out = np.empty(self.model.dim)
        self.oracle.adjoint(self.weights * s if s.ndim == 1 else self.weights[:, None] * s, out, self.threads)
        return out

    def energy(self, s: Array) -> float:
        """``sum weights s^2 / 2``, of one output."""
        return 0.5 * float(np.sum(self.weights * s * s)) if s.ndim == 1 else 0.0

    def bracket(self, w: Array, s: Array) -> float:
        """``sum weights (l + l*(s) - z s)``."""
        losses, conjugate, z = np.empty(len(self.weights)), np.empty(len(self.weights)), np.empty(self.shape)
        self.oracle.losses(w, None, losses, self.threads)
        self.oracle.conjugate(s, conjugate, self.threads)
        self.matrix.scores(w, self.model.n_outputs, self.model.intercept, z, self.threads)
        paired = z * s if s.ndim == 1 else np.sum(z * s, axis=1)
        terms = np.where(self.weights > 0, np.maximum(losses + conjugate - paired, 0.0), 0.0)
        return float(np.sum(self.weights * terms))


def slope_energy(oracle: PerturbedModel, w: Array, weights: Array, threads: int) -> float:
    """``(mu/2) sum_ij p_i q_ij s_ij^2`` of losses smoothed by mu: by so much their conjugates lie above those of the losses."""
    model = oracle.model
    assert isinstance(model, LinearModel)
    parts = (make() for make in _parts(model, oracle._points, weights, threads))
    return float(model.loss.smoothing * sum(part.energy(part.slopes(w)) for part in parts))


def repaired_gap(oracle: PerturbedModel, w: Array, weights: Array, threads: int) -> tuple[float, float]:
    """The gap at w with balanced slopes, under the weights ``p_i q_ij`` (n m,) of the worst case there, and the slopes' energy (see
    :func:`slope_energy`). l2 must be positive."""
    model, k = oracle.model, oracle.penalised
    assert isinstance(model, LinearModel)
    parts = list(_parts(model, oracle._points, weights, threads))
    if model.n_outputs == 1:
        up = down = 0.0
        for part in (make() for make in parts):
            mass = part.weights * part.slopes(w)
            up, down = up + float(mass[mass > 0].sum()), down - float(mass[mass < 0].sum())
        least = min(up, down)
        factors = (least / up if up > least else 1.0, least / down if down > least else 1.0)
    else:
        mass, mean = np.zeros(model.n_outputs), np.zeros(model.n_outputs)
        for part in (make() for make in parts):
            mass += np.bincount(part.labels.astype(np.int64), weights=part.weights, minlength=model.n_outputs)
            mean += np.sum(part.weights[:, None] * part.probabilities(part.slopes(w)), axis=0)
        c = np.minimum(1.0, np.divide(mass, mean, out=np.ones_like(mean), where=mean > 0))
        deficit = np.maximum(mass - c * mean, 0.0)
    bracket, energy, v = 0.0, 0.0, np.zeros(model.dim)
    for part in (make() for make in parts):
        s = part.slopes(w)
        if model.n_outputs == 1:
            s *= np.where(s > 0, factors[0], factors[1])
        else:
            kept = part.probabilities(s) * c
            if deficit.sum() > 0:  # what a sample loses goes to the classes that lack some
                kept += np.maximum(1.0 - kept.sum(axis=1), 0.0)[:, None] * (deficit / deficit.sum())
            kept[np.arange(len(kept)), part.labels.astype(np.int64)] -= 1.0
            s = kept
        bracket += part.bracket(w, s)
        energy += part.energy(s)
        v += part.adjoint(s)
    residual = model.l2 * w[:k] + v[:k]
    return bracket + dot(residual, residual) / (2.0 * model.l2), model.loss.smoothing * energy


def _parts(model: LinearModel, points: Any, weights: Array, threads: int) -> Iterator[Any]:
    """Makers of the parts, so that the points of one at a time are held."""
    each = max(1, _NUMBERS // model.n_features)
    for first in range(0, len(weights), each):
        yield lambda first=first: _Part(model, points, first, weights[first : first + each], threads)
