"""Losses that are not convex: outliers, or wrong labels, cost no more than a constant or a logarithm.

Problems with them have no certificate (``result.gap`` is None), and what a solver finds may depend on where it starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from leeward import _arrays
from leeward.losses._base import Loss, signs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Cauchy", "GemanMcClure", "Sigmoid", "Tukey"]


@dataclass(frozen=True)
class Sigmoid(Loss):
    """``l(z; y) = 1 / (1 + exp(y z))``, labels -1/+1 or 0/1: a smooth count of errors.

    Its slope has Lipschitz constant ``1 / (6 sqrt(3))``.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.Sigmoid()
    Sigmoid()
    >>> lw.losses.Sigmoid().convex
    False
    """

    name: ClassVar[str] = "sigmoid"
    convex: ClassVar[bool] = False

    def labels(self, y: ArrayLike, size: int | None = None) -> tuple[NDArray[np.float64], int]:
        return signs(y, size, self.name), 1


@dataclass(frozen=True)
class _Scaled(Loss):
    """A loss of the residual in units of a scale c; it is ``(z - y)^2 / 2`` near 0, and its slope has Lipschitz constant 1."""

    scale: float = 1.0
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 1e-100 <= _arrays.number(self.scale, "scale") <= 1e100:
            raise ValueError(f"scale must be in [1e-100, 1e100], got {self.scale}")

    @property
    def parameter(self) -> float:
        return float(self.scale)


@dataclass(frozen=True)
class Cauchy(_Scaled):
    """``(c^2/2) log(1 + (z - y)^2 / c^2)``: the negative log-likelihood of Cauchy noise, up to its scale.

    Parameters
    ----------
    scale : float, default 1.0
        c, the residual of the steepest slope, in units of y. 2.385 times the standard deviation of normal noise keeps 95
        per cent of the efficiency of least squares.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.Cauchy(scale=2.0)
    Cauchy(scale=2.0)
    >>> model = lw.LinearModel([[1.0], [1.0]], [0.0, 100.0], "cauchy", intercept=False)
    >>> model.losses([0.0]).round(3)
    array([0.   , 4.605])
    """

    name: ClassVar[str] = "cauchy"


@dataclass(frozen=True)
class GemanMcClure(_Scaled):
    """``(c^2/2) u^2 / (1 + u^2)`` with ``u = (z - y) / c``: at most ``c^2/2``.

    Parameters
    ----------
    scale : float, default 1.0
        c, the residual at which half the bound is reached, in units of y.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.GemanMcClure(scale=2.0)
    GemanMcClure(scale=2.0)
    >>> model = lw.LinearModel([[1.0], [1.0]], [1.0, 1e6], "geman_mcclure", intercept=False)
    >>> model.losses([0.0]).round(3)
    array([0.25, 0.5 ])
    """

    name: ClassVar[str] = "geman_mcclure"


@dataclass(frozen=True)
class Tukey(_Scaled):
    """``(c^2/6) (1 - (1 - u^2)^3)`` with ``u = (z - y) / c``, and ``c^2/6`` where ``|u| > 1``: the biweight.

    A residual beyond c has no slope at all, so start near a solution: from a Huber fit, or with a large scale first.

    Parameters
    ----------
    scale : float, default 4.685
        c, the residual beyond which a sample no longer counts, in units of y. The default keeps 95 per cent of the
        efficiency of least squares under normal noise of standard deviation 1.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.Tukey()
    Tukey(scale=4.685)
    >>> model = lw.LinearModel([[1.0], [1.0]], [1.0, 100.0], lw.losses.Tukey(2.0), intercept=False)
    >>> model.losses([0.0]).round(4)
    array([0.3854, 0.6667])
    """

    scale: float = 4.685
    name: ClassVar[str] = "tukey"
