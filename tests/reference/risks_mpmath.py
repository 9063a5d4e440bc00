"""Risks at sixty digits by their duals alone: min over eta (and the multiplier) of E lam f*((l - eta)/lam) + eta.

Independent of the NumPy twins: nothing is sorted, merged, scaled or clipped, and no closed form is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp

DIGITS = 60


class Conjugate(NamedTuple):
    """f, f* and (f*)' on mpmath numbers."""

    f: Callable
    star: Callable
    slope: Callable


def kl() -> Conjugate:
    return Conjugate(lambda t: t * mp.log(t) - t + 1 if t else mp.mpf(1), mp.expm1, mp.exp)


def chi_square() -> Conjugate:
    return Conjugate(lambda t: (t - 1) ** 2 / 2, lambda s: (max(s + 1, 0) ** 2 - 1) / 2, lambda s: max(s + 1, mp.mpf(0)))


def kl_cvar(alpha) -> Conjugate:
    cap = 1 / mp.mpf(alpha)
    f = kl().f

    def star(s):
        return mp.expm1(s) if s <= mp.log(cap) else s * cap - f(cap)

    return Conjugate(f, star, lambda s: mp.exp(s) if s <= mp.log(cap) else cap)


def smoothed_cvar(alpha) -> Conjugate:
    a = mp.mpf(alpha)

    def f(t):
        rest = 1 - a * t
        return (t * mp.log(t) if t else 0) + (rest / a * mp.log(rest / (1 - a)) if rest > 0 else 0)

    def slope(s):
        return 1 / (a + (1 - a) * mp.exp(-s))

    def star(s):
        return (s + mp.log(a + (1 - a) * mp.exp(-s))) / a if s > 0 else mp.log(1 - a + a * mp.exp(s)) / a

    return Conjugate(f, star, slope)


def cressie_read(k) -> Conjugate:
    k = mp.mpf(k)

    def base(s):
        return max((k - 1) * s + 1, mp.mpf(0))

    return Conjugate(
        lambda t: (t**k - k * t + k - 1) / (k * (k - 1)),
        lambda s: (base(s) ** (k / (k - 1)) - 1) / k,
        lambda s: base(s) ** (1 / (k - 1)),
    )


def _exact(losses, base):
    l = [mp.mpf(float(v)) for v in losses]
    p = [mp.mpf(1)] * len(l) if base is None else [mp.mpf(float(v)) for v in base]
    total = mp.fsum(p)
    return l, [v / total for v in p]


def _root(f, low, high):
    """Bisection for a non-increasing f with f(low) >= 0 >= f(high)."""
    for _ in range(int(DIGITS * 3.4)):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) > 0 else (low, middle)
    return (low + high) / 2


def penalty(losses, base, conjugate: Conjugate, lam):
    """(value, weights) of min over eta of E lam f*((l - eta)/lam) + eta."""
    with mp.workdps(DIGITS):
        l, p = _exact(losses, base)
        lam = mp.mpf(lam)
        low, high = min(l) - 800 * lam, max(l) + 800 * lam
        eta = _root(lambda e: mp.fsum(w * conjugate.slope((x - e) / lam) for w, x in zip(p, l, strict=True)) - 1, low, high)
        value = lam * mp.fsum(w * conjugate.star((x - eta) / lam) for w, x in zip(p, l, strict=True)) + eta
        return value, [w * conjugate.slope((x - eta) / lam) for w, x in zip(p, l, strict=True)]


def radius(losses, base, conjugate: Conjugate, rho):
    """(value, weights) of the ball: the multiplier is the penalty whose weights have divergence rho."""
    with mp.workdps(DIGITS):
        l, p = _exact(losses, base)
        spread = max(l) - min(l)

        def excess(log_nu):
            q = penalty(losses, base, conjugate, spread * mp.exp(log_nu))[1]
            return mp.fsum(w * conjugate.f(v / w) for v, w in zip(q, p, strict=True) if w) - mp.mpf(rho)

        # thirty digits of the multiplier: the value is stationary in it, so its error is far smaller
        low, high = mp.mpf(-8), mp.mpf(12)
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        nu = spread * mp.exp((low + high) / 2)
        value, q = penalty(losses, base, conjugate, nu)
        return value + nu * mp.mpf(rho), q


def cvar(losses, base, alpha):
    """min over eta of E(l - eta)_+/alpha + eta, piecewise linear in eta, so attained at a loss."""
    with mp.workdps(DIGITS):
        l, p = _exact(losses, base)
        a = mp.mpf(alpha)
        return min(eta + mp.fsum(w * max(x - eta, 0) for w, x in zip(p, l, strict=True)) / a for eta in l)


def total_variation(losses, base, rho):
    """rho max + min over eta of (1 - rho) eta + E(l - eta)_+, the smallest losses of mass rho being moved."""
    with mp.workdps(DIGITS):
        l, p = _exact(losses, base)
        rho = min(mp.mpf(rho), mp.mpf(1))
        top = max(x for x, w in zip(l, p, strict=True) if w)
        tail = [(1 - rho) * eta + mp.fsum(w * max(x - eta, 0) for w, x in zip(p, l, strict=True)) for eta in l]
        return rho * top + min(tail)
