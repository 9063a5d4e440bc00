r"""Updates: how an iterate moves along a direction. The native twins are in csrc/include/leeward/descent/.

Every update takes domains and prox terms in the metric of its own move, so that a point it does not move is a stationary
point, whatever the domain, and takes the l2 term exactly, as part of the direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from leeward._sums import dot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["AMSGrad", "AdaBound", "AdaGrad", "Adam", "Momentum", "NesterovMomentum", "Normalized", "Plain", "Update"]


class Update:
    """Base of the updates: immutable settings; the state of a run is in the native update.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.Adam().native()
    ('adam', [0.9, 0.999, 1e-08])
    """

    name: ClassVar[str]
    #: Whether the lengths of the moves do not depend on the scale of the gradient.
    adaptive: ClassVar[bool] = False

    def native(self) -> tuple[str, list[float]]:
        """The name and the settings of the native update."""
        return self.name, []

    @property
    def damping(self) -> float:
        """The default step over that of :class:`Plain`."""
        return 1.0

    def first_move(self, gradient: Vector, metric: Vector | None) -> Vector:
        """The first move over the step, up to its sign."""
        return gradient if metric is None else metric * gradient


@dataclass(frozen=True)
class Plain(Update):
    """``w <- prox(w - step g)``.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.SGD(update=lw.Plain()).update
    Plain()
    """

    name: ClassVar[str] = "heavy_ball"

    def native(self) -> tuple[str, list[float]]:
        return self.name, [0.0]


@dataclass(frozen=True)
class Momentum(Update):
    """Heavy ball: ``v <- momentum v + g, w <- prox(w - step v)`` (Polyak 1964), the prox with step ``step/(1 - momentum)``.

    Parameters
    ----------
    momentum : float in [0, 1), default 0.9

    Examples
    --------
    >>> import leeward as lw
    >>> lw.SVRG(update=lw.Momentum(0.5)).update
    Momentum(momentum=0.5)
    """

    name: ClassVar[str] = "heavy_ball"
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _fraction("momentum", self.momentum)

    def native(self) -> tuple[str, list[float]]:
        return self.name, [float(self.momentum)]

    @property
    def damping(self) -> float:
        return 1.0 - self.momentum


@dataclass(frozen=True)
class NesterovMomentum(Momentum):
    """Nesterov's momentum: ``v <- momentum v + g, w <- prox(w - step (g + momentum v))``, prox with step ``step/(1 - momentum)``.

    Parameters
    ----------
    momentum : float in [0, 1), default 0.9

    Examples
    --------
    >>> import leeward as lw
    >>> lw.SGD(update=lw.NesterovMomentum()).update
    NesterovMomentum(momentum=0.9)
    """

    name: ClassVar[str] = "nesterov"


@dataclass(frozen=True)
class Normalized(Update):
    r"""Moves of one length: ``v <- momentum v + (1 - momentum) g, w <- prox(w - step v/|v|)``, no move where ``v = 0``.

    The length is taken in the metric of the moves, ``|v|^2 = sum_j M_j v_j^2`` with ``w <- w - step M v/|v|``, where the default
    step scales the variables (linear models). The gradient's size has no say, which suits objectives whose curvature grows with it,
    such as dual forms (:func:`leeward.dual_oracle`).

    Parameters
    ----------
    momentum : float in [0, 1), default 0.9

    References
    ----------
    Cutkosky and Mehta, Momentum improves normalized SGD, ICML 2020; Jin, Zhang, Wang and Wang, Non-convex distributionally robust
    optimization, NeurIPS 2021, algorithm 1.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.SGD(update=lw.Normalized()).update
    Normalized(momentum=0.9)
    """

    name: ClassVar[str] = "normalized"
    adaptive: ClassVar[bool] = True
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _fraction("momentum", self.momentum)

    def native(self) -> tuple[str, list[float]]:
        return self.name, [float(self.momentum)]

    def first_move(self, gradient: Vector, metric: Vector | None) -> Vector:
        moved = gradient if metric is None else metric * gradient
        length = float(np.sqrt(dot(moved, gradient)))
        return np.asarray(moved / length if length > 0 else moved)


class _Adaptive(Update):
    adaptive: ClassVar[bool] = True
    delta: float

    def first_move(self, gradient: Vector, metric: Vector | None) -> Vector:
        s = np.ones_like(gradient) if metric is None else np.sqrt(metric)
        scaled = s * gradient
        return np.asarray(s * self._rate(np.abs(scaled)) * scaled)

    def _rate(self, size: Vector) -> Vector:
        return np.asarray(1.0 / (size + self.delta))


@dataclass(frozen=True)
class AdaGrad(_Adaptive):
    r"""A step for each coordinate from the sum of its squared gradients.

    ``h <- h + g^2,  w <- prox(w - step g / (sqrt(h) + delta))`` in the metric of that move; g in variables scaled to unit
    second moments where the default step scales them (linear models).

    Parameters
    ----------
    delta : float, default 1e-8
        Keeps coordinates whose gradient vanishes from moving.
    mean : bool, default False
        Use ``h / (t + 1)``, the mean of the squares, under the root: steps then fall by their schedule alone.

    References
    ----------
    Duchi, Hazan and Singer, Adaptive subgradient methods, JMLR 2011; Jiang, Li, Gao, Wang, Yang and Zhang, Multi-level
    stochastic variance reduction, 2022 (the form with the mean).

    Examples
    --------
    >>> import leeward as lw
    >>> lw.SGD(update=lw.AdaGrad()).update
    AdaGrad(delta=1e-08, mean=False)
    """

    name: ClassVar[str] = "adagrad"
    delta: float = 1e-8
    mean: bool = False

    def __post_init__(self) -> None:
        _positive("delta", self.delta)
        if not isinstance(self.mean, bool):
            raise TypeError(f"mean must be True or False, got {self.mean!r}")

    def native(self) -> tuple[str, list[float]]:
        return self.name, [float(self.delta), float(self.mean)]


@dataclass(frozen=True)
class Adam(_Adaptive):
    r"""Exponential means of gradients and of their squares.

    ``m <- b1 m + (1 - b1) g,  h <- b2 h + (1 - b2) g^2``, both divided by ``1 - b^(t+1)``, the weight that their start has
    lost; ``w <- prox(w - step m / (sqrt(h) + delta))`` in the metric ``1/(sqrt(h) + delta)``.

    Parameters
    ----------
    momentum : float in [0, 1), default 0.9
        b1; 0 moves along the direction itself, as variance-reduced methods do.
    memory : float in [0, 1), default 0.999
        b2.
    delta : float, default 1e-8

    References
    ----------
    Kingma and Ba, Adam: a method for stochastic optimization, ICLR 2015.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.SCSG(update=lw.Adam(momentum=0.0)).update
    Adam(momentum=0.0, memory=0.999, delta=1e-08)
    """

    name: ClassVar[str] = "adam"
    momentum: float = 0.9
    memory: float = 0.999
    delta: float = 1e-8

    def __post_init__(self) -> None:
        _fraction("momentum", self.momentum)
        _fraction("memory", self.memory)
        _positive("delta", self.delta)

    def native(self) -> tuple[str, list[float]]:
        return self.name, [float(self.momentum), float(self.memory), float(self.delta)]


@dataclass(frozen=True)
class AMSGrad(Adam):
    """:class:`Adam` with the largest h so far, so that no coordinate's step ever grows.

    Parameters
    ----------
    momentum, memory, delta : as for :class:`Adam`

    References
    ----------
    Reddi, Kale and Kumar, On the convergence of Adam and beyond, ICLR 2018.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.SGD(update=lw.AMSGrad(memory=0.99)).update
    AMSGrad(momentum=0.9, memory=0.99, delta=1e-08)
    """

    name: ClassVar[str] = "amsgrad"


@dataclass(frozen=True)
class AdaBound(Adam):
    """:class:`Adam` with ``1/(sqrt(h) + delta)`` kept in ``[lower, upper]``.

    Parameters
    ----------
    momentum, memory, delta : as for :class:`Adam`
    lower, upper : float, default 0.1 and 10
        Bounds of the rates, in units of 1/gradient; equal ones give :class:`Momentum` with step ``step * upper`` (up to the
        corrections of the first steps).

    References
    ----------
    After Luo, Xiong, Liu and Sun, Adaptive gradient methods with dynamic bound of learning rate, ICLR 2019, with bounds that
    do not move.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.SGD(update=lw.AdaBound(lower=0.01, upper=100.0)).update.upper
    100.0
    """

    name: ClassVar[str] = "adabound"
    lower: float = 0.1
    upper: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive("lower", self.lower)
        _positive("upper", self.upper)
        if self.lower > self.upper:
            raise ValueError(f"lower must be at most upper, got {self.lower} and {self.upper}")

    def native(self) -> tuple[str, list[float]]:
        name, settings = super().native()
        return name, [*settings, float(self.lower), float(self.upper)]

    def _rate(self, size: Vector) -> Vector:
        return np.asarray(np.clip(super()._rate(size), self.lower, self.upper))


def _fraction(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, float | int) or not 0 <= value < 1:
        raise ValueError(f"{name} must be in [0, 1), got {value!r}")


def _positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, float | int) or not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
