"""The user's own losses as functions of the samples' points, so that points near the data have losses too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward._returned import returned
from leeward.oracles._base import UserOracle

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]
    Index = NDArray[np.int64]

__all__ = ["PointOracle"]


class PointOracle(UserOracle):
    """An oracle from two functions of points: the samples are rows of X, and :class:`leeward.Sinkhorn` moves them.

    Parameters
    ----------
    losses : callable
        ``losses(w, points, index) -> array (m,)``: the loss at w of each row of points (m, d). ``index`` (m,) holds the numbers of
        the samples the points belong to, for labels and the like: ``y[index]``.
    gradient : callable
        ``gradient(w, weights, points, index) -> array (dim,)``: ``sum_k weights[k] * grad l(w; points[k])``, without l2 terms.
    X : array (n, d)
        The samples, finite real numbers; kept as float64.
    dim : int
        Length of w.
    l2, penalised, convex, smooth, sample_weight
        As for :class:`FunctionOracle`.

    Attributes
    ----------
    n_features : int
        d.

    Raises
    ------
    OracleError
        When a function returns something of another shape or kind, or numbers that are not finite; the message names samples.
        Exceptions of your functions reach you unchanged.

    Notes
    -----
    By itself it is the oracle of the losses at the rows of X. ``w``, ``weights`` and arrays of points are read-only.

    Examples
    --------
    A loss that no linear model has, made robust to points near the data:

    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2)); y = np.sin(X[:, 0])
    >>> def losses(w, points, index):
    ...     return 0.5 * (w[0] * np.tanh(points @ w[1:]) - y[index]) ** 2
    >>> def gradient(w, weights, points, index):
    ...     t = np.tanh(points @ w[1:])
    ...     slope = weights * (w[0] * t - y[index])
    ...     return np.concatenate([[slope @ t], (slope * w[0] * (1 - t * t)) @ points])
    >>> oracle = lw.PointOracle(losses, gradient, X, dim=3)
    >>> problem = lw.Sinkhorn(oracle, "chi2", noise=0.2, common=True)
    >>> result = lw.minimize(problem, [1.0, 0.5, 0.0])
    >>> bool(result.fun < problem.value([1.0, 0.5, 0.0]))
    True
    """

    def __init__(
        self,
        losses: Callable[..., Any],
        gradient: Callable[..., Any],
        X: ArrayLike,
        dim: int,
        *,
        l2: float = 0.0,
        penalised: int | None = None,
        convex: bool = False,
        smooth: bool = True,
        sample_weight: ArrayLike | None = None,
    ) -> None:
        for function, name in ((losses, "losses"), (gradient, "gradient")):
            if not callable(function):
                raise TypeError(f"{name} must be callable, got {type(function).__name__}")
        rows = _arrays.doubles(X, "X")
        if rows.ndim != 2 or 0 in rows.shape:
            raise ValueError(f"X must have shape (n, d), one sample a row, got shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise ValueError("X must hold finite numbers")
        n, d = rows.shape[0], _arrays.count(dim, "dim", 1)
        self._settle(n, d, l2, penalised, convex, smooth, sample_weight)
        self._functions = (losses, gradient)
        self._X = rows if rows.base is None and rows is not X else rows.copy()
        self._X.flags.writeable = False
        self._at = AtPoints(losses, gradient, d)
        own = _AtSamples(self._at, self._X)
        self._core = _core.PyOracle(own.losses, own.gradient, n, d, None, n)

    @property
    def n_features(self) -> int:
        """d, the length of a point."""
        return int(self._X.shape[1])

    def rows(self, index: ArrayLike | None = None) -> Vector:
        """Samples (m, d), all by default."""
        chosen = _arrays.index_array(index)
        return self._X if chosen is None else self._X[chosen]

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._functions, self._X, self.dim, self._settings())


def _rebuild(functions: Any, X: Any, dim: int, settings: dict[str, Any]) -> PointOracle:
    losses, gradient = functions
    return PointOracle(losses, gradient, X, dim, **settings)


class AtPoints:
    """The two functions, with what they return checked."""

    def __init__(self, losses: Callable[..., Any], gradient: Callable[..., Any], dim: int) -> None:
        self._losses, self._gradient, self._dim = losses, gradient, dim

    def losses(self, w: Vector, points: Vector, index: Index) -> Vector:
        made = self._losses(w, points, index)
        return returned(made, (len(index),), "losses(w, points, index)", "one loss for each point", index)

    def gradient(self, w: Vector, weights: Vector, points: Vector, index: Index) -> Vector:
        made = self._gradient(w, weights, points, index)
        meaning = "the sum of weights[k] times the gradient of the loss of points[k]"
        return returned(made, (self._dim,), "gradient(w, weights, points, index)", meaning)


class _AtSamples:
    """The functions at the samples themselves."""

    def __init__(self, at: AtPoints, X: Vector) -> None:
        self._at, self._X = at, X

    def losses(self, w: Vector, index: Index) -> Vector:
        return self._at.losses(w, self._rows(index), index)

    def gradient(self, w: Vector, weights: Vector, index: Index) -> Vector:
        return self._at.gradient(w, weights, self._rows(index), index)

    def _rows(self, index: Index) -> Vector:
        rows = self._X[index]
        rows.flags.writeable = False
        return rows
