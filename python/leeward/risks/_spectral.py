"""Spectral risks: sorted losses against a non-decreasing spectrum."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from leeward import _arrays, _core
from leeward.risks._base import Risk, number_in

__all__ = ["Spectral"]


class Spectral(Risk):
    """A weighted mean of the sorted losses, ``R(l) = integral of phi(u) F^{-1}(u) du`` with a non-decreasing spectrum phi.

    With cumulated base weights ``c_j`` along the sorted losses the weights are ``Phi(c_j) - Phi(c_(j-1))``, Phi the integral
    of phi; ties share theirs in proportion to p. The spectrum is a function on [0, 1], so it serves any number of losses.

    Parameters
    ----------
    weights : array of shape (m,)
        A spectrum constant on m equal cells of [0, 1]: non-negative, non-decreasing, any positive scale. For m unweighted
        losses these are, up to scale, the weights of the sorted losses.

    See Also
    --------
    superquantile, extremile, exponential : named spectra.

    Notes
    -----
    Source: Acerbi, Spectral measures of risk, 2002. Sorts: O(n log n).

    Examples
    --------
    >>> import leeward as lw
    >>> lw.Spectral([0.0, 1.0, 3.0])([5.0, 1.0, 3.0])
    4.5
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("kind", "parameter")
    coherent: ClassVar[bool] = True
    kind: str
    parameter: Any

    def __init__(self, weights: ArrayLike) -> None:
        w = _arrays.spectrum(weights)
        self._set(_core.make_step_spectrum(w), "weights", tuple((w / w.sum()).tolist()))

    @classmethod
    def _named(cls, kind: str, core: _core.Risk, parameter: float) -> Spectral:
        risk = cls.__new__(cls)
        risk._set(core, kind, parameter)
        return risk

    @classmethod
    def superquantile(cls, alpha: float) -> Spectral:
        """The spectrum ``1/alpha`` on ``[1 - alpha, 1]``: the same risk as ``CVaR(alpha)``."""
        alpha = number_in("alpha", alpha, 0.0, 1.0, "(0, 1]")
        return cls._named("superquantile", _core.make_cvar(alpha), alpha)

    @classmethod
    def extremile(cls, draws: float) -> Spectral:
        """The mean of the largest of ``draws`` independent losses: ``Phi(u) = u^draws``, draws >= 1.

        Examples
        --------
        >>> import leeward as lw
        >>> round(lw.Spectral.extremile(2.0)([0.0, 1.0]), 12)
        0.75
        """
        draws = number_in("draws", draws, 1.0, math.inf, "[1, inf)")
        return cls._named("extremile", _core.make_extremile(draws), draws)

    @classmethod
    def exponential(cls, rate: float) -> Spectral:
        """The spectrum proportional to ``exp(rate u)``, rate > 0: ``Phi(u) = (e^(rate u) - 1) / (e^rate - 1)``."""
        rate = number_in("rate", rate, 0.0, math.inf, "(0, inf)")
        return cls._named("exponential", _core.make_exponential_spectrum(rate), rate)

    def __repr__(self) -> str:
        if self.kind == "weights":
            return f"Spectral({list(self.parameter)!r})"
        return f"Spectral.{self.kind}({self.parameter!r})"

    def __reduce__(self) -> Any:
        return _rebuild, (self.kind, self.parameter)

    def smoothed(self, strength: float) -> Risk:
        """Return a smooth lower bound for a superquantile, ``KLCVaR(alpha, strength)``; other spectra have none here."""
        from leeward.risks._tail import KLCVaR

        if self.kind == "superquantile":
            return KLCVaR(self.parameter, penalty=strength)
        return super().smoothed(strength)


def _rebuild(kind: str, parameter: Any) -> Spectral:
    if kind == "weights":
        return Spectral(np.array(parameter))
    made: Spectral = getattr(Spectral, kind)(parameter)
    return made
