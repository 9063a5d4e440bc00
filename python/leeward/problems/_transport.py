"""What a Sinkhorn problem draws and what moving costs: checked settings, in the terms of csrc/include/leeward/oracle/perturbed.hpp."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Cost", "Reference", "checked_cost", "checked_reference", "positive"]

_COSTS = {"sqeuclidean": 0, "euclidean": 1, "l1": 2, "cityblock": 2, "linf": 3, "chebyshev": 3}
_ORDERS = {1: 2, 2: 1, 3: np.inf}
_KINDS = {"gaussian": 0, "laplace": 2, "ball": 3}
_FACTOR, _EMPIRICAL = 1, 4
_OWN = -1  # a function of the user's
_NOISE = 0.2


def positive(value: Any, name: str, *, zero: bool = False) -> float:
    """The value as a finite float above 0 (or 0 where that is allowed)."""
    given = _arrays.number(value, name)
    if isinstance(value, bool) or not (math.isfinite(given) and (given > 0 or (zero and given == 0))):
        raise ValueError(f"{name} must be {'at least 0' if zero else 'positive'} and finite, got {value!r}")
    return given


@dataclass(frozen=True)
class Cost:
    """``c = scale cost(xi - zeta) + label_scale (y' - y)^2``."""

    kind: int
    scale: float
    label_scale: float
    function: Callable[..., Any] | None = None  # in the place of the kind

    def between(self, rows: Array, points: Array) -> Array:
        """``scale cost(xi - zeta)`` of rows (k, d) and their points."""
        moved = points - rows
        if self.kind == 0:
            return np.asarray(self.scale * np.sum(moved * moved, axis=1))
        return np.asarray(self.scale * np.linalg.norm(moved, ord=_ORDERS[self.kind], axis=1))

    def native(self) -> tuple[int, float, float]:
        return self.kind, self.scale, self.label_scale


@dataclass(frozen=True)
class Reference:
    """The law of ``xi - zeta``: one of the kinds of ``ReferenceKind``, bounds, and the noise of labels."""

    kind: int
    scale: Array
    rows: Array | None
    bounds: tuple[Array, Array] | None
    label_noise: float
    name: str
    function: Callable[..., Any] | None = None  # in the place of the kind

    def native(self) -> tuple[Any, ...]:
        lower, upper = (None, None) if self.bounds is None else self.bounds
        return self.kind, self.scale.ravel(), self.rows, lower, upper, self.label_noise

    def covariance(self, d: int) -> Array:
        """Of a Gaussian reference, (d, d)."""
        if self.kind == _FACTOR:
            return np.asarray(self.scale @ self.scale.T)
        return np.diag(np.broadcast_to(self.scale, (d,)) ** 2)

    def variance(self, d: int) -> float:
        """Mean over the features; 0 where it is not known."""
        if self.function is not None:
            return 0.0
        if self.rows is not None:
            return float(np.mean(self.rows**2))
        if self.kind == _FACTOR:
            return float(np.sum(self.scale**2)) / d
        return float(np.mean(self.scale**2)) * {0: 1.0, 2: 2.0, 3: 1.0 / (d + 2)}[self.kind]

    @property
    def gaussian(self) -> bool:
        return self.kind in (0, _FACTOR)

    def tilted(self, cost: Cost, lam: float, entropy: float, d: int) -> tuple[Reference, float]:
        """The law tilted by ``exp(-c/eps)``, which is Gaussian again, and ``lam eps log E exp(-c/eps)``.

        Along a direction of variance v, and with cost scale k: v eps/(eps + 2 k v), and -(lam eps/2) log(1 + 2 k v/eps).
        """
        k, reach = cost.scale, lam * entropy
        label = self.label_noise**2
        shrunk = math.sqrt(label * entropy / (entropy + 2 * cost.label_scale * label))
        constant = math.log1p(2 * cost.label_scale * label / entropy)
        if self.kind == _FACTOR:
            values, vectors = np.linalg.eigh(self.covariance(d))
            variance = np.maximum(values, 0.0)
            small = (vectors * (variance * entropy / (entropy + 2 * k * variance))) @ vectors.T
            scale = _arrays.doubles(np.linalg.cholesky(small), "noise")
            constant += float(np.log1p(2 * k * variance / entropy).sum())
        else:
            variance = self.scale**2
            scale = np.sqrt(variance * entropy / (entropy + 2 * k * variance))
            constant += float(np.log1p(2 * k * np.broadcast_to(variance, (d,)) / entropy).sum())
        return replace(self, scale=scale, label_noise=shrunk), -0.5 * reach * constant


def checked_cost(cost: Any, cost_scale: Any, label_cost: Any) -> Cost:
    """The transport cost from the arguments of a problem."""
    if callable(cost):
        scale, label_scale = positive(cost_scale, "cost_scale"), positive(label_cost, "label_cost", zero=True)
        return Cost(_OWN, scale, label_scale, cost)
    if not isinstance(cost, str) or cost not in _COSTS:
        names = ", ".join(repr(name) for name in _COSTS)
        raise ValueError(f"cost must be one of {names} or a function cost(rows, points), got {cost!r}")
    return Cost(_COSTS[cost], positive(cost_scale, "cost_scale"), positive(label_cost, "label_cost", zero=True))


def checked_reference(reference: Any, noise: Any, bounds: Any, label_noise: Any, d: int) -> Reference:
    """The reference kernel from the arguments of a problem on d features."""
    label = positive(label_noise, "label_noise", zero=True)
    limits = _bounds(bounds, d)
    if callable(reference):
        if noise is not None:
            raise ValueError(
                f"noise is for named references; scale the points in your function instead, got noise={noise!r}"
            )
        name = getattr(reference, "__name__", type(reference).__name__)
        return Reference(_OWN, np.ones(1), None, limits, label, name, reference)
    if isinstance(reference, str):
        if reference not in _KINDS:
            names = ", ".join(repr(name) for name in _KINDS)
            raise ValueError(
                f"reference must be one of {names} or an array (k, {d}) of displacements or a function reference(rows, draws), "
                f"got {reference!r}"
            )
        kind, scale = _scale(_NOISE if noise is None else noise, _KINDS[reference], d)
        return Reference(kind, scale, None, limits, label, reference)
    rows = _arrays.doubles(reference, "reference")
    if rows.ndim != 2 or rows.shape[1] != d or rows.shape[0] == 0:
        raise ValueError(f"reference must have shape (k, {d}), one displacement a row, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("reference must hold finite numbers")
    if noise is not None:
        raise ValueError(f"noise is for named references; scale the displacements instead, got noise={noise!r}")
    return Reference(_EMPIRICAL, np.ones(1), rows, limits, label, f"<{rows.shape[0]} displacements>")


def _scale(noise: Any, kind: int, d: int) -> tuple[int, Array]:
    array = _arrays.doubles(noise, "noise")
    shapes: tuple[tuple[int, ...], ...] = ((), (d,), (d, d)) if kind == 0 else ((), (d,))
    if array.shape not in shapes:
        words = f"a number, ({d},)" + (f" or a covariance ({d}, {d})" if kind == 0 else "")
        raise ValueError(f"noise must be {words}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("noise must be finite")
    if array.ndim == 2:
        if not np.allclose(array, array.T, rtol=1e-10, atol=0.0):
            raise ValueError("noise must be a symmetric covariance matrix")
        try:
            return _FACTOR, _arrays.doubles(np.linalg.cholesky(array), "noise")
        except np.linalg.LinAlgError as error:
            raise ValueError("noise must be a positive definite covariance matrix") from error
    if not (array > 0).all():
        raise ValueError(f"noise must be positive, got {float(array.min())}")
    return kind, array.reshape(-1).copy()


def _bounds(bounds: Any, d: int) -> tuple[Array, Array] | None:
    if bounds is None:
        return None
    if not (isinstance(bounds, tuple | list) and len(bounds) == 2):
        raise TypeError(f"bounds must be a pair (lower, upper), got {bounds!r}")
    low, high = (_arrays.doubles(b, "bounds") for b in bounds)
    for side in (low, high):
        if side.shape not in ((), (d,)):
            raise ValueError(f"bounds must hold numbers or arrays ({d},), got shape {side.shape}")
    lower, upper = (np.broadcast_to(side, (d,)).copy() for side in (low, high))
    if not (lower <= upper).all():
        raise ValueError("bounds must hold lower <= upper in every feature")
    return lower, upper
