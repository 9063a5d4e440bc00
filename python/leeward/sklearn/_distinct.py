"""Rows in an order that follows from what they hold, each once: draws by number are then draws by content.

A Sinkhorn problem numbers its draws by row. Sorted by a hash of their content, and with equal rows merged into one of their total
weight, rows get the same draws in any order, and a row given twice is a row of weight two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["distinct"]

Array = NDArray[np.float64]
Words = NDArray[np.uint64]
_ROWS = 8192  # rows hashed at a time
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def distinct(X: Any, target: Any, weight: Array | None) -> tuple[Any, Any, Array | None]:
    """X, target and weights of the distinct rows (with their targets) of positive weight."""
    if weight is not None and not (weight > 0).all():
        kept = weight > 0
        X, target, weight = X[kept], target[kept], weight[kept]
    if _is_sparse(X):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    key = _hashed(X, np.array(target, dtype=np.float64))
    order = np.argsort(key, kind="stable")
    X, target, key = X[order], target[order], key[order]
    same = np.flatnonzero((key[1:] == key[:-1]) & (target[1:] == target[:-1]))
    same = same[_equal(X, same)]
    if not len(same):
        return X, target, None if weight is None else weight[order]
    first = np.ones(len(key), dtype=bool)
    first[same + 1] = False
    start = np.flatnonzero(first)
    total = np.add.reduceat(np.ones(len(key)) if weight is None else weight[order], start)
    return X[start], target[start], total


def _hashed(X: Any, target: Array) -> Words:
    """64 bits of each row and its target, the same for dense and sparse rows and for float32 and float64."""
    n, d = X.shape
    column = _mixed(np.arange(1, d + 2, dtype=np.uint64) * _SPREAD) | np.uint64(1)
    key = _words(target) * column[d]
    if _is_sparse(X):
        entries = _mixed(_words(X.data) * column[X.indices])
        filled = np.flatnonzero(np.diff(X.indptr))
        if len(filled):
            key[filled] += np.add.reduceat(entries, X.indptr[filled])
        return _mixed(key)
    for first in range(0, n, _ROWS):
        part = slice(first, first + _ROWS)
        key[part] += _mixed(_words(X[part]) * column[:d]).sum(axis=1, dtype=np.uint64)
    return _mixed(key)


def _words(values: Any) -> Words:
    """The bits of the numbers as doubles; both zeros are 0."""
    return (np.array(values, dtype=np.float64, order="C") + 0.0).view(np.uint64)


def _mixed(words: Words) -> Words:
    """Each bit of the answer depends on all bits; 0 stays 0."""
    words = words ^ (words >> np.uint64(30))
    words = words * np.uint64(0xBF58476D1CE4E5B9)
    words = words ^ (words >> np.uint64(27))
    words = words * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _equal(X: Any, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether row k and row k + 1 are equal, for the k given."""
    if not _is_sparse(X):
        return np.array((X[rows] == X[rows + 1]).all(axis=1), dtype=np.bool_)
    return np.array(abs(X[rows] - X[rows + 1]).sum(axis=1) == 0.0, dtype=np.bool_).ravel()


def _is_sparse(X: Any) -> bool:
    return bool(sp.issparse(X))
