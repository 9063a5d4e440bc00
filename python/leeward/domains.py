"""Where w may lie, and simple terms added to the objective. Each acts on the penalised coordinates of w (the coefficients of a
linear model; its intercept stays free), through one operation: the proximal point

    prox(v, step) = argmin_u  h(u) + |u - v|^2 / (2 step),

a projection when h is the indicator of a set. The native loops hold the same formulas in descent/domain.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays
from leeward._sums import dot

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["L1", "Box", "Domain", "ElasticNet", "L1Ball", "L2Ball", "Simplex"]


class Domain:
    """Base of the feasible sets and the prox terms. A new one gives ``prox``, ``value``, ``conjugate`` and, for the native
    loops, a number in ``kind`` with the same formula in ``descent/domain.hpp``."""

    kind: int = 0
    feasible_set: bool = True  #: a set (its value is 0 inside) rather than a term
    separable: bool = False  #: whether prox acts on each coordinate by itself

    def prox(self, v: Vector, step: float = 1.0) -> Vector:
        """The proximal point of v (m,)."""
        raise NotImplementedError

    def value(self, w: Vector) -> float:
        """h(w) for a term; 0 for a set, whatever w is."""
        return 0.0

    def conjugate(self, v: Vector, mu: float = 0.0) -> float:
        """``sup_w  v.w - h(w) - (mu/2) |w|^2`` over the set; infinite when unbounded."""
        raise NotImplementedError

    def project(self, v: Vector) -> Vector:
        """The nearest point of a set."""
        if not self.feasible_set:
            raise TypeError(f"{self!r} is a term of the objective, not a set: use prox")
        return self.prox(v)

    def check(self, size: int) -> None:
        """Raises ValueError when the settings do not fit ``size`` coordinates."""

    def parameters(self, size: int) -> tuple[Vector, Vector]:
        """Two vectors of settings for the native loops."""
        raise NotImplementedError


class Box(Domain):
    """``lower <= w <= upper``, elementwise; scalars or arrays, infinities allowed.

    Parameters
    ----------
    lower, upper : float or (m,) array
        Bounds for the penalised coordinates.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> lw.Box(0.0, 1.0).project(np.array([-2.0, 0.3, 5.0]))
    array([0. , 0.3, 1. ])
    """

    kind = 1
    separable = True

    def __init__(self, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf) -> None:
        self.lower = _bound("lower", lower)
        self.upper = _bound("upper", upper)
        if self.lower.ndim and self.upper.ndim and self.lower.shape != self.upper.shape:
            raise ValueError(f"lower and upper must have one shape, got {self.lower.shape} and {self.upper.shape}")
        low, high = np.broadcast_arrays(self.lower, self.upper)
        wrong = np.atleast_1d(low > high)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(
                f"lower must not exceed upper, got {np.atleast_1d(low)[i]} > {np.atleast_1d(high)[i]} at position {i}"
            )
        if np.any(low == np.inf) or np.any(high == -np.inf):
            raise ValueError("lower must be below +inf and upper above -inf")

    def prox(self, v: Vector, step: float = 1.0) -> Vector:
        return np.minimum(np.maximum(v, self.lower), self.upper)

    def conjugate(self, v: Vector, mu: float = 0.0) -> float:
        if mu > 0:
            w = self.prox(v / mu)
            return dot(v, w) - 0.5 * mu * dot(w, w)
        with np.errstate(invalid="ignore"):
            return float(np.sum(np.where(v > 0, v * self.upper, np.where(v < 0, v * self.lower, 0.0))))

    def check(self, size: int) -> None:
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound.ndim and bound.shape != (size,):
                raise ValueError(f"{name} must be a number or have shape ({size},), got {bound.shape}")

    def parameters(self, size: int) -> tuple[Vector, Vector]:
        return np.broadcast_to(self.lower, size).copy(), np.broadcast_to(self.upper, size).copy()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Box)
            and np.array_equal(self.lower, other.lower)
            and np.array_equal(self.upper, other.upper)
        )

    def __hash__(self) -> int:
        return hash((self.lower.tobytes(), self.upper.tobytes()))

    def __repr__(self) -> str:
        return f"Box({_short(self.lower)}, {_short(self.upper)})"


class _Scalar(Domain):
    """Domains with two numbers as settings."""

    def _numbers(self) -> tuple[float, float]:
        raise NotImplementedError

    def parameters(self, size: int) -> tuple[Vector, Vector]:
        a, b = self._numbers()
        return np.array([a]), np.array([b])


@dataclass(frozen=True)
class Simplex(_Scalar):
    """``w >= 0, sum w = total``.

    Parameters
    ----------
    total : float, default 1
        The sum, positive.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> lw.Simplex().project(np.array([0.5, 1.5]))
    array([0., 1.])
    """

    total: float = 1.0
    kind = 2

    def __post_init__(self) -> None:
        _positive("total", self.total)

    def prox(self, v: Vector, step: float = 1.0) -> Vector:
        return simplex_point(v, self.total)

    def conjugate(self, v: Vector, mu: float = 0.0) -> float:
        if mu > 0:
            w = self.prox(v / mu)
            return dot(v, w) - 0.5 * mu * dot(w, w)
        return float(self.total * v.max())

    def check(self, size: int) -> None:
        if size < 1:
            raise ValueError("Simplex needs at least one penalised coordinate")

    def _numbers(self) -> tuple[float, float]:
        return self.total, 0.0


@dataclass(frozen=True)
class L1Ball(_Scalar):
    """``sum |w_j| <= radius``.

    Parameters
    ----------
    radius : float
        Positive.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> lw.L1Ball(1.0).project(np.array([2.0, -0.5]))
    array([ 1., -0.])
    """

    radius: float
    kind = 3

    def __post_init__(self) -> None:
        _positive("radius", self.radius)

    @np.errstate(over="ignore")
    def prox(self, v: Vector, step: float = 1.0) -> Vector:
        size = np.abs(v)
        if size.sum() <= self.radius:
            return v.copy()
        return np.copysign(simplex_point(size, self.radius), v)

    def conjugate(self, v: Vector, mu: float = 0.0) -> float:
        if mu > 0:
            w = self.prox(v / mu)
            return dot(v, w) - 0.5 * mu * dot(w, w)
        return float(self.radius * np.abs(v).max(initial=0.0))

    def _numbers(self) -> tuple[float, float]:
        return self.radius, 0.0


@dataclass(frozen=True)
class L2Ball(_Scalar):
    """``|w|_2 <= radius``.

    Parameters
    ----------
    radius : float
        Positive.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> lw.L2Ball(1.0).project(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """

    radius: float
    kind = 4

    def __post_init__(self) -> None:
        _positive("radius", self.radius)

    def prox(self, v: Vector, step: float = 1.0) -> Vector:
        norm = norm2(v)
        return v.copy() if norm <= self.radius else v * (self.radius / norm)

    def conjugate(self, v: Vector, mu: float = 0.0) -> float:
        norm = norm2(v)
        if mu > 0 and norm <= mu * self.radius:
            return norm * norm / (2.0 * mu)
        return self.radius * norm - 0.5 * mu * self.radius**2

    def _numbers(self) -> tuple[float, float]:
        return self.radius, 0.0


@dataclass(frozen=True)
class L1(_Scalar):
    """The term ``strength sum |w_j|`` added to the objective.

    Parameters
    ----------
    strength : float
        Not negative.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> lw.L1(0.5).prox(np.array([2.0, -0.2]), step=1.0)
    array([ 1.5, -0. ])
    """

    strength: float
    kind = 5
    separable = True
    feasible_set = False

    def __post_init__(self) -> None:
        _not_negative("strength", self.strength)

    def prox(self, v: Vector, step: float = 1.0) -> Vector:
        return np.copysign(np.maximum(np.abs(v) - step * self.strength, 0.0), v)

    def value(self, w: Vector) -> float:
        return self.strength * float(np.abs(w).sum())

    def conjugate(self, v: Vector, mu: float = 0.0) -> float:
        over = np.maximum(np.abs(v) - self.strength, 0.0)
        if mu > 0:
            return dot(over, over) / (2.0 * mu)
        return 0.0 if not over.any() else np.inf

    def _numbers(self) -> tuple[float, float]:
        return self.strength, 0.0


@dataclass(frozen=True)
class ElasticNet(_Scalar):
    """The term ``l1 sum |w_j| + (l2/2) sum w_j^2`` added to the objective.

    Parameters
    ----------
    l1, l2 : float
        Not negative.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> lw.ElasticNet(0.5, 1.0).prox(np.array([2.0, -0.2]), step=1.0)
    array([ 0.75, -0.  ])
    """

    l1: float
    l2: float
    kind = 6
    separable = True
    feasible_set = False

    def __post_init__(self) -> None:
        _not_negative("l1", self.l1)
        _not_negative("l2", self.l2)

    def prox(self, v: Vector, step: float = 1.0) -> Vector:
        return np.copysign(np.maximum(np.abs(v) - step * self.l1, 0.0), v) / (1.0 + step * self.l2)

    @np.errstate(over="ignore")
    def value(self, w: Vector) -> float:
        return self.l1 * float(np.abs(w).sum()) + 0.5 * self.l2 * dot(w, w)

    def conjugate(self, v: Vector, mu: float = 0.0) -> float:
        over = np.maximum(np.abs(v) - self.l1, 0.0)
        if mu + self.l2 > 0:
            return dot(over, over) / (2.0 * (mu + self.l2))
        return 0.0 if not over.any() else np.inf

    def _numbers(self) -> tuple[float, float]:
        return self.l1, self.l2


@np.errstate(over="ignore")  # entries that far below the largest are 0 in the answer
def simplex_point(v: Vector, total: float) -> Vector:
    """Projection onto ``{w >= 0, sum w = total}``: ``max(v - tau, 0)`` with tau found from the sorted entries."""
    shifted = v - v.max()  # so that large entries do not cost digits of the sum
    order = np.sort(shifted)[::-1]
    excess = np.cumsum(order) - total
    count = np.arange(1, len(v) + 1)
    k = int(np.flatnonzero(order * count > excess)[-1])
    point: Vector = np.maximum(shifted - excess[k] / count[k], 0.0)
    return point


def norm2(v: Vector) -> float:
    """|v|_2 without overflow or underflow."""
    largest = float(np.abs(v).max(initial=0.0))
    return largest * float(np.sqrt(np.sum((v / largest) ** 2))) if largest > 0 else 0.0


def _bound(name: str, value: Any) -> Vector:
    array = _arrays.doubles(value, name).copy()
    if array.ndim > 1:
        raise ValueError(f"{name} must be a number or a vector, got shape {array.shape}")
    if np.isnan(array).any():
        raise ValueError(
            f"{name} must not be NaN, got NaN at position {int(np.argmax(np.atleast_1d(np.isnan(array))))}"
        )
    array.flags.writeable = False
    return array


def _positive(name: str, value: float) -> None:
    if not (np.isfinite(_arrays.number(value, name)) and value > 0):
        raise ValueError(f"{name} must be positive and finite, got {value}")


def _not_negative(name: str, value: float) -> None:
    if not (np.isfinite(_arrays.number(value, name)) and value >= 0):
        raise ValueError(f"{name} must be finite and at least 0, got {value}")


def _short(bound: Vector) -> str:
    return repr(float(bound)) if bound.ndim == 0 else f"array of {bound.size}"
