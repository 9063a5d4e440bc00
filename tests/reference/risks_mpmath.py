"""Risks at thirty digits by their duals alone: min over eta (and the multiplier) of E lam f*((l - eta)/lam) + eta.

Independent of the NumPy twins: nothing is sorted, merged, scaled or clipped, and no closed form is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from numpy.typing import ArrayLike

DIGITS = 30


class Conjugate(NamedTuple):
    """f, f* and (f*)' on mpmath numbers."""

    f: Callable[[Any], Any]
    star: Callable[[Any], Any]
    slope: Callable[[Any], Any]


def kl() -> Conjugate:
    return Conjugate(lambda t: t * mp.log(t) - t + 1 if t else mp.mpf(1), mp.expm1, mp.exp)


def chi_square() -> Conjugate:
    return Conjugate(
        lambda t: (t - 1) ** 2 / 2, lambda s: (max(s + 1, 0) ** 2 - 1) / 2, lambda s: max(s + 1, mp.mpf(0))
    )


def kl_cvar(alpha: Any) -> Conjugate:
    cap = 1 / mp.mpf(alpha)
    f = kl().f

    def star(s: Any) -> Any:
        return mp.expm1(s) if s <= mp.log(cap) else s * cap - f(cap)

    return Conjugate(f, star, lambda s: mp.exp(s) if s <= mp.log(cap) else cap)


def smoothed_cvar(alpha: Any) -> Conjugate:
    a = mp.mpf(alpha)

    def f(t: Any) -> Any:
        rest = 1 - a * t
        return (t * mp.log(t) if t else 0) + (rest / a * mp.log(rest / (1 - a)) if rest > 0 else 0)

    def slope(s: Any) -> Any:
        return 1 / (a + (1 - a) * mp.exp(-s))

    def star(s: Any) -> Any:
        return (s + mp.log(a + (1 - a) * mp.exp(-s))) / a if s > 0 else mp.log(1 - a + a * mp.exp(s)) / a

    return Conjugate(f, star, slope)


def cressie_read(k: Any) -> Conjugate:
    k = mp.mpf(k)

    def base(s: Any) -> Any:
        return max((k - 1) * s + 1, mp.mpf(0))

    return Conjugate(
        lambda t: (t**k - k * t + k - 1) / (k * (k - 1)),
        lambda s: (base(s) ** (k / (k - 1)) - 1) / k,
        lambda s: base(s) ** (1 / (k - 1)),
    )


def _exact(losses: ArrayLike, base: ArrayLike | None) -> tuple[list[Any], list[Any]]:
    l = [mp.mpf(float(v)) for v in np.asarray(losses)]
    p = [mp.mpf(1)] * len(l) if base is None else [mp.mpf(float(v)) for v in np.asarray(base)]
    total = mp.fsum(p)
    return l, [v / total for v in p]


def _root(f: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Bisection for a non-increasing f with f(low) >= 0 >= f(high)."""
    for _ in range(int(DIGITS * 3.4)):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) > 0 else (low, middle)
    return (low + high) / 2


def penalty(losses: ArrayLike, base: ArrayLike | None, conjugate: Conjugate, lam: Any) -> tuple[Any, list[Any]]:
    """(value, weights) of min over eta of E lam f*((l - eta)/lam) + eta."""
    with mp.workdps(DIGITS):
        l, p = _exact(losses, base)
        lam = mp.mpf(lam)
        low, high = min(l) - 800 * lam, max(l) + 800 * lam
        eta = _root(
            lambda e: mp.fsum(w * conjugate.slope((x - e) / lam) for w, x in zip(p, l, strict=True)) - 1, low, high
        )
        value = lam * mp.fsum(w * conjugate.star((x - eta) / lam) for w, x in zip(p, l, strict=True)) + eta
        return value, [w * conjugate.slope((x - eta) / lam) for w, x in zip(p, l, strict=True)]


def radius(losses: ArrayLike, base: ArrayLike | None, conjugate: Conjugate, rho: Any) -> tuple[Any, list[Any]]:
    """(value, weights) of the ball: the multiplier is the penalty whose weights have divergence rho."""
    with mp.workdps(DIGITS):
        l, p = _exact(losses, base)
        spread = max(l) - min(l)

        def excess(log_nu: Any) -> Any:
            q = penalty(losses, base, conjugate, spread * mp.exp(log_nu))[1]
            return mp.fsum(w * conjugate.f(v / w) for v, w in zip(q, p, strict=True) if w) - mp.mpf(rho)

        # seventeen digits of the multiplier; the value is stationary in it, so its error is far smaller
        low, high = mp.mpf(-8), mp.mpf(12)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        nu = spread * mp.exp((low + high) / 2)
        value, q = penalty(losses, base, conjugate, nu)
        return value + nu * mp.mpf(rho), q


def cvar(losses: ArrayLike, base: ArrayLike | None, alpha: Any) -> Any:
    """min over eta of E(l - eta)_+/alpha + eta, piecewise linear in eta, so attained at a loss."""
    with mp.workdps(DIGITS):
        l, p = _exact(losses, base)
        a = mp.mpf(alpha)
        return min(eta + mp.fsum(w * max(x - eta, 0) for w, x in zip(p, l, strict=True)) / a for eta in l)


def total_variation(losses: ArrayLike, base: ArrayLike | None, rho: Any) -> Any:
    """rho max + min over eta of (1 - rho) eta + E(l - eta)_+, the smallest losses of mass rho being moved."""
    with mp.workdps(DIGITS):
        l, p = _exact(losses, base)
        rho = min(mp.mpf(rho), mp.mpf(1))
        top = max(x for x, w in zip(l, p, strict=True) if w)
        tail = [(1 - rho) * eta + mp.fsum(w * max(x - eta, 0) for w, x in zip(p, l, strict=True)) for eta in l]
        return rho * top + min(tail)
