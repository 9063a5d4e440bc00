"""Risks from a divergence, by penalty or by radius: KL, ChiSquare, CressieRead, and the tilted risk."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from leeward import _core, divergences
from leeward.risks._base import Risk, number_in, optional_number

__all__ = ["KL", "ChiSquare", "CressieRead", "Tilted"]


class _PenaltyOrRadius(Risk):
    """A risk with ``penalty`` lam, ``radius`` rho, or both: max {sum q l - lam D(q|p) : D(q|p) <= rho}."""

    __slots__ = ()
    smooth: ClassVar[bool] = True
    penalty: float | None
    radius: float | None

    def _check(self, penalty: Any, radius: Any) -> tuple[float | None, float | None]:
        if penalty is None and radius is None:
            raise ValueError(f"{type(self).__name__} needs a penalty, a radius or both, got neither")
        return optional_number("penalty", penalty, "(0, inf)"), optional_number("radius", radius, "[0, inf)")

    @property
    def coherent(self) -> bool:  # type: ignore[override]
        """Whether the risk is positively homogeneous: it has a radius only."""
        return self.penalty is None

    def _extra_penalty(self) -> float:
        return self.penalty if self.penalty is not None and self.radius is not None else 0.0


def _unused(value: float | None) -> float:
    return -1.0 if value is None else value


class KL(_PenaltyOrRadius):
    """Relative entropy, ``f(t) = t log t - t + 1``; the weights are ``q_i`` proportional to ``p_i exp(l_i / lam)``.

    * penalty: ``R(l) = lam log E exp(l / lam)``
    * radius: ``R(l) = max {sum q_i l_i : KL(q|p) <= rho} = min_{lam, eta}``; all mass on the maximum once
      ``rho >= -log P(argmax)``
    * both: the constraint and the penalty at once.

    Parameters
    ----------
    penalty : float in (0, inf), optional
        lam, in units of the losses.
    radius : float in [0, inf), optional
        rho, in nats.

    Notes
    -----
    ``smooth`` is true for the radius form as well: its weights are Lipschitz wherever the losses are not nearly all equal and
    the radius is below its ceiling. Source: Ben-Tal, den Hertog, De Waegenaere, Melenberg and Rennen, 2013.

    Examples
    --------
    >>> import leeward as lw
    >>> round(lw.KL(penalty=1.0)([100.0, 101.0, 102.0, 103.0]), 9)
    102.053895337
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("penalty", "radius")

    def __init__(self, penalty: float | None = None, radius: float | None = None) -> None:
        penalty, radius = self._check(penalty, radius)
        self._set(_core.make_kl(_unused(penalty), _unused(radius)), penalty, radius)

    @property
    def divergence(self) -> divergences.KL:
        """``t log t - t + 1``."""
        return divergences.KL()

    def _slope(self, q: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        return q


class ChiSquare(_PenaltyOrRadius):
    """Chi-square with the factor one half, ``f(t) = (t - 1)^2 / 2``; ``q_i = p_i (1 + (l_i - eta) / lam)_+``.

    * penalty: ``R(l) = max sum q_i l_i - lam D(q|p)``; the mean plus ``Var(l) / (2 lam)`` while no weight is 0
    * radius: ``R(l) = max {sum q_i l_i : D(q|p) <= rho}``; the mean plus ``sqrt(2 rho Var(l))`` while no weight is 0, the
      maximum once ``1 + 2 rho >= 1 / P(argmax)``
    * both: the constraint and the penalty at once; ``multiplier`` is then the price of the radius beside the penalty.

    Parameters
    ----------
    penalty : float in (0, inf), optional
        lam, in units of the losses.
    radius : float in [0, inf), optional
        rho, without unit, for ``D(q|p) = (1/2) sum p_i (q_i / p_i - 1)^2``.

    Notes
    -----
    Pearson's chi-square has no factor one half: see `from_pearson`. The dual function ``(s + 2)_+^2 / 4 - 1`` found in the
    literature is the conjugate of ``(t - 1)^2``; the risk with that penalty lam is ``ChiSquare(penalty=2 * lam)``.
    ``smooth`` is true for the radius form as well: its weights are Lipschitz wherever the losses are not nearly all equal and
    the radius is below its ceiling, and `smoothed` returns the risk itself. A penalty beside the radius, which lowers the
    value by at most ``penalty * radius``, makes them Lipschitz everywhere.
    Source: Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020.

    Examples
    --------
    >>> import leeward as lw
    >>> round(lw.ChiSquare(radius=0.5)([1.0, 2.0, 3.0]), 12)  # 5/2 + 1/sqrt(12)
    2.788675134595
    >>> lw.ChiSquare(penalty=5.0)(range(1, 11))
    6.325
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("penalty", "radius")

    def __init__(self, penalty: float | None = None, radius: float | None = None) -> None:
        penalty, radius = self._check(penalty, radius)
        self._set(_core.make_chi_square(_unused(penalty), _unused(radius)), penalty, radius)

    @classmethod
    def from_pearson(cls, *, penalty: float | None = None, radius: float | None = None) -> Self:
        """From Pearson's convention ``D(q|p) = sum p_i (q_i / p_i - 1)^2``: ``penalty = 2 * penalty``, ``radius = radius / 2``.

        Examples
        --------
        >>> import leeward as lw
        >>> lw.ChiSquare.from_pearson(radius=0.5)
        ChiSquare(radius=0.25)
        """
        return cls(
            penalty=None if penalty is None else 2 * number_in("penalty", penalty, 0.0, math.inf, "(0, inf)"),
            radius=None if radius is None else number_in("radius", radius, 0.0, math.inf, "[0, inf)") / 2,
        )

    @classmethod
    def from_fast_dro(cls, *, size: float = math.inf, reg: float = 0.0) -> Self:
        """From fast-dro's ``RobustLoss(geometry="chi-square", size, reg)``.

        There the constraint is ``mean((n q - 1)^2) / 2 <= size`` and the penalty ``reg * mean((n q - 1)^2) / 2``:
        ``radius = size`` and ``penalty = reg``; ``size=inf`` and ``reg=0`` leave a term out.

        Examples
        --------
        >>> import leeward as lw
        >>> lw.ChiSquare.from_fast_dro(size=1.0)
        ChiSquare(radius=1.0)
        """
        size = number_in("size", size, 0.0, math.inf, "[0, inf]")
        reg = number_in("reg", reg, 0.0, math.inf, "[0, inf)")
        if math.isinf(size) and reg == 0:
            raise ValueError("size must be finite or reg positive, got size=inf and reg=0")
        return cls(penalty=reg if reg > 0 else None, radius=None if math.isinf(size) else size)

    @classmethod
    def from_dro(cls, *, eps: float) -> Self:
        """From the dro package's chi-square models, ``mean((n q - 1)^2) <= eps``: ``radius = eps / 2``.

        Examples
        --------
        >>> import leeward as lw
        >>> lw.ChiSquare.from_dro(eps=1.0)
        ChiSquare(radius=0.5)
        """
        return cls(radius=number_in("eps", eps, 0.0, math.inf, "[0, inf)") / 2)

    @classmethod
    def from_deshift(cls, *, shift_cost: float, size: int) -> Self:
        """From deshift's ``penalty="chi2"`` for ``size`` losses: ``penalty = shift_cost / size``.

        Its code maximises ``sum q_i l_i - (shift_cost / 2) sum (q_i - 1/n)^2``, with no factor n. It agrees with this class
        where its spectrum leaves all distributions free: (0, ..., 0, 1).

        Examples
        --------
        >>> import leeward as lw
        >>> lw.ChiSquare.from_deshift(shift_cost=1.0, size=10)
        ChiSquare(penalty=0.1)
        """
        size = int(number_in("size", size, 1.0, math.inf, "[1, inf)"))
        return cls(penalty=number_in("shift_cost", shift_cost, 0.0, math.inf, "(0, inf)") / size)

    @property
    def divergence(self) -> divergences.ChiSquare:
        """``(t - 1)^2 / 2``."""
        return divergences.ChiSquare()

    def _slope(self, q: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(q > 0, p, 0.0)


class CressieRead(_PenaltyOrRadius):
    """The power family ``f(t) = (t^k - k t + k - 1) / (k (k - 1))``, k > 1; k = 2 is `ChiSquare`, k to 1 tends to `KL`.

    ``q_i = p_i (1 + (k - 1) (l_i - eta) / lam)_+^(1 / (k - 1))``. The radius form is
    ``min_eta (1 + k (k - 1) rho)^(1/k) (E (l - eta)_+^k*)^(1/k*) + eta`` with ``k* = k / (k - 1)``.

    Parameters
    ----------
    k : float in (1, 10]
        The order. Weights of orders past 10 are almost steps, which doubles cannot find to their last digits.
    penalty : float in (0, inf), optional
        lam, in units of the losses.
    radius : float in [0, inf), optional
        rho, without unit.

    Notes
    -----
    Source: Duchi and Namkoong, Learning models with uniform performance via distributionally robust optimization, 2021.

    Examples
    --------
    >>> import leeward as lw
    >>> round(lw.CressieRead(2.0, radius=0.5)([1.0, 2.0, 3.0]), 12)
    2.788675134595
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("k", "penalty", "radius")
    k: float

    def __init__(self, k: float, penalty: float | None = None, radius: float | None = None) -> None:
        k = number_in("k", k, 1.0, 10.0, "(1, 10]")
        penalty, radius = self._check(penalty, radius)
        self._set(_core.make_cressie_read(k, _unused(penalty), _unused(radius)), k, penalty, radius)

    @property
    def divergence(self) -> divergences.CressieRead:
        """The power function above."""
        return divergences.CressieRead(self.k)

    def _slope(self, q: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        ratio = np.divide(q, p, out=np.zeros_like(q), where=p > 0)
        return p * np.power(ratio, 2 - self.k, out=np.zeros_like(q), where=ratio > 0)


class Tilted(Risk):
    """The exponentially tilted mean, ``R(l) = (1/t) log E exp(t l)``; ``q_i`` proportional to ``p_i exp(t l_i)``.

    For t > 0 it is ``KL(penalty=1/t)``; for t < 0 it plays down large losses (minus the KL risk of -l), and R is concave in
    the losses: ``R(l) = min_q sum q_i l_i + KL(q|p) / |t|``; t = 0 is the mean.

    Parameters
    ----------
    t : float
        The tilt, in units of 1 / loss.

    Notes
    -----
    ``multiplier`` is ``1 / |t|``. Source: Li, Beirami, Sanjabi and Smith, Tilted empirical risk minimization, 2021.

    Examples
    --------
    >>> import leeward as lw
    >>> round(lw.Tilted(-1.0)([0.0, 10.0]), 6)
    0.693102
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("t",)
    smooth: ClassVar[bool] = True
    t: float

    def __init__(self, t: float) -> None:
        t = number_in("t", t, -math.inf, math.inf, "(-inf, inf)")
        self._set(_core.make_tilted(t), t)

    @property
    def penalty(self) -> float:
        """``1 / t``, the signed penalty of the relative entropy; 0 for t = 0."""
        return 1 / self.t if self.t else 0.0

    @property
    def divergence(self) -> divergences.KL:
        """``t log t - t + 1``."""
        return divergences.KL()

    def _slope(self, q: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        return q if self.t > 0 else np.zeros_like(q)
