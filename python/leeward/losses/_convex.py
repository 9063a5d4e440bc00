"""The convex losses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from leeward import _arrays
from leeward.losses._base import Loss, signs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Absolute",
    "Hinge",
    "Huber",
    "Logistic",
    "Poisson",
    "Quantile",
    "Softmax",
    "Squared",
    "SquaredHinge",
]


@dataclass(frozen=True)
class _Kinked(Loss):
    """A loss with a kink, which smoothing takes away."""

    smoothing: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        if not (np.isfinite(_arrays.number(self.smoothing, "smoothing")) and self.smoothing >= 0):
            raise ValueError(f"smoothing must be finite and not negative, got {self.smoothing}")

    @property
    def smooth(self) -> bool:
        return self.smoothing > 0

    def smoothed(self, mu: float) -> Self:
        super().smoothed(mu)
        return replace(self, smoothing=self.smoothing + float(mu))


@dataclass(frozen=True)
class Squared(Loss):
    """``l(z; y) = (z - y)^2 / 2``, with the half.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.Squared()
    Squared()
    >>> lw.losses.Squared().smooth
    True
    """

    name: ClassVar[str] = "squared"


@dataclass(frozen=True)
class Huber(Loss):
    """``(z - y)^2 / 2`` where ``|z - y| <= delta``, else ``delta |z - y| - delta^2 / 2``.

    Parameters
    ----------
    delta : float, default 1.0
        Residual, in units of y, from which the loss grows linearly; positive and finite.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.Huber(delta=0.5)
    Huber(delta=0.5)
    >>> lw.losses.Huber(delta=0.5).smooth
    True
    """

    delta: float = 1.0
    name: ClassVar[str] = "huber"

    def __post_init__(self) -> None:
        if not (np.isfinite(_arrays.number(self.delta, "delta")) and self.delta > 0):
            raise ValueError(f"delta must be positive and finite, got {self.delta}")

    @property
    def parameter(self) -> float:
        return float(self.delta)


@dataclass(frozen=True)
class Absolute(_Kinked):
    """``l(z; y) = |z - y|``; its Moreau envelope is Huber's loss divided by mu, with delta = mu.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.Absolute()
    Absolute(smoothing=0.0)
    >>> lw.losses.Absolute().smooth
    False
    """

    name: ClassVar[str] = "absolute"

    @property
    def smoothing_gap(self) -> float:
        return 0.5


@dataclass(frozen=True)
class Quantile(_Kinked):
    """``tau (y - z)`` where ``z <= y``, else ``(1 - tau) (z - y)``: least at the tau-quantile of y.

    Parameters
    ----------
    tau : float, default 0.5
        The quantile, in (0, 1).

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.Quantile(tau=0.9)
    Quantile(smoothing=0.0, tau=0.9)
    >>> lw.losses.Quantile(tau=0.9).smooth
    False
    """

    tau: float = 0.5
    name: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.tau < 1:
            raise ValueError(f"tau must be in (0, 1), got {self.tau}")

    @property
    def parameter(self) -> float:
        return float(self.tau)

    @property
    def smoothing_gap(self) -> float:
        return 0.5 * max(self.tau, 1 - self.tau) ** 2


@dataclass(frozen=True)
class Logistic(Loss):
    """``l(z; y) = log(1 + exp(-y z))``, labels -1/+1 (0/1 and booleans are taken as such).

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.Logistic()
    Logistic()
    >>> lw.losses.Logistic().smooth
    True
    """

    name: ClassVar[str] = "logistic"

    def labels(self, y: ArrayLike, size: int | None = None) -> tuple[NDArray[np.float64], int]:
        return signs(y, size, self.name), 1


@dataclass(frozen=True)
class Softmax(Loss):
    """``l(z; y) = log sum_k exp(z_k) - z_y``, one score a class, labels 0, ..., C - 1.

    Parameters
    ----------
    classes : int, optional
        C; by default the largest label plus one, at least 2.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.Softmax()
    Softmax(classes=None)
    >>> lw.losses.Softmax().smooth
    True
    """

    classes: int | None = None
    name: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        if self.classes is not None and (int(self.classes) != self.classes or self.classes < 2):
            raise ValueError(f"classes must be an integer of at least 2, got {self.classes}")

    def labels(self, y: ArrayLike, size: int | None = None) -> tuple[NDArray[np.float64], int]:
        values = _arrays.numbers(y, "y", size)
        count = max(2, int(values.max()) + 1) if self.classes is None else int(self.classes)
        bad = (values < 0) | (values >= count) | (values != np.floor(values))
        if bad.any():
            k = int(np.argmax(bad))
            upper = "" if self.classes is None else f" below {count}"
            raise ValueError(
                f"y must hold class numbers 0, 1, ...{upper} for the softmax loss, got {values[k]:g} at position {k}"
            )
        return values, count


@dataclass(frozen=True)
class Hinge(_Kinked):
    """``l(z; y) = max(0, 1 - y z)``, labels -1/+1 or 0/1.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.Hinge()
    Hinge(smoothing=0.0)
    >>> lw.losses.Hinge().smooth
    False
    """

    name: ClassVar[str] = "hinge"

    @property
    def smoothing_gap(self) -> float:
        return 0.5

    def labels(self, y: ArrayLike, size: int | None = None) -> tuple[NDArray[np.float64], int]:
        return signs(y, size, self.name), 1


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """``l(z; y) = max(0, 1 - y z)^2 / 2``, with the half; labels -1/+1 or 0/1.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.SquaredHinge()
    SquaredHinge()
    >>> lw.losses.SquaredHinge().smooth
    True
    """

    name: ClassVar[str] = "squared_hinge"

    def labels(self, y: ArrayLike, size: int | None = None) -> tuple[NDArray[np.float64], int]:
        return signs(y, size, self.name), 1


@dataclass(frozen=True)
class Poisson(Loss):
    """``l(z; y) = exp(z) - y z``, labels ``y >= 0``: the negative log-likelihood at the rate ``exp(z)``, up to ``log y!``.

    Its slope has no Lipschitz constant: the smoothness constants of a model are infinite.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.Poisson()
    Poisson()
    >>> lw.losses.Poisson().smooth
    True
    """

    name: ClassVar[str] = "poisson"

    def labels(self, y: ArrayLike, size: int | None = None) -> tuple[NDArray[np.float64], int]:
        values = _arrays.numbers(y, "y", size)
        if values.size and values.min() < 0:
            k = int(np.argmax(values < 0))
            raise ValueError(f"y must not be negative for the poisson loss, got {values[k]:g} at position {k}")
        return values, 1
