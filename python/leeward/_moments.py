"""Second moments of a linear model's features, by columns and by rows: what scaling and step sizes need. Dense data are
read in blocks of rows, so that nothing as large as the data is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._arrays import Csr
from leeward._mapped import give_back
from leeward._sums import weighted_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.oracles import LinearModel

    Vector = NDArray[np.float64]

__all__ = ["column_moments", "row_norms"]

_BLOCK = 1 << 20  # elements of dense data squared at once


def column_moments(model: LinearModel, base: Vector | None) -> Vector:
    """``sum_i p_i x_ij^2`` for each feature j, (d,)."""
    X = model._X
    n, d = X.shape
    p = np.full(n, 1.0 / n) if base is None else base
    if isinstance(X, Csr):
        weight = np.repeat(p, np.diff(X.indptr))
        return np.bincount(
            X.indices[: len(weight)], weights=weight * _squares(X.data[: len(weight)]), minlength=d
        ).astype(np.float64, copy=False)
    total = np.zeros(d)
    for first, last in _blocks(n, d):
        total += weighted_rows(p[first:last], _squares(X[first:last]))
        give_back(X[first:last])
    return total


def row_norms(model: LinearModel, metric: Vector | None, wanted: NDArray[np.bool_]) -> Vector:
    """``sum_j metric_j x_ij^2`` (+1 for an intercept) for each wanted row, 0 for the others, (n,)."""
    X = model._X
    n, d = X.shape
    m = np.ones(d) if metric is None else metric
    if isinstance(X, Csr):
        entry = _squares(X.data[: X.indptr[-1]]) * m[X.indices[: X.indptr[-1]]]
        rows = np.repeat(np.arange(n), np.diff(X.indptr))
        norms: Vector = np.bincount(rows, weights=entry, minlength=n).astype(np.float64, copy=False)
    else:
        norms = np.empty(n)
        for first, last in _blocks(n, d):
            norms[first:last] = np.einsum("ij,j->i", _squares(X[first:last]), m)
            give_back(X[first:last])
    return np.where(wanted, norms + float(model.intercept), 0.0)


def _blocks(n: int, d: int) -> list[tuple[int, int]]:
    size = max(1, _BLOCK // max(d, 1))
    return [(first, min(first + size, n)) for first in range(0, n, size)]


def _squares(values: NDArray[Any]) -> Vector:
    squares: Vector = np.square(values, dtype=np.float64)
    return squares
