"""What the portfolio problems share: returns as the core reads them, native levels, and variables that are solved for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays
from leeward.oracles import Level

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["NativeLevel", "checked_returns", "checked_smoothing", "checked_weight"]

_SMALLEST = 1e-270  # of the mean of squares: below, a sixteenth digit of them has left the range
_SMOOTHING = 1e-2  # of the root mean square of the returns


class NativeLevel(Level):
    """A level of the core; ``core`` keeps what it reads."""

    def __init__(self, core: Any, name: str, keep: tuple[int, int] = (0, 0)) -> None:
        self._core, self._name, self._keep = core, name, keep

    def __repr__(self) -> str:
        return f"<{self._name}>"


def checked_returns(returns: ArrayLike) -> tuple[NDArray[Any], float]:
    """The (T, d) table as the core reads it, and the mean of its squares."""
    table = _arrays.matrix(returns, "returns")
    if isinstance(table, _arrays.Csr):
        raise TypeError("returns must be dense, got a sparse matrix")
    with np.errstate(over="ignore", invalid="ignore"):
        square = float(np.einsum("ij,ij->", table, table, dtype=np.float64)) / table.size
    if not np.isfinite(square):
        good = np.isfinite(table)
        if good.all():
            raise ValueError(
                "returns must hold finite numbers that can be squared: their squares overflow, rescale them"
            )
        t, j = (int(i) for i in np.argwhere(~good)[0])
        periods = int((~good).any(axis=1).sum())
        raise ValueError(
            f"returns must hold finite numbers that can be squared, got {table[t, j]} in row {t}, column {j}; {periods} of {len(table)} "
            "rows have such entries: drop them"
        )
    if square < _SMALLEST and table.any():
        raise ValueError(
            f"returns must hold finite numbers that can be squared, got a root mean square of {np.sqrt(square):.3g}: rescale them"
        )
    return table, square


def checked_weight(lam: Any) -> float:
    """The weight of a risk, finite and at least 0."""
    weight = _arrays.number(lam, "lam")
    if not (np.isfinite(weight) and weight >= 0):
        raise ValueError(f"lam must be finite and at least 0, got {lam}")
    return weight


def checked_smoothing(smoothing: Any, square: float) -> float:
    """Half the width of the band in which ``max(u, 0)`` is made smooth: a hundredth of the returns' root mean square by default."""
    if smoothing is None:
        return _SMOOTHING * float(np.sqrt(square)) if square > 0 else _SMOOTHING
    h = _arrays.number(smoothing, "smoothing")
    if not (np.isfinite(h) and h > 0):
        raise ValueError(f"smoothing must be positive and finite, or None, got {smoothing}")
    return h
