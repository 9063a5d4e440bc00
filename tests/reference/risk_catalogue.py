"""Every risk beside its twin, its divergence and its feasible set, so that one test can speak of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import leeward as lw
from reference import ratios
from reference import risks as twin

EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class Spec:
    """A risk and what is known of it: value = max over feasible q of sum q l - lam D(q|p)."""

    risk: Any
    twin: Callable[..., twin.Answer]
    lam: float = 0.0  # the penalty paid for D
    rho: float | None = None  # the largest D allowed
    f_of: ratios.Function | None = None  # f(1 + d)
    divergence: Any = None  # its conjugate, of lw.divergences, where the dual is a function of (eta, multiplier)
    cap: float | None = None  # the largest ratio q/p allowed
    floor: float = (8 * EPS) ** 2  # weights rounded to double leave ratios known to EPS, and a smooth D to EPS^2

    def primal(self, losses: ArrayLike, weights: ArrayLike, base: ArrayLike | None = None) -> Any:
        """Sum q l - lam D(q|p), in extended precision, row by row."""
        l, q = np.asarray(losses, ratios.REAL), np.asarray(weights, ratios.REAL)
        value = (q * l).sum(axis=-1)
        if self.lam and self.f_of is not None:
            value = value - ratios.REAL(self.lam) * self.spent(weights, base)
        return value

    def spent(self, weights: ArrayLike, base: ArrayLike | None = None) -> Any:
        """D(q|p), row by row."""
        assert self.f_of is not None
        q = np.asarray(weights, ratios.REAL)
        p = np.ones(q.shape[-1], ratios.REAL) if base is None else np.asarray(base, ratios.REAL)
        keep = p > 0
        p, q = p[keep] / p.sum(), q[..., keep]
        return (p * self.f_of((q - p) / p)).sum(axis=-1)

    def dual(self, losses: ArrayLike, eta: Any, multiplier: Any, base: ArrayLike | None = None) -> Any:
        """E nu f*((l - eta)/nu) + eta + nu rho, row by row; for two constraints the penalty is part of nu."""
        l = np.asarray(losses, ratios.REAL)
        p = np.ones(l.shape[-1], ratios.REAL) if base is None else np.asarray(base, ratios.REAL)
        keep = p > 0
        p, l = p[keep] / p.sum(), l[..., keep]
        eta, nu = np.asarray(eta, ratios.REAL), np.asarray(multiplier, ratios.REAL)
        s = (l - eta[..., None]) / nu[..., None]
        value = nu * (p * self.divergence.conjugate(s.astype(np.float64))).sum(axis=-1) + eta
        return value + (nu - ratios.REAL(self.lam)) * self.rho if self.rho is not None else value

    def __repr__(self) -> str:
        return repr(self.risk)


def mean() -> Spec:
    return Spec(lw.Mean(), twin.mean)


def worst() -> Spec:
    return Spec(lw.Worst(), twin.worst)


def cvar(alpha: float) -> Spec:
    return Spec(lw.CVaR(alpha), partial(twin.cvar, alpha=alpha), cap=1 / alpha)


def kl_penalty(lam: float) -> Spec:
    return Spec(
        lw.KL(penalty=lam),
        partial(twin.kl_penalty, lam=lam),
        lam=lam,
        f_of=ratios.kl_of,
        divergence=lw.divergences.KL(),
    )


def kl_radius(rho: float) -> Spec:
    return Spec(
        lw.KL(radius=rho), partial(twin.kl_radius, rho=rho), rho=rho, f_of=ratios.kl_of, divergence=lw.divergences.KL()
    )


def chi_square_penalty(lam: float) -> Spec:
    return Spec(
        lw.ChiSquare(penalty=lam),
        partial(twin.chi_square_penalty, lam=lam),
        lam=lam,
        f_of=ratios.chi_square_of,
        divergence=lw.divergences.ChiSquare(),
    )


def chi_square_radius(rho: float) -> Spec:
    return Spec(
        lw.ChiSquare(radius=rho),
        partial(twin.chi_square_radius, rho=rho),
        rho=rho,
        f_of=ratios.chi_square_of,
        divergence=lw.divergences.ChiSquare(),
    )


def chi_square_both(lam: float, rho: float) -> Spec:
    return Spec(
        lw.ChiSquare(penalty=lam, radius=rho),
        partial(twin.chi_square_both, lam=lam, rho=rho),
        lam=lam,
        rho=rho,
        f_of=ratios.chi_square_of,
    )


def kl_cvar(alpha: float, lam: float) -> Spec:
    return Spec(
        lw.KLCVaR(alpha, lam),
        partial(twin.kl_cvar, alpha=alpha, lam=lam),
        lam=lam,
        f_of=ratios.kl_of,
        divergence=lw.divergences.KLCVaR(alpha),
        cap=1 / alpha,
    )


def smoothed_cvar(alpha: float, lam: float) -> Spec:
    return Spec(
        lw.SmoothedCVaR(alpha, lam),
        partial(twin.smoothed_cvar, alpha=alpha, lam=lam),
        lam=lam,
        f_of=ratios.smoothed_of(alpha),
        divergence=lw.divergences.SmoothedCVaR(alpha),
        cap=1 / alpha,
    )


def cressie_read_penalty(k: float, lam: float) -> Spec:
    return Spec(
        lw.CressieRead(k, penalty=lam),
        partial(twin.cressie_read_penalty, k=k, lam=lam),
        lam=lam,
        f_of=ratios.cressie_read_of(k),
        divergence=lw.divergences.CressieRead(k),
    )


def cressie_read_radius(k: float, rho: float) -> Spec:
    return Spec(
        lw.CressieRead(k, radius=rho),
        partial(twin.cressie_read_radius, k=k, rho=rho),
        rho=rho,
        f_of=ratios.cressie_read_of(k),
        divergence=lw.divergences.CressieRead(k),
    )


def kl_both(lam: float, rho: float) -> Spec:
    return Spec(
        lw.KL(penalty=lam, radius=rho), partial(twin.kl_both, lam=lam, rho=rho), lam=lam, rho=rho, f_of=ratios.kl_of
    )


def cressie_read_both(k: float, lam: float, rho: float) -> Spec:
    return Spec(
        lw.CressieRead(k, penalty=lam, radius=rho),
        partial(twin.cressie_read_both, k=k, lam=lam, rho=rho),
        lam=lam,
        rho=rho,
        f_of=ratios.cressie_read_of(k),
    )


def total_variation(rho: float) -> Spec:
    return Spec(
        lw.TotalVariation(rho),
        partial(twin.total_variation, rho=rho),
        rho=rho,
        f_of=lambda d: np.abs(d) / 2,
        floor=8 * EPS,
    )


def tilted(t: float) -> Spec:
    """For t > 0 the KL penalty 1/t; for t < 0 a minimum, whose value sum q l + D/|t| is no worst case."""
    lam = 1 / t if t else 0.0
    return Spec(lw.Tilted(t), partial(twin.tilted, t=t), lam=lam, f_of=ratios.kl_of)


def superquantile(alpha: float) -> Spec:
    return Spec(lw.Spectral.superquantile(alpha), partial(twin.cvar, alpha=alpha), cap=1 / alpha)


def extremile(r: float) -> Spec:
    return Spec(lw.Spectral.extremile(r), partial(twin.spectral, cumulative=lambda u: u ** ratios.REAL(r)))


def exponential(r: float) -> Spec:
    rate = ratios.REAL(r)
    return Spec(
        lw.Spectral.exponential(r),
        partial(twin.spectral, cumulative=lambda u: np.expm1(rate * u) / np.expm1(rate)),
    )


def step_spectrum(weights: ArrayLike) -> Spec:
    return Spec(lw.Spectral(weights), partial(twin.spectral, cumulative=twin.step_spectrum(weights)))


def one_of_each(scale: float = 1.0) -> list[Spec]:
    """Each risk once, its penalty in units of the losses."""
    return [
        mean(),
        worst(),
        cvar(0.3),
        kl_penalty(0.4 * scale),
        kl_radius(0.2),
        chi_square_penalty(0.7 * scale),
        chi_square_radius(0.6),
        chi_square_both(0.3 * scale, 0.4),
        kl_cvar(0.3, 0.2 * scale),
        smoothed_cvar(0.3, 0.2 * scale),
        cressie_read_penalty(3.0, 0.5 * scale),
        cressie_read_radius(1.5, 0.4),
        kl_both(0.2 * scale, 0.3),
        cressie_read_both(3.0, 0.3 * scale, 0.2),
        total_variation(0.25),
        tilted(2.0 / scale),
        tilted(-2.0 / scale),
        superquantile(0.35),
        extremile(2.5),
        exponential(3.0),
        step_spectrum([0.0, 0.1, 0.2, 0.7]),
    ]
