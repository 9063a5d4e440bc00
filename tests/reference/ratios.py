"""Divergences from d = r - 1, so that ratios near 1 keep their digits; for the twins of the risks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Array = Any  # an extended-precision array
Function = Callable[[Array], Array]

REAL = np.longdouble  # 64 bits of mantissa on x86-64; plain double where the platform has nothing better
ONE = REAL(1)


def _xlog1p(t: Array, d: Array) -> Array:
    return np.where(t <= 0, REAL(0), t * np.log1p(np.where(t <= 0, REAL(0), d)))


def kl_of(d: Array) -> Array:
    """f(1+d) of t log t - t + 1."""
    return _xlog1p(1 + d, d) - d


def chi_square_of(d: Array) -> Array:
    """f(1+d) of (t-1)^2/2."""
    return d * d / 2


def cressie_read_of(k: Any) -> Function:
    """f(1+d) of (t^k - k t + k - 1)/(k(k-1))."""

    def of(d: Array) -> Array:
        power = np.where(d <= -1, -ONE, np.expm1(k * np.log1p(np.where(d <= -1, REAL(0), d))))
        return (power - k * d) / (k * (k - ONE))

    return of


def smoothed_of(alpha: Any) -> Function:
    """f(1+d) of t log t + ((1 - alpha t)/alpha) log((1 - alpha t)/(1 - alpha))."""
    alpha = REAL(alpha)

    def of(d: Array) -> Array:
        if alpha == 1:
            return 0 * d
        fall = -d * (alpha / (1 - alpha))  # (1 - alpha t)/(1 - alpha) = 1 + fall
        return _xlog1p(1 + d, d) + (1 - alpha) / alpha * _xlog1p(1 + fall, fall)

    return of


def divergence(weights: ArrayLike, base: ArrayLike, f_of: Function) -> Any:
    """D(q|p) = sum p f(q/p) of given weights; base weights of any scale, atoms of no mass left out."""
    p = np.asarray(base, REAL)
    keep = p > 0
    p, q = p[keep] / p.sum(), np.asarray(weights, REAL)[keep]
    return (p * f_of((q - p) / p)).sum()
