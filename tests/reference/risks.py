"""NumPy twins of the risks: the formulas of docs/maths/risks.md in extended precision, with no regard for speed.

Each twin takes losses, base weights and the risk's parameters and returns (value, weights). `_solve` merges tied
losses into atoms x_1 < ... < x_k = 0 (shifted by the maximum, scaled to range 1) of mass P, asks the risk's own few
lines for the density ratio r of each atom, and prices it: value = sum q l - penalty, the primal value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from reference.ratios import (
    ONE,
    REAL,
    Array,
    Function,
    chi_square_of,
    cressie_read_of,
    divergence,
    kl_of,
    smoothed_of,
)

Ratio = Callable[[Array, Array, np.longdouble], Array]


class Answer(NamedTuple):
    """The value of the risk and the worst-case weights, sum 1."""

    value: np.longdouble
    weights: Array


# ---- the frame -----------------------------------------------------------------------------------------------------


def _solve(
    losses: ArrayLike, base: ArrayLike | None, ratio: Ratio, lam: Any = 0.0, f_of: Function | None = None
) -> Answer:
    """Merge ties, ask ratio(x, P, scale) for the density ratio minus 1, return the primal value and the weights."""
    l = np.asarray(losses, REAL)
    p = np.ones(l.size, REAL) if base is None else np.asarray(base, REAL)
    keep = p > 0
    atoms, where = np.unique(l[keep], return_inverse=True)
    mass = np.zeros(atoms.size, REAL)
    np.add.at(mass, where, p[keep])
    total = mass.sum()
    mass /= total
    top, scale = atoms[-1], atoms[-1] - atoms[0]
    if scale == 0:
        d = np.zeros(1, REAL)
        x = d
        scale = ONE
    else:
        x = (atoms - top) / scale
        with np.errstate(over="ignore"):
            d = ratio(x, mass, scale)
    value = top + scale * (mass * (1 + d) * x).sum()
    if f_of is not None:
        value -= lam * (mass * f_of(d)).sum()
    weights = np.zeros(l.size, REAL)
    weights[keep] = p[keep] / total * (1 + d)[where]
    return Answer(value, weights)


def _balance(low: Any, high: Any, at: Callable[[Any], Array], excess: Callable[[Array], Any]) -> Array:
    """The ratios at(z) with excess 0: halve [low, high] to neighbouring numbers, then mix the ratios at both.

    The mixture matters where a ratio leaves 0 steeply, as (l - u)_+^(1/9) does: there no representable z has excess 0.
    """
    low, high = REAL(low), REAL(high)
    rising = excess(at(high)) > excess(at(low))
    for _ in range(400):
        middle = low + (high - low) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if (excess(at(middle)) < 0) == rising else (low, middle)
    first, second = at(low), at(high)
    short, over = excess(first), excess(second)
    return first if short == over else first + (second - first) * (short / (short - over))


def _first(n: int, test: Callable[[int], Any]) -> int:
    """The first index in 0..n with test true, test monotone (false, then true), by halving."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if test(middle) else (middle + 1, high)
    return low


def _on_the_maximum(mass: Array) -> Array:
    d = np.full(mass.size, -ONE)
    d[-1] = 1 / mass[-1] - 1
    return d


# ---- the risks -----------------------------------------------------------------------------------------------------


def mean(losses: ArrayLike, base: ArrayLike | None = None) -> Answer:
    """sum p l."""
    return _solve(losses, base, lambda x, mass, scale: np.zeros_like(x))


def worst(losses: ArrayLike, base: ArrayLike | None = None) -> Answer:
    """max l over p > 0."""
    return _solve(losses, base, lambda x, mass, scale: _on_the_maximum(mass))


def cvar(losses: ArrayLike, base: ArrayLike | None = None, *, alpha: Any) -> Answer:
    """The mean of the worst mass alpha."""

    def ratio(x: Array, mass: Array, scale: np.longdouble) -> Array:
        above = np.append(np.cumsum(mass[::-1])[::-1][1:], REAL(0))
        return np.clip(REAL(alpha) - above, 0, mass) / mass / REAL(alpha) - 1

    return _normal(losses, base, ratio)


def _normal(
    losses: ArrayLike, base: ArrayLike | None, ratio: Ratio, lam: Any = 0.0, f_of: Function | None = None
) -> Answer:
    """`_solve` with the ratios divided by their sum, for rounding only."""

    def scaled(x: Array, mass: Array, scale: np.longdouble) -> Array:
        d = ratio(x, mass, scale)
        excess = (mass * d).sum()
        return np.maximum((d - excess) / (1 + excess), -ONE)

    return _solve(losses, base, scaled, lam, f_of)


def chi_square_penalty(losses: ArrayLike, base: ArrayLike | None = None, *, lam: Any) -> Answer:
    """r = (l - u)_+/lam, E(l - u)_+ = lam: u in closed form on the active set."""

    def ratio(x: Array, mass: Array, scale: np.longdouble) -> Array:
        b = REAL(lam) / scale
        first = _first(x.size, lambda j: (mass[j:] * (x[j:] - x[j])).sum() < b)
        a, w = x[first:], mass[first:]
        centre = (w * a).sum() / w.sum()
        d = np.full(x.size, -ONE)
        d[first:] = (a - centre) / b + (1 - w.sum()) / w.sum() if first else (a - centre) / b
        return np.maximum(d, -ONE)

    return _normal(losses, base, ratio, REAL(lam), chi_square_of)


def chi_square_radius(losses: ArrayLike, base: ArrayLike | None = None, *, rho: Any) -> Answer:
    """(m_A - u)^2 = v_A/((1 + 2 rho) P_A - 1) on the active set A; the maximum once 1 + 2 rho >= 1/P(max)."""
    rho = REAL(rho)

    def ratio(x: Array, mass: Array, scale: np.longdouble) -> Array:
        if (1 + 2 * rho) * mass[-1] >= 1:
            return _on_the_maximum(mass)
        if rho == 0:
            return np.zeros_like(x)

        def inside(j: int) -> Any:  # the ball cannot hold more than the ratios that vanish at and below x_j
            if j == x.size - 1:
                return True
            y, w = x[j:] - x[j], mass[j:]
            return (w * y * y).sum() >= (1 + 2 * rho) * (w * y).sum() ** 2

        first = _first(x.size, inside)
        a, w = x[first:], mass[first:]
        total = w.sum()
        centre = (w * a).sum() / total
        variance = (w * (a - centre) ** 2).sum() / total
        slack = 2 * rho * total + (total - 1 if first else 0)
        spread = np.sqrt(variance / slack)  # m_A - u
        d = np.full(x.size, -ONE)
        d[first:] = (a - centre) / spread / total + ((1 - total) / total if first else 0)
        return np.maximum(d, -ONE)

    return _normal(losses, base, ratio)


def _exponential(x: Array, mass: Array, b: Any) -> Array:
    """r - 1 of r = exp(x/b)/E exp(x/b), x <= 0, b > 0."""
    s = x / b
    log_mean = np.log1p((mass * np.expm1(s)).sum()) if s[0] > -0.5 else np.log((mass * np.exp(s)).sum())
    return np.expm1(s - log_mean)


def kl_penalty(losses: ArrayLike, base: ArrayLike | None = None, *, lam: Any) -> Answer:
    """lam log E exp(l/lam)."""
    return _solve(losses, base, lambda x, mass, scale: _exponential(x, mass, REAL(lam) / scale), REAL(lam), kl_of)


def kl_radius(losses: ArrayLike, base: ArrayLike | None = None, *, rho: Any) -> Answer:
    """The exponential ratios whose divergence is rho; the maximum once rho >= -log P(max)."""

    def ratio(x: Array, mass: Array, scale: np.longdouble) -> Array:
        if rho >= -np.log(mass[-1]):
            return _on_the_maximum(mass)
        if rho == 0:
            return np.zeros_like(x)

        def at(log_b: np.longdouble) -> Array:
            return _exponential(x, mass, np.exp(log_b))

        return _balance(-1500, 800, at, lambda d: (mass * kl_of(d)).sum() - rho)

    return _normal(losses, base, ratio)


def kl_cvar(losses: ArrayLike, base: ArrayLike | None = None, *, alpha: Any, lam: Any) -> Answer:
    """r = min(exp((l - eta)/lam), 1/alpha): eta in closed form once the clipped atoms are known."""
    alpha = REAL(alpha)

    def ratio(x: Array, mass: Array, scale: np.longdouble) -> Array:
        if alpha == 1:
            return np.zeros_like(x)
        b = REAL(lam) / scale

        def clipped(j: int) -> Any:  # with eta such that atom j just reaches the cap, is there mass to spare?
            return mass[j:].sum() + (mass[:j] * np.exp((x[:j] - x[j]) / b)).sum() < alpha

        first = _first(x.size, clipped)
        if first == 0:
            return np.zeros_like(x)
        d = np.full(x.size, 1 / alpha - 1)
        low, w = x[:first] - x[first - 1], mass[:first]
        share = (1 - mass[first:].sum() / alpha) / w.sum()
        d[:first] = share * _exponential(low, w / w.sum(), b) + (share - 1 if first < x.size else 0)
        return d

    return _normal(losses, base, ratio, REAL(lam), kl_of)


def smoothed_cvar(losses: ArrayLike, base: ArrayLike | None = None, *, alpha: Any, lam: Any) -> Answer:
    """r = e^s/(1 - alpha + alpha e^s), s = (l - eta)/lam, by bisection on s at the quantile."""
    alpha = REAL(alpha)

    def ratio(x: Array, mass: Array, scale: np.longdouble) -> Array:
        if alpha == 1:
            return np.zeros_like(x)
        b = REAL(lam) / scale
        quantile = x[max(_first(x.size, lambda j: mass[j + 1 :].sum() < alpha), 0)]
        y = (x - quantile) / b

        def at(z: np.longdouble) -> Array:  # t = sinh z is fine near 0 and reaches far
            s = y + np.sinh(z)
            grow, fall = np.expm1(np.minimum(s, 0)), np.expm1(-np.maximum(s, 0))
            low = (1 - alpha) * grow / (1 + alpha * grow)
            high = -(1 - alpha) * fall / (1 + (1 - alpha) * fall)
            return np.where(s <= 0, low, high)

        reach = np.log1p(1 / b) + 12
        return _balance(-reach, reach, at, lambda d: (mass * d).sum())

    return _normal(losses, base, ratio, REAL(lam), smoothed_of(alpha))


def cressie_read_penalty(losses: ArrayLike, base: ArrayLike | None = None, *, k: Any, lam: Any) -> Answer:
    """r = ((k-1)(l - eta)/lam + 1)_+^(1/(k-1)), by bisection on the bracket at the maximum."""
    k = REAL(k)

    def ratio(x: Array, mass: Array, scale: np.longdouble) -> Array:
        y = (k - 1) * x * (scale / REAL(lam))

        def at(v: np.longdouble) -> Array:  # bracket = 1 + v + y, v >= -1 is 1 - (k-1) eta/lam
            z = np.maximum(v + y, -ONE)
            return np.where(z > -1, np.expm1(np.log1p(np.where(z > -1, z, 0)) / (k - 1)), -ONE)

        return _balance(-1, -y[0], at, lambda d: (mass * d).sum())

    return _normal(losses, base, ratio, REAL(lam), cressie_read_of(k))


def cressie_read_radius(losses: ArrayLike, base: ArrayLike | None = None, *, k: Any, rho: Any) -> Answer:
    """r = (l - u)_+^(1/(k-1)) over its mean, u where the divergence is rho; the maximum past the ceiling."""
    k, rho = REAL(k), REAL(rho)
    f_of = cressie_read_of(k)

    def ratio(x: Array, mass: Array, scale: np.longdouble) -> Array:
        if rho >= (mass * f_of(_on_the_maximum(mass))).sum():
            return _on_the_maximum(mass)
        if rho == 0:
            return np.zeros_like(x)

        def at(log_depth: np.longdouble) -> Array:  # depth = max - u
            y = np.maximum(x / np.exp(log_depth), -ONE)
            power = np.where(y > -1, np.expm1(np.log1p(np.where(y > -1, y, 0)) / (k - 1)), -ONE)
            level = (mass * power).sum()
            return (power - level) / (1 + level)

        return _balance(-1500, 800, at, lambda d: (mass * f_of(d)).sum() - rho)

    return _normal(losses, base, ratio)


def _both(
    losses: ArrayLike, base: ArrayLike | None, penalised: Answer, ball: Answer, f_of: Function, **given: Any
) -> Answer:
    """The penalty form where its weights lie in the ball, else the weights of the radius form with the penalty paid."""
    p = np.ones(np.size(losses)) if base is None else base
    if divergence(penalised.weights, p, f_of) <= given["rho"]:
        return penalised
    return Answer(ball.value - REAL(given["lam"]) * divergence(ball.weights, p, f_of), ball.weights)


def chi_square_both(losses: ArrayLike, base: ArrayLike | None = None, *, lam: Any, rho: Any) -> Answer:
    """Penalty and radius at once."""
    forms = chi_square_penalty(losses, base, lam=lam), chi_square_radius(losses, base, rho=rho)
    return _both(losses, base, *forms, chi_square_of, lam=lam, rho=rho)


def kl_both(losses: ArrayLike, base: ArrayLike | None = None, *, lam: Any, rho: Any) -> Answer:
    """Penalty and radius at once."""
    forms = kl_penalty(losses, base, lam=lam), kl_radius(losses, base, rho=rho)
    return _both(losses, base, *forms, kl_of, lam=lam, rho=rho)


def cressie_read_both(losses: ArrayLike, base: ArrayLike | None = None, *, k: Any, lam: Any, rho: Any) -> Answer:
    """Penalty and radius at once."""
    forms = cressie_read_penalty(losses, base, k=k, lam=lam), cressie_read_radius(losses, base, k=k, rho=rho)
    return _both(losses, base, *forms, cressie_read_of(k), lam=lam, rho=rho)


def total_variation(losses: ArrayLike, base: ArrayLike | None = None, *, rho: Any) -> Answer:
    """Mass rho moved from the smallest losses to the largest."""
    rho = REAL(rho)

    def ratio(x: Array, mass: Array, scale: np.longdouble) -> Array:
        before = np.append(REAL(0), np.cumsum(mass)[:-1])
        taken = np.clip(rho - before[:-1], 0, mass[:-1])
        return np.append(-taken / mass[:-1], taken.sum() / mass[-1])

    return _solve(losses, base, ratio)


def tilted(losses: ArrayLike, base: ArrayLike | None = None, *, t: Any) -> Answer:
    """log E exp(t l)/t; minus the risk of -l at -t when t < 0; the mean at t = 0."""
    if t == 0:
        return mean(losses, base)
    if t > 0:
        return kl_penalty(losses, base, lam=1 / REAL(t))
    value, weights = kl_penalty(-np.asarray(losses, REAL), base, lam=-1 / REAL(t))
    return Answer(-value, weights)


def spectral(losses: ArrayLike, base: ArrayLike | None = None, *, cumulative: Function) -> Answer:
    """Mass Phi(F_i) - Phi(F_{i-1}) on the i-th smallest atom, Phi the integral of a non-decreasing spectrum."""

    def ratio(x: Array, mass: Array, scale: np.longdouble) -> Array:
        edges = np.minimum(np.append(REAL(0), np.cumsum(mass)), ONE)
        edges[-1] = ONE
        return np.diff(cumulative(edges)) / mass - 1

    return _solve(losses, base, ratio)


def step_spectrum(weights: ArrayLike) -> Function:
    """Phi of the spectrum that is constant on each n-th of [0, 1]: Phi(i/n) = w_1 + ... + w_i, linear between."""
    w = np.asarray(weights, REAL)
    knots = np.append(REAL(0), np.cumsum(w / w.sum()))
    grid = np.arange(w.size + 1, dtype=REAL) / w.size

    def cumulative(u: Array) -> Array:
        j = np.clip((u * w.size).astype(int), 0, w.size - 1)
        return knots[j] + (u - grid[j]) * w.size * (knots[j + 1] - knots[j])

    return cumulative
