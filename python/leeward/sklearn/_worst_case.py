"""Points of a fitted model's worst case: exact draws where the law is known, resampled draws of the kernel elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import leeward as lw

__all__ = ["WorstCaseSamples", "resampled"]

Array = NDArray[np.float64]
_POINTS = 1 << 17  # drawn at a time


@dataclass(frozen=True)
class WorstCaseSamples:
    """Draws from the worst-case distribution of a Sinkhorn model.

    Attributes
    ----------
    X : ndarray of shape (size, d)
        Points, dense.
    y : ndarray of shape (size,)
        Their labels: those of the rows that they were moved from, unless the model has noise on targets.
    index : ndarray of shape (size,)
        The rows that they were moved from.
    effective_draws : ndarray of shape (size,) or None
        ``1 / sum q^2`` of the weights q by which each point was chosen among those drawn around its row; None where the law is exact.

    Examples
    --------
    >>> from leeward.sklearn import SinkhornClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> moved = SinkhornClassifier().fit(X[:100], y[:100]).worst_case_samples(X[:100], y[:100], 7)
    >>> moved.X.shape, bool((moved.y == y[moved.index]).all()), moved.effective_draws
    ((7, 4), True, None)
    """

    X: Array
    y: NDArray[Any]
    index: NDArray[np.int64]
    effective_draws: Array | None


def resampled(
    problem_of: Callable[[NDArray[np.int64]], lw.Sinkhorn],
    w: Array,
    index: NDArray[np.int64],
    pool: int,
    rng: np.random.Generator,
) -> tuple[Array, Array, Array]:
    """A point around each row, chosen by the worst-case weights among `pool` drawn points; labels; effective draws.

    `problem_of(rows)` is the Sinkhorn problem of these rows with `pool` draws a row.
    """
    rows, place = np.unique(index, return_inverse=True)
    order = np.argsort(place, kind="stable")
    made: list[tuple[Array, Array]] = []
    effective = np.empty(len(index))
    step = max(1, _POINTS // pool)
    for first in range(0, len(rows), step):
        mine = order[np.searchsorted(place[order], first) : np.searchsorted(place[order], first + step)]
        problem = problem_of(rows[first : first + step])
        q = problem.worst_case(w)
        at = place[mine] - first
        upto = np.cumsum(q, axis=1)[at]
        chosen = (upto < (rng.random(len(mine)) * upto[:, -1])[:, None]).sum(axis=1)
        made.append(problem.points(at * pool + np.minimum(chosen, pool - 1)))
        effective[mine] = (1.0 / np.square(q).sum(axis=1))[at]
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    points, labels = (np.concatenate([pair[k] for pair in made])[back] for k in (0, 1))
    return points, labels, effective
