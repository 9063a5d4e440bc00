"""The units in which a Sinkhorn model measures distances: features over their spread, real targets over theirs.

With units the model works on ``(x - centre)/scale`` and ``(y - target_centre)/target_scale``. Centres are only there to keep
arithmetic precise: noise, cost and ridge term do not see them, since the intercept is free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["Units", "units_of"]

Array = NDArray[np.float64]
_ROWS = 8192  # rows that are widened at a time


@dataclass(frozen=True)
class Units:
    """Scale (d,) and centre (d,) of features, scale and centre of the target; plain units leave X as it is."""

    scale: Array
    centre: Array
    target_scale: float = 1.0
    target_centre: float = 0.0
    plain: bool = False

    def on(self, X: Any) -> Units:
        """The same units for these rows: sparse ones are not centred."""
        return replace(self, centre=np.zeros_like(self.centre)) if bool(sp.issparse(X)) else self

    def rows(self, X: Any) -> Any:
        """X in these units: CSR for CSR, else C-ordered in the dtype of X."""
        if self.plain:
            return X
        if bool(sp.issparse(X)):
            made = X.copy()
            made.data = made.data / self.scale[made.indices].astype(made.dtype)
            return made
        out = np.empty(X.shape, dtype=X.dtype)
        for first in range(0, X.shape[0], _ROWS):
            out[first : first + _ROWS] = (X[first : first + _ROWS] - self.centre) / self.scale
        return out

    def dense(self, X: Any) -> Array:
        """X in these units as a dense array of doubles."""
        rows = self.rows(X)
        return np.array(rows.toarray() if bool(sp.issparse(rows)) else rows, dtype=np.float64)

    def rows_back(self, X: Array) -> Array:
        """Points in these units as features."""
        return X if self.plain else X * self.scale + self.centre

    def target(self, y: Any) -> Any:
        """Real targets in these units."""
        return (y - self.target_centre) / self.target_scale

    def target_back(self, y: Any) -> Any:
        """Targets from these units."""
        return y * self.target_scale + self.target_centre

    def outside(self, w: Array, outputs: int, intercept: bool) -> tuple[Array, Array]:
        """Coefficients (k, d) and intercepts (k,) for features and targets from those in these units."""
        size = outputs * len(self.scale)
        with np.errstate(over="ignore", invalid="ignore"):
            coef = w[:size].reshape(outputs, -1) / self.scale * self.target_scale
        if not np.isfinite(coef).all():
            j = int(np.argmin(np.isfinite(coef).all(axis=0)))
            raise ValueError(
                f"the coefficient of feature {j} is too large for a double: its spread is {self.scale[j]:.3g} beside "
                f"{self.target_scale:.3g} of the targets; give the feature in a smaller unit"
            )
        free = w[size:] if intercept else np.zeros(outputs)
        return coef, free * self.target_scale + self.target_centre - coef @ self.centre

    def inside(self, coef: Array, intercept: Array, free: bool) -> Array:
        """The other way, as a vector w."""
        moved = (intercept + coef @ self.centre - self.target_centre) / self.target_scale
        inner = (coef * self.scale / self.target_scale).ravel()
        return np.concatenate([inner, moved]) if free else inner


def units_of(scale: Any, X: Any, y: Array | None, weight: Array | None, centred: bool) -> Units:
    """Units for the parameter `scale`: "standard", None (plain ones) or one positive number a feature.

    "standard" is the weighted standard deviation of each column and of y; for a constant column the size of its value, and 1 for
    zeros. Columns of dense X and y are centred where `centred`.
    """
    d = X.shape[1]
    zeros = np.zeros(d)
    if scale is None:
        return Units(np.ones(d), zeros, plain=True)
    if not isinstance(scale, str):
        return Units(_given(scale, d), zeros)
    if scale != "standard":
        raise ValueError(f"scale must be 'standard', None or an array of {d} positive numbers, got {scale!r}")
    p = np.full(X.shape[0], 1.0) if weight is None else weight
    p = p / p.sum()
    mean, spread = _sparse_spread(X, p) if sp.issparse(X) else _spread(X, p)
    centre = mean if centred and not sp.issparse(X) else zeros
    if y is None:
        return Units(spread, centre)
    at, size = _spread(y[:, None], p)
    return Units(spread, centre, float(size[0]), float(at[0]) if centred else 0.0)


def _given(scale: Any, d: int) -> Array:
    try:
        sizes = np.array(scale, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"scale must be 'standard', None or an array of {d} positive numbers: {error}") from error
    if sizes.shape != (d,):
        raise ValueError(f"scale must hold {d} numbers, one for each feature, got shape {sizes.shape}")
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise ValueError(f"scale must be positive and finite, got {sizes[~(np.isfinite(sizes) & (sizes > 0))][0]}")
    return sizes


def _spread(X: Any, p: Array) -> tuple[Array, Array]:
    """Weighted means and standard deviations of dense columns, a block of rows at a time."""
    d, counted = X.shape[1], p > 0
    total, low, high = np.zeros(d), np.full(d, np.inf), np.full(d, -np.inf)
    for first in range(0, len(p), _ROWS):
        part, some = slice(first, first + _ROWS), counted[first : first + _ROWS]
        if some.any():
            rows = np.array(X[part][some], dtype=np.float64)
            total += p[part][some] @ rows
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    mean = np.clip(total, low, high)
    span = np.where(high > low, high - low, 1.0)
    squares = np.zeros(d)
    for first in range(0, len(p), _ROWS):
        part = slice(first, first + _ROWS)
        squares += p[part] @ np.square((np.array(X[part], dtype=np.float64) - mean) / span)
    return mean, _positive(span * np.sqrt(squares), low, high)


def _sparse_spread(X: Any, p: Array) -> tuple[Array, Array]:
    """The same for the columns of a CSR matrix, zeros included."""
    columns = sp.csc_array(X[p > 0])
    p = p[p > 0]
    low, high = (np.array(side(axis=0).toarray(), dtype=np.float64).ravel() for side in (columns.min, columns.max))
    span = np.where(high > low, high - low, 1.0)
    entry = p[columns.indices]
    column = np.repeat(np.arange(X.shape[1]), np.diff(columns.indptr))
    data = columns.data.astype(np.float64)
    mean = np.clip(np.bincount(column, entry * data, minlength=X.shape[1]), low, high)
    filled = np.bincount(column, entry, minlength=X.shape[1])
    squares = np.bincount(column, entry * np.square((data - mean[column]) / span[column]), minlength=X.shape[1])
    squares += np.maximum(1.0 - filled, 0.0) * np.square(mean / span)
    return np.array(mean, dtype=np.float64), _positive(span * np.sqrt(squares), low, high)


def _positive(spread: Array, low: Array, high: Array) -> Array:
    """The spread, or for constants the size of the value, or 1."""
    spread = np.where(high > low, spread, np.abs(low))
    return np.array(np.where((spread > 0) & np.isfinite(spread), spread, 1.0), dtype=np.float64)
