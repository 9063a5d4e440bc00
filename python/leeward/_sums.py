"""Sums of products whose bits depend on the numbers alone. A BLAS would cut them by its number of threads and its idea of the CPU."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from leeward import _core

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["dot", "norm", "weighted_rows"]


def dot(x: Vector, y: Vector) -> float:
    """``sum_i x_i y_i``, both (n,) and contiguous."""
    return _core.dot(x, y, 1)


def norm(x: Vector) -> float:
    """Euclidean norm."""
    return math.sqrt(_core.dot(x, x, 1))


def weighted_rows(weights: Vector, rows: Vector) -> Vector:
    """``sum_i weights_i rows_i``, (d,), for contiguous rows (n, d)."""
    return _core.weighted_sum(rows, weights, False)
