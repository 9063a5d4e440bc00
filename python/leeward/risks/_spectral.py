"""Spectral risks: sorted losses against a non-decreasing spectrum."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leeward import _arrays, _core, divergences
from leeward.risks._base import Risk, number_in, optional_number, tail

__all__ = ["Spectral"]


class Spectral(Risk):
    """A weighted mean of the sorted losses, ``R(l) = integral of phi(u) F^{-1}(u) du`` with a non-decreasing spectrum phi.

    With cumulated base weights ``c_j`` along the sorted losses the weights are ``Phi(c_j) - Phi(c_(j-1))``, Phi the integral
    of phi; ties share theirs in proportion to p. The spectrum is a function on [0, 1], so it serves any number of losses.

    With a ``penalty`` lam the objective is ``sum q_i l_i - lam KL(q|p)`` over the same weights: smooth, and lower by at most
    lam times the relative entropy of the weights.

    Parameters
    ----------
    weights : array of shape (m,)
        A spectrum constant on m equal cells of [0, 1]: non-negative, non-decreasing, any positive scale. For m unweighted
        losses these are, up to scale, the weights of the sorted losses.
    penalty : float in (0, inf), optional
        lam, in units of the losses.

    See Also
    --------
    superquantile, extremile, exponential : named spectra.

    Notes
    -----
    Sorts: O(n log n). Sources: Acerbi, Spectral measures of risk, 2002; for the penalised form Blondel, Teboul, Berthet and
    Djolonga, Fast differentiable sorting and ranking, 2020, and Mehta, Roulet, Pillutla and Harchaoui, 2024.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.Spectral([0.0, 1.0, 3.0])([5.0, 1.0, 3.0])
    4.5
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("kind", "parameter", "penalty")
    kind: str
    parameter: Any
    penalty: float | None

    def __init__(self, weights: ArrayLike, penalty: float | None = None) -> None:
        w = _arrays.spectrum(weights)
        self._make("weights", tuple((w / w.max() / (w / w.max()).sum()).tolist()), penalty)

    def _make(self, kind: str, parameter: Any, penalty: float | None) -> None:
        penalty = optional_number("penalty", penalty, "(0, inf)")
        strength = -1.0 if penalty is None else penalty
        if kind == "weights":
            core = _core.make_step_spectrum(np.array(parameter), strength)
        elif kind == "superquantile":
            core = _core.make_cvar(tail(parameter)) if penalty is None else _core.make_kl_cvar(tail(parameter), penalty)
        elif kind == "extremile":
            core = _core.make_extremile(parameter, strength)
        else:
            core = _core.make_exponential_spectrum(parameter, strength)
        self._set(core, kind, parameter, penalty)

    @classmethod
    def _named(cls, kind: str, parameter: Any, penalty: float | None) -> Spectral:
        risk = cls.__new__(cls)
        risk._make(kind, parameter, penalty)
        return risk

    @classmethod
    def superquantile(cls, alpha: float, penalty: float | None = None) -> Spectral:
        """The spectrum ``1/alpha`` on ``[1 - alpha, 1]``: the same risk as ``CVaR(alpha)``, with a penalty ``KLCVaR``.

        Examples
        --------
        >>> import leeward as lw
        >>> lw.Spectral.superquantile(0.5)([1.0, 2.0, 3.0, 4.0])
        3.5
        """
        return cls._named("superquantile", number_in("alpha", alpha, 0.0, 1.0, "(0, 1]"), penalty)

    @classmethod
    def extremile(cls, draws: float, penalty: float | None = None) -> Spectral:
        """The mean of the largest of ``draws`` independent losses: ``Phi(u) = u^draws``, draws >= 1.

        Examples
        --------
        >>> import leeward as lw
        >>> round(lw.Spectral.extremile(2.0)([0.0, 1.0]), 12)
        0.75
        """
        return cls._named("extremile", number_in("draws", draws, 1.0, math.inf, "[1, inf)"), penalty)

    @classmethod
    def exponential(cls, rate: float, penalty: float | None = None) -> Spectral:
        """The spectrum proportional to ``exp(rate u)``, rate > 0: ``Phi(u) = (e^(rate u) - 1) / (e^rate - 1)``.

        Examples
        --------
        >>> import leeward as lw
        >>> round(lw.Spectral.exponential(1.0)([0.0, 1.0]), 9)
        0.622459331
        """
        return cls._named("exponential", number_in("rate", rate, 0.0, math.inf, "(0, inf)"), penalty)

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether the weights are a Lipschitz function of the losses: there is a penalty."""
        return self.penalty is not None

    @property
    def coherent(self) -> bool:  # type: ignore[override]
        """Whether the risk is positively homogeneous: there is no penalty."""
        return self.penalty is None

    @property
    def divergence(self) -> divergences.KL | None:
        """``t log t - t + 1`` of the penalty; None without one."""
        return None if self.penalty is None else divergences.KL()

    def smoothed(self, strength: float) -> Risk:
        """Return the same spectrum with ``penalty=strength``."""
        return self if self.smooth else Spectral._named(self.kind, self.parameter, strength)

    def _slope(self, q: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        return q

    def __repr__(self) -> str:
        name = "Spectral" if self.kind == "weights" else f"Spectral.{self.kind}"
        first = list(self.parameter) if self.kind == "weights" else self.parameter
        return f"{name}({first!r})" if self.penalty is None else f"{name}({first!r}, penalty={self.penalty!r})"

    def __reduce__(self) -> Any:
        return Spectral._named, (self.kind, self.parameter, self.penalty)
