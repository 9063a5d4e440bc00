"""The convex functions behind the risks: f, its conjugate f*, and the derivative of f*.

A divergence is ``D(q|p) = sum_i p_i f(q_i / p_i)`` with f convex on t >= 0 and ``f(1) = 0``. Its conjugate
``f*(s) = sup_{t >= 0} (s t - f(t))`` gives the dual of a robust risk, and ``(f*)'(s)`` is the density ratio t that
attains it. Plain NumPy, for teaching and for plots: the risks themselves use the compiled kernels.
Source: Levy, Carmon, Duchi and Sidford (2020), section 2 and appendix A; Jin et al. (2021) for the smoothed CVaR.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["KL", "CVaR", "ChiSquare", "CressieRead", "Divergence", "KLCVaR", "SmoothedCVaR", "TotalVariation"]

# float64 values in the shape of the argument; a scalar argument gives a NumPy scalar.
_Real = Any


def _log_times(t: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """t log x with 0 log 0 = 0."""
    return np.where(t == 0, 0.0, t * np.log(np.where(t == 0, 1.0, x)))


class Divergence(ABC):
    """A convex f with f(1) = 0, its conjugate and the derivative of the conjugate, each over arrays of any shape."""

    @property
    def upper(self) -> float:
        """The right end of the domain of f: the largest density ratio allowed."""
        return math.inf

    def f(self, t: ArrayLike) -> _Real:
        """Return f(t), with +inf outside the domain [0, upper] and NaN where t is NaN."""
        ratio = np.asarray(t, dtype=np.float64)
        inside = (ratio >= 0) & (ratio <= self.upper)
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.where(inside, self._f(np.where(inside & np.isfinite(ratio), ratio, 1.0)), np.inf)
        return np.where(np.isnan(ratio), np.nan, np.where(ratio == np.inf, np.inf, value))[()]

    def conjugate(self, s: ArrayLike) -> _Real:
        """Return f*(s) = sup over t >= 0 of s t - f(t); +inf where the supremum is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._conjugate(np.asarray(s, dtype=np.float64))[()]

    def conjugate_grad(self, s: ArrayLike) -> _Real:
        """Return (f*)'(s), the t >= 0 that attains the supremum; +inf where none does.

        Where f* has a kink any value between its one-sided derivatives is right; each class says which it takes.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._conjugate_grad(np.asarray(s, dtype=np.float64))[()]

    @abstractmethod
    def _f(self, t: NDArray[np.float64]) -> NDArray[np.float64]: ...

    @abstractmethod
    def _conjugate(self, s: NDArray[np.float64]) -> NDArray[np.float64]: ...

    @abstractmethod
    def _conjugate_grad(self, s: NDArray[np.float64]) -> NDArray[np.float64]: ...


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha must be in (0, 1], got {alpha}")


@dataclass(frozen=True)
class KL(Divergence):
    """Kullback-Leibler: ``f(t) = t log t - t + 1``, ``f*(s) = e^s - 1``, ``(f*)'(s) = e^s``.

    Examples
    --------
    >>> import leeward as lw
    >>> float(lw.divergences.KL().conjugate_grad(0.0))
    1.0
    """

    def _f(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(_log_times(t, t) - (t - 1), 0.0)

    def _conjugate(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.expm1(s)

    def _conjugate_grad(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(s)


@dataclass(frozen=True)
class ChiSquare(Divergence):
    """Chi-square with the factor one half: ``f(t) = (t - 1)^2/2``.

    ``f*(s) = ((s+1)_+^2 - 1)/2`` and ``(f*)'(s) = (s+1)_+``.
    ``(s+2)_+^2/4 - 1``, often printed beside it, is the conjugate of Pearson's ``(t - 1)^2``, twice this f.

    Examples
    --------
    >>> import leeward as lw
    >>> chi = lw.divergences.ChiSquare()
    >>> float(chi.f(3.0)), float(chi.conjugate(1.0)), float(chi.conjugate_grad(-2.0))
    (2.0, 1.5, 0.0)
    """

    def _f(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.square(t - 1) / 2

    def _conjugate(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        bounded = np.maximum(s, -1.0)
        return bounded * (bounded / 2 + 1)

    def _conjugate_grad(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(s + 1, 0.0)


@dataclass(frozen=True)
class CVaR(Divergence):
    """The indicator of bounded ratios: ``f(t) = 0`` on [0, 1/alpha], else +inf; ``f*(s) = s_+/alpha``.

    The derivative of f* is 1/alpha for s > 0 and 0 for s <= 0 (at the kink s = 0 all of [0, 1/alpha] is right).

    Parameters
    ----------
    alpha : float in (0, 1]
        The tail mass.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.divergences.CVaR(0.5).f([0.0, 2.0, 2.5])
    array([ 0.,  0., inf])
    """

    alpha: float

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)

    @property
    def upper(self) -> float:
        """The largest density ratio allowed, 1/alpha."""
        return 1 / self.alpha

    def _f(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.zeros_like(t)

    def _conjugate(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(s, 0.0) / self.alpha

    def _conjugate_grad(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(np.isnan(s), np.nan, np.where(s > 0, self.upper, 0.0))


@dataclass(frozen=True)
class KLCVaR(Divergence):
    """Kullback-Leibler on bounded ratios: ``f(t) = t log t - t + 1`` on [0, 1/alpha], else +inf.

    ``f*(s) = e^s - 1`` up to ``s = log(1/alpha)`` and ``s/alpha - f(1/alpha)`` beyond;
    ``(f*)'(s) = min(e^s, 1/alpha)``.

    Parameters
    ----------
    alpha : float in (0, 1]
        The tail mass.

    Examples
    --------
    >>> import leeward as lw
    >>> float(lw.divergences.KLCVaR(0.5).conjugate_grad(3.0))
    2.0
    """

    alpha: float

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)

    @property
    def upper(self) -> float:
        """The largest density ratio allowed, 1/alpha."""
        return 1 / self.alpha

    def _f(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(_log_times(t, t) - (t - 1), 0.0)

    def _conjugate(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        kink = -math.log(self.alpha)
        return np.expm1(np.minimum(s, kink)) + np.maximum(s - kink, 0.0) * self.upper

    def _conjugate_grad(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.minimum(np.exp(s), self.upper)


@dataclass(frozen=True)
class SmoothedCVaR(Divergence):
    """Entropy of a ratio and of what is left below the cap: a CVaR whose weights are a logistic function of the loss.

    ``f(t) = t log t + ((1 - alpha t)/alpha) log((1 - alpha t)/(1 - alpha))`` on [0, 1/alpha], else +inf, with the
    finite ends ``f(0) = log(1/(1 - alpha))/alpha`` and ``f(1/alpha) = log(1/alpha)/alpha``;
    ``f*(s) = log(1 - alpha + alpha e^s)/alpha`` and ``(f*)'(s) = e^s/(1 - alpha + alpha e^s)``.
    At alpha = 1 only t = 1 is left and the risk is the mean.

    Parameters
    ----------
    alpha : float in (0, 1]
        The tail mass.

    Examples
    --------
    >>> import leeward as lw
    >>> float(lw.divergences.SmoothedCVaR(0.25).conjugate_grad(0.0))
    1.0
    """

    alpha: float

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)

    @property
    def upper(self) -> float:
        """The largest density ratio allowed, 1/alpha."""
        return 1 / self.alpha

    def _f(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.alpha == 1:
            return np.where(t == 1, 0.0, np.inf)
        rest = np.maximum(1 - self.alpha * t, 0.0)
        below = _log_times(rest, rest / (1 - self.alpha)) / self.alpha
        return np.maximum(_log_times(t, t) + below, 0.0)

    def _conjugate(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.alpha == 1:
            return s.copy()
        # d = 1 - alpha + alpha e^s, beyond the turn d / e^s: sums of positive terms, and d - 1 where d is near 1
        up = s > max(0.0, math.log((1 - self.alpha) / self.alpha))
        fixed, moving = np.where(up, self.alpha, 1 - self.alpha), np.where(up, 1 - self.alpha, self.alpha)
        t = np.where(up, -s, s)
        d, excess = fixed + moving * np.exp(t), moving * np.expm1(t)
        near = excess > -0.5
        log_d = np.where(near, np.log1p(np.where(near, excess, 0.0)), np.log(d))
        return (np.where(up, s, 0.0) + log_d) / self.alpha

    def _conjugate_grad(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.alpha == 1:
            return np.where(np.isnan(s), np.nan, 1.0)
        small = np.exp(-np.abs(s))
        return np.where(s > 0, 1.0, small) / np.where(
            s > 0, self.alpha + (1 - self.alpha) * small, 1 - self.alpha + self.alpha * small
        )


@dataclass(frozen=True)
class CressieRead(Divergence):
    """Power divergence of order k > 1: ``f(t) = (t^k - k t + k - 1)/(k (k - 1))``.

    The order k = 2 is `ChiSquare` and k -> 1 is `KL`.
    ``f*(s) = (((k-1) s + 1)_+^(k/(k-1)) - 1)/k`` and ``(f*)'(s) = ((k-1) s + 1)_+^(1/(k-1))``.

    Parameters
    ----------
    k : float > 1
        The order.

    Examples
    --------
    >>> import leeward as lw
    >>> float(lw.divergences.CressieRead(3.0).conjugate_grad(1.5))
    2.0
    """

    k: float

    def __post_init__(self) -> None:
        if not 1 < self.k < math.inf:
            raise ValueError(f"k must be a finite number above 1, got {self.k}")

    def _f(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        # (t^k - 1 - k (t - 1)) / (k (k-1)), with t^k - 1 by expm1: no loss of digits as k nears 1
        power = np.where(t == 0, -1.0, np.expm1(self.k * np.log(np.where(t == 0, 1.0, t))))
        return np.maximum((power - self.k * (t - 1)) / (self.k * (self.k - 1)), 0.0)

    def _conjugate(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        base = np.maximum((self.k - 1) * s, -1.0)
        power = np.where(base > -1, np.log1p(np.where(base > -1, base, 0.0)), -np.inf)
        return np.expm1(power * (self.k / (self.k - 1))) / self.k + np.where(np.isnan(s), np.nan, 0.0)

    def _conjugate_grad(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        base = np.maximum((self.k - 1) * s, -1.0)
        power = np.where(base > -1, np.log1p(np.where(base > -1, base, 0.0)), -np.inf)
        return np.exp(power / (self.k - 1)) + np.where(np.isnan(s), np.nan, 0.0)


@dataclass(frozen=True)
class TotalVariation(Divergence):
    """Half the absolute difference: ``f(t) = |t - 1|/2``, so that D(q|p) is the mass that has to be moved.

    ``f*(s) = -1/2`` for s < -1/2, ``s`` on [-1/2, 1/2] and +inf beyond; ``(f*)'(s)`` is 0, 1 and +inf there, and 1 at
    both kinks.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.divergences.TotalVariation().conjugate([-2.0, 0.25, 1.0])
    array([-0.5 ,  0.25,   inf])
    """

    def _f(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.abs(t - 1) / 2

    def _conjugate(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(s > 0.5, np.inf, np.maximum(s, -0.5))

    def _conjugate_grad(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        value = np.where(s > 0.5, np.inf, np.where(s < -0.5, 0.0, 1.0))
        return np.where(np.isnan(s), np.nan, value)
