"""Risks with a bounded density ratio or a bounded moved mass: Mean, CVaR and its smoothings, TotalVariation, Worst."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leeward import _core, divergences
from leeward.risks._base import Risk, number_in, optional_number, tail

__all__ = ["CVaR", "KLCVaR", "Mean", "SmoothedCVaR", "TotalVariation", "Worst"]


class Mean(Risk):
    """The mean, ``R(l) = sum p_i l_i``: the ordinary objective, with weights p.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.Mean()([1.0, 2.0, 6.0])
    3.0
    """

    __slots__ = ()
    smooth: ClassVar[bool] = True
    coherent: ClassVar[bool] = True

    def __init__(self) -> None:
        self._set(_core.make_mean())

    def _slope(self, q: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.zeros_like(q)


class Worst(Risk):
    """The worst loss, ``R(l) = max {l_i : p_i > 0}``; the weights sit on the maximum, ties in proportion to p.

    ``smoothed(strength)`` is ``KL(penalty=strength)``.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.Worst().solve([1.0, 3.0, 3.0]).weights
    array([0. , 0.5, 0.5])
    """

    __slots__ = ()
    coherent: ClassVar[bool] = True

    def __init__(self) -> None:
        self._set(_core.make_worst())

    def smoothed(self, strength: float) -> Risk:
        """Return ``KL(penalty=strength)``, below the maximum by at most ``strength * log(1 / p)`` of its sample."""
        from leeward.risks._divergence import KL

        return KL(penalty=strength)


class CVaR(Risk):
    """Conditional value at risk: the mean of the worst ``alpha`` of the mass.

    ``R(l) = max {sum q_i l_i : q_i <= p_i / alpha} = min_eta eta + E(l - eta)_+ / alpha``. The tail is a real number of
    observations, not a rounded one: the sample at its edge takes the fraction that is missing, and ties share in
    proportion to p. ``alpha`` is the mass of the tail (0.05: the worst 5 per cent), not a confidence level; with
    ``alpha`` below the mass of the maximum the risk is the maximum.

    Parameters
    ----------
    alpha : float in (0, 1]
        Mass of the tail; 1 gives the mean.

    Notes
    -----
    ``eta`` is the upper alpha-quantile of the losses. Exact, by selection in O(n).
    Source: Rockafellar and Uryasev, Optimization of conditional value-at-risk, 2000.

    Examples
    --------
    >>> import leeward as lw
    >>> s = lw.CVaR(0.25).solve([0.0, 1.0, 2.0, 3.0, 4.0])
    >>> round(s.value, 12), s.weights.round(12)
    (3.8, array([0. , 0. , 0. , 0.2, 0.8]))
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("alpha",)
    coherent: ClassVar[bool] = True
    alpha: float

    def __init__(self, alpha: float) -> None:
        alpha = number_in("alpha", alpha, 0.0, 1.0, "(0, 1]")
        self._set(_core.make_cvar(tail(alpha)), alpha)

    @property
    def divergence(self) -> divergences.CVaR:
        """The indicator of [0, 1/alpha]."""
        return divergences.CVaR(self.alpha)

    def smoothed(self, strength: float) -> Risk:
        """Return ``KLCVaR(alpha, penalty=strength)``, below CVaR by at most ``strength * log(1 / alpha)``."""
        return KLCVaR(self.alpha, penalty=strength)


class KLCVaR(Risk):
    """CVaR smoothed by relative entropy: ``R(l) = max {sum q_i l_i - lam KL(q|p) : q_i <= p_i / alpha}``.

    The weights are ``q_i = p_i min(exp((l_i - eta) / lam), 1 / alpha)``, and ``0 <= CVaR - KLCVaR <= lam log(1 / alpha)``.

    Parameters
    ----------
    alpha : float in (0, 1]
        Mass of the tail.
    penalty : float in (0, inf)
        lam, in units of the losses.

    Notes
    -----
    Source: Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020.

    Examples
    --------
    >>> import leeward as lw
    >>> round(lw.KLCVaR(0.3, penalty=1.0)(range(1, 11)), 12)
    7.948807071167
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("alpha", "penalty")
    smooth: ClassVar[bool] = True
    alpha: float
    penalty: float

    def __init__(self, alpha: float, penalty: float) -> None:
        alpha = number_in("alpha", alpha, 0.0, 1.0, "(0, 1]")
        penalty = number_in("penalty", penalty, 0.0, math.inf, "(0, inf)")
        self._set(_core.make_kl_cvar(tail(alpha), penalty), alpha, penalty)

    @property
    def divergence(self) -> divergences.KLCVaR:
        """``t log t - t + 1`` on [0, 1/alpha]."""
        return divergences.KLCVaR(self.alpha)

    def _slope(self, q: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(q * self.alpha < p * (1 - 1e-12), q, 0.0)


class SmoothedCVaR(Risk):
    """CVaR smoothed by the entropy of both sides of its bound; the weights are a logistic sigmoid of the losses.

    ``f(t) = t log t + ((1 - alpha t) / alpha) log((1 - alpha t) / (1 - alpha))`` on [0, 1/alpha],
    ``q_i = p_i e^s / (1 - alpha + alpha e^s)`` with ``s = (l_i - eta) / lam``; f* has a Lipschitz derivative, 1 / (4 alpha).

    Parameters
    ----------
    alpha : float in (0, 1]
        Mass of the tail.
    penalty : float in (0, inf)
        lam, in units of the losses.

    Notes
    -----
    Source: Jin, Zhang, Wang and Wang, Non-convex distributionally robust optimization, 2021.

    Examples
    --------
    >>> import leeward as lw
    >>> risk = lw.SmoothedCVaR(0.5, penalty=0.1)
    >>> bool(risk([1.0, 2.0, 3.0, 4.0]) <= lw.CVaR(0.5)([1.0, 2.0, 3.0, 4.0]))
    True
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("alpha", "penalty")
    smooth: ClassVar[bool] = True
    alpha: float
    penalty: float

    def __init__(self, alpha: float, penalty: float) -> None:
        alpha = number_in("alpha", alpha, 0.0, 1.0, "(0, 1]")
        penalty = number_in("penalty", penalty, 0.0, math.inf, "(0, inf)")
        self._set(_core.make_smoothed_cvar(tail(alpha), penalty), alpha, penalty)

    @property
    def divergence(self) -> divergences.SmoothedCVaR:
        """The two-sided entropy above."""
        return divergences.SmoothedCVaR(self.alpha)

    def _slope(self, q: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        ratio = np.divide(q, p, out=np.zeros_like(q), where=p > 0)
        return np.asarray(q * np.maximum(1 - self.alpha * ratio, 0.0))


class TotalVariation(Risk):
    """The worst mean within total variation ``radius``: ``max {sum q_i l_i : (1/2) sum |q_i - p_i| <= rho}``.

    The mass rho moves from the smallest losses to the largest. With a ``penalty`` lam the objective is
    ``sum q_i l_i - lam KL(q|p)`` over the same weights, which is smooth and lower by at most ``lam log(1 / min p)``.

    Parameters
    ----------
    radius : float in [0, 1]
        rho, the mass moved; from ``1 - P(argmax)`` on the risk is the maximum.
    penalty : float in (0, inf), optional
        lam, in units of the losses.

    Notes
    -----
    ``f(t) = |t - 1| / 2``. The penalised form sorts, O(n log n).

    Examples
    --------
    >>> import leeward as lw
    >>> round(lw.TotalVariation(0.25)([1.0, 2.0, 3.0, 4.0]), 12)
    3.25
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("radius", "penalty")
    radius: float
    penalty: float | None

    def __init__(self, radius: float, penalty: float | None = None) -> None:
        radius = number_in("radius", radius, 0.0, 1.0, "[0, 1]")
        penalty = optional_number("penalty", penalty, "(0, inf)")
        core = _core.make_total_variation(radius)
        self._set(core if penalty is None else _core.make_smoothed_total_variation(radius, penalty), radius, penalty)

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether the weights are a Lipschitz function of the losses: there is a penalty."""
        return self.penalty is not None

    @property
    def coherent(self) -> bool:  # type: ignore[override]
        """Whether the risk is positively homogeneous: there is no penalty."""
        return self.penalty is None

    @property
    def divergence(self) -> divergences.Divergence:
        """``|t - 1| / 2`` of the radius; with a penalty its own ``t log t - t + 1``."""
        return divergences.TotalVariation() if self.penalty is None else divergences.KL()

    def smoothed(self, strength: float) -> Risk:
        """Return ``TotalVariation(radius, penalty=strength)``."""
        return self if self.smooth else TotalVariation(self.radius, penalty=strength)

    def _slope(self, q: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        return q
