"""The worst-case weights by PyTorch operations alone: a fixed number of passes of sums, for any device and any process group.

Every family but the spectral ones has its weights as a function of one number, found as the root of a monotone function of sums
over the samples: each pass looks at some thresholds at once and keeps the interval with the change of sign. Nothing is read back
by the host. Losses are scaled to [-1, 0] first: ``y = (l - max) / (max - min)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from leeward.torch._families import Family
from leeward.torch._spectra import spectral_weights
from leeward.torch._sums import Sums

__all__ = ["Solved", "solve"]

BITS = 58  # of the interval in which a root is looked for


class Solved(NamedTuple):
    """Value ``(m,)``, weights ``(m, n)``, eta ``(m,)`` and multiplier ``(m,)``, in the working precision."""

    value: Any
    weights: Any
    eta: Any
    multiplier: Any


class Frame(NamedTuple):
    """Losses in [-1, 0], base weights that sum to 1, and where the maximum is: all ``(m, n)`` but ``top`` ``(m, 1)``."""

    y: Any
    p: Any
    best: Any  # whether a sample is at the maximum
    top: Any  # the base weight of the maximum
    sums: Sums


def solve(losses: Any, base: Any | None, family: Family, sums: Sums) -> Solved:
    """Return the worst-case weights of losses ``(m, n)`` under base weights of the same shape (None: uniform).

    Rows that hold NaN or infinity, or no positive base weight, answer NaN.
    """
    real = torch.float32 if losses.device.type == "mps" else torch.float64
    l = losses.to(real)
    p = torch.ones_like(l) if base is None else base.to(real).expand_as(l)
    counted = p > 0
    fine = torch.isfinite(l) & torch.isfinite(p) & (p >= 0)
    mass, faults = sums.add(p.unsqueeze(-1), (~fine).to(real).unsqueeze(-1))
    l = torch.where(fine, l, 0.0) * family.sign
    p = torch.where(fine, p, 0.0) / mass
    high, low = sums.top(
        torch.where(counted, l, -torch.inf).unsqueeze(-1), torch.where(counted, -l, -torch.inf).unsqueeze(-1)
    )
    spread = high + low
    flat = ~(spread > 0)
    spread = torch.where(flat, 1.0, spread)
    y = torch.where(counted, (l - high) / spread, -1.0)
    y = torch.where(flat & counted, 0.0, y)
    best = counted & (l >= high)
    (top,) = sums.add((p * best).unsqueeze(-1))
    frame = Frame(y, p, best, top, sums)

    lam = None if family.lam is None else family.lam / spread
    q, eta, multiplier, cost = _weights(frame, family, lam)
    q = torch.where(flat, p, q)
    (total,) = sums.add(q.unsqueeze(-1))
    q = q / total
    (mean, paid) = sums.add((q * y).unsqueeze(-1), cost(q).unsqueeze(-1))
    value = mean if lam is None else mean - lam * paid
    broken = (faults > 0) | ~(mass > 0) | ~torch.isfinite(spread)

    def back(t: Any) -> Any:
        return torch.where(broken, torch.nan, t)

    value = back(family.sign * (high + spread * value))
    eta = value if eta is None else back(family.sign * (high + spread * torch.where(flat, 0.0, eta)))
    multiplier = back(spread * multiplier)
    return Solved(value.squeeze(-1), back(q), eta.squeeze(-1), multiplier.squeeze(-1))


def _weights(frame: Frame, family: Family, lam: Any) -> tuple[Any, Any, Any, Callable[[Any], Any]]:
    """Return q, eta, multiplier in scaled units, and the terms of the divergence that a penalty charges.

    Eta is None where no single number says who is in: there the answer gives the value for it, as the core does.
    """
    y, p, best, top, _ = frame
    zero = torch.zeros_like(top)

    def free(q: Any) -> Any:
        return torch.zeros_like(q)

    def entropy(q: Any) -> Any:
        r = torch.where(p > 0, q / p, 1.0)
        return p * (torch.xlogy(r, r) - r + 1)

    at_top = p * best / top
    if family.kind == "mean":
        return p, None, zero, free
    if family.kind == "worst":
        return at_top, zero, zero, free
    if family.kind == "cvar":
        q, eta = _tail(frame, family.alpha)
        return q, eta, zero, free
    if family.kind == "move":
        rho = min(family.rho or 0.0, 1.0)
        q, near = _tail(frame, 1 - rho) if rho < 1 else (at_top, zero)
        near = torch.where(top >= 1 - rho, 0.0, near)
        return torch.where(top >= 1 - rho, at_top, (1 - rho) * q + rho * at_top), near / 2, -near, free
    if family.kind == "kl":
        return *_kl(frame, family.rho, lam), entropy
    if family.kind == "power":
        return *_power(frame, family.order, family.rho, lam), _power_terms(p, family.order)
    if family.kind == "capped":
        return *_capped(frame, family.alpha, lam), lam, entropy
    if family.kind == "logistic":
        return *_logistic(frame, family.alpha, lam), lam, _logistic_terms(p, family.alpha)
    if family.kind == "entropic_move":
        return _entropic_move(frame, family.rho or 0.0, lam), None, lam, entropy
    if family.kind == "spectral":
        return spectral_weights(y, p, *family.spectrum), None, zero, free
    raise NotImplementedError(f"{family.kind} has no solution by sums")


def _root(sums: Sums, low: Any, high: Any, above: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return the interval ``(m, 1)`` x 2 where ``above`` ((m, 1, k) -> (m, k)) turns from true to false."""
    k = sums.points
    grid = torch.arange(1, k + 1, device=low.device, dtype=low.dtype) / (k + 1)
    for _ in range(math.ceil(BITS / math.log2(k + 1))):
        inside = low + (high - low) * grid
        edges = torch.cat([low, inside, high], dim=-1)
        place = above(inside.unsqueeze(1)).sum(dim=-1, keepdim=True)
        low, high = edges.gather(-1, place), edges.gather(-1, place + 1)
    return low, high


def _tail(frame: Frame, alpha: float) -> tuple[Any, Any]:
    """CVaR: p / alpha above the quantile; the samples on it share what is left in proportion to p."""
    y, p, _, top, sums = frame
    y3, p3 = y.unsqueeze(-1), p.unsqueeze(-1)

    def above(t: Any) -> Any:
        return sums.add(p3 * (y3 > t))[0] > alpha

    low, high = _root(sums, torch.full_like(top, -1.25), torch.zeros_like(top), above)
    over, edge = y > high, (y > low) & (y <= high)
    held, share, near = _three(sums, p * over, p * edge, edge, y)
    left = (1 - held / alpha).clamp(min=0.0)
    q = p * over / alpha + p * edge * left / torch.where(share > 0, share, 1.0)
    return q, near


def _three(sums: Sums, first: Any, second: Any, edge: Any, y: Any) -> tuple[Any, Any, Any]:
    held, share = sums.add(first.unsqueeze(-1), second.unsqueeze(-1))
    (near,) = sums.top(torch.where(edge, y, -torch.inf).unsqueeze(-1))
    return held, share, near


def _kl(frame: Frame, rho: float | None, lam: Any) -> tuple[Any, Any, Any]:
    """``q = p exp(y / nu) / Z``; a radius makes nu at least the root of KL(q|p) = rho."""
    y, p, best, top, sums = frame
    nu = lam
    full = torch.zeros_like(top, dtype=torch.bool)
    if rho is not None:
        y3, p3 = y.unsqueeze(-1), p.unsqueeze(-1)

        def above(t: Any) -> Any:  # is KL above rho at nu = exp(t)?
            s = y3 * torch.exp(-t)
            e = p3 * torch.exp(s)
            z, w = sums.add(e, e * s)
            return w / z - torch.log(z) > rho

        low, high = _root(sums, torch.full_like(top, -40.0), torch.full_like(top, 40.0), above)
        found = torch.exp(0.5 * (low + high))
        if lam is None:
            full = -torch.log(top) <= rho
            nu = torch.where(full, 0.0, found)
        else:
            found = torch.where(-torch.log(top) <= rho, 0.0, found)
            nu = torch.maximum(lam, found)
    safe = torch.where(nu > 0, nu, 1.0)
    e = p * torch.exp(y / safe)
    (z,) = sums.add(e.unsqueeze(-1))
    q = torch.where(full, p * best / top, e / z)
    price = nu - lam if rho is not None and lam is not None else nu
    return q, nu * torch.log(z), price


def _power(frame: Frame, k: float, rho: float | None, lam: Any) -> tuple[Any, Any, Any]:
    """``q`` proportional to ``p (y - u)_+^a``, a = 1/(k - 1); a radius asks for ``E r^k = 1 + k (k - 1) rho``."""
    y, p, best, top, sums = frame
    a = 1 / (k - 1)
    y3, p3 = y.unsqueeze(-1), p.unsqueeze(-1)
    us = []
    full = torch.zeros_like(top, dtype=torch.bool)
    if lam is not None:

        def mass(u: Any) -> Any:
            return sums.add(p3 * ((y3 - u).clamp(min=0.0) * ((k - 1) / lam.unsqueeze(-1))) ** a)[0] > 1

        reach = lam / (k - 1)
        low = torch.maximum(-1.25 - reach, -1.25 * reach * top ** (1 - k))
        low, high = _root(sums, low, torch.zeros_like(top), mass)
        us.append(0.5 * (low + high))
    if rho is not None:
        bound = 1 + k * (k - 1) * rho
        full = top ** (1 - k) <= bound

        def above(t: Any) -> Any:  # is the divergence above rho at u = -exp(t)?
            x = (y3 + torch.exp(t)).clamp(min=0.0)
            xa = x**a
            first, second = sums.add(p3 * xa, p3 * xa * x)
            return second / first**k > bound

        low, high = _root(sums, torch.full_like(top, -40.0), torch.full_like(top, 40.0), above)
        us.append(-torch.exp(0.5 * (low + high)))
        if (
            lam is not None
        ):  # the radius binds where the penalty alone would leave the ball: where its u is the lower one
            full = full & (us[0] > 0)
            us[1] = torch.where(top ** (1 - k) <= bound, us[0], torch.minimum(us[0], us[1]))
    u = us[-1]
    x = (y - u).clamp(min=0.0)
    binds = torch.ones_like(full) if lam is None else u < us[0]
    for _ in range(2 if k == 2 else 0):  # on the active set u has a closed form, without the rounding of the search
        u = _chi_square_u(frame, y > u, u, rho, lam, binds)
        x = (y - u).clamp(min=0.0)
    xa = x**a
    (first,) = sums.add((p * xa).unsqueeze(-1))
    q = torch.where(full, p * best / top, p * xa / first)
    nu = torch.where(full, 0.0, (k - 1) * first ** (k - 1))
    eta = torch.where(full, 0.0, u + nu / (k - 1))
    price = (nu - lam).clamp(min=0.0) if rho is not None and lam is not None else nu
    return q, eta, price


def _chi_square_u(frame: Frame, active: Any, u: Any, rho: float | None, lam: Any, binds: Any) -> Any:
    """Return u on a given active set: ``m - lam / P`` for the penalty, ``m - sqrt(v / ((1 + 2 rho) P - 1))`` for the radius."""
    y, p, _, _, sums = frame
    held = p * active
    mass, first = sums.add(held.unsqueeze(-1), (held * y).unsqueeze(-1))
    mean = first / mass
    (second,) = sums.add((held * (y - mean) ** 2).unsqueeze(-1))
    by_penalty = None if lam is None else mean - lam / mass
    if rho is None:
        return by_penalty
    room = (1 + 2 * rho) * mass - 1
    by_radius = mean - torch.sqrt(second / mass / torch.where(room > 0, room, 1.0))
    by_radius = torch.where(room > 0, by_radius, u)
    return by_radius if by_penalty is None else torch.where(binds, by_radius, by_penalty)


def _power_terms(p: Any, k: float) -> Callable[[Any], Any]:
    def terms(q: Any) -> Any:
        r = torch.where(p > 0, q / p, 1.0)
        if k == 2:
            return p * (r - 1) ** 2 / 2
        return p * (r**k - k * r + k - 1) / (k * (k - 1))

    return terms


def _capped(frame: Frame, alpha: float, lam: Any) -> tuple[Any, Any]:
    """KL-CVaR: ``q = p min(exp((y - eta) / lam), 1 / alpha)``."""
    y, p, _, top, sums = frame
    y3, p3 = y.unsqueeze(-1), p.unsqueeze(-1)
    limit = math.log(1 / alpha)

    def above(eta: Any) -> Any:
        return sums.add(p3 * torch.exp(((y3 - eta) / lam.unsqueeze(-1)).clamp(max=limit)))[0] > 1

    low, high = _root(sums, -1.25 - lam * limit, torch.zeros_like(top), above)
    eta = 0.5 * (low + high)
    over = (y - eta) / lam > limit
    held, rest = sums.add(
        (p * over).unsqueeze(-1), (p * ~over * torch.exp((y - eta) / lam).clamp(max=1 / alpha)).unsqueeze(-1)
    )
    left = 1 - held / alpha
    better = (left > 0) & (rest > 0)  # with the set known, eta in closed form: it moves by lam log(rest / left)
    eta = torch.where(better, eta + lam * torch.log(torch.where(better, rest / left, 1.0)), eta)
    return p * torch.exp(((y - eta) / lam).clamp(max=limit)), eta


def _logistic(frame: Frame, alpha: float, lam: Any) -> tuple[Any, Any]:
    """Smoothed CVaR: ``q = p e^s / (1 - alpha + alpha e^s)``, s = (y - eta) / lam, a logistic function of s."""
    y, p, _, top, sums = frame
    y3, p3 = y.unsqueeze(-1), p.unsqueeze(-1)
    odds = math.log(alpha / (1 - alpha))

    def above(eta: Any) -> Any:
        return sums.add(p3 * torch.sigmoid((y3 - eta) / lam.unsqueeze(-1) + odds))[0] > alpha

    low, high = _root(sums, torch.full_like(top, -1.25), torch.zeros_like(top), above)
    eta = 0.5 * (low + high)
    for _ in range(2):  # Newton's steps, for penalties far below the spread of the losses
        h = torch.sigmoid((y - eta) / lam + odds)
        first, slope = sums.add((p * h).unsqueeze(-1), (p * h * (1 - h)).unsqueeze(-1))
        step = lam * (first - alpha) / torch.where(slope > 0, slope, torch.inf)
        eta = eta + torch.maximum(torch.minimum(step, high - low), low - high)
    return p * torch.sigmoid((y - eta) / lam + odds) / alpha, eta


def _logistic_terms(p: Any, alpha: float) -> Callable[[Any], Any]:
    def terms(q: Any) -> Any:
        r = torch.where(p > 0, q / p, 1.0).clamp(max=1 / alpha)
        rest = (1 - alpha * r).clamp(min=0.0)
        return p * (torch.xlogy(r, r) + torch.xlogy(rest, rest / (1 - alpha)) / alpha)

    return terms


def _entropic_move(frame: Frame, rho: float, lam: Any) -> Any:
    """Relative entropy within total variation rho: ratios rise above 1 on top and fall below it at the bottom."""
    y, p, _, top, sums = frame
    e = p * torch.exp(y / lam)
    (z,) = sums.add(e.unsqueeze(-1))
    free, level = e / z, lam * torch.log(z)
    y3, p3, l3 = y.unsqueeze(-1), p.unsqueeze(-1), lam.unsqueeze(-1)

    def gained(eta: Any) -> Any:
        return sums.add(p3 * torch.expm1((y3 - eta) / l3).clamp(min=0.0))[0] > rho

    def lost(eta: Any) -> Any:
        return sums.add(p3 * (-torch.expm1((y3 - eta) / l3)).clamp(min=0.0))[0] <= rho

    (moved,) = sums.add((free - p).clamp(min=0.0).unsqueeze(-1))
    above = sum(_root(sums, level, torch.zeros_like(top), gained)) / 2
    below = sum(_root(sums, torch.full_like(top, -1.0), level, lost)) / 2
    up, down = p * (y > above), p * (y < below)  # with the sets known, the etas move by lam log(mass now / mass wanted)
    masses = [
        t.unsqueeze(-1) for t in (up, up * torch.exp((y - above) / lam), down, down * torch.exp((y - below) / lam))
    ]
    held, now, under, left = sums.add(*masses)
    above = above + lam * torch.log(torch.where(now > 0, now, 1.0) / torch.where(now > 0, held + rho, 1.0))
    good = (left > 0) & (under > rho)
    below = below + lam * torch.log(torch.where(good, left, 1.0) / torch.where(good, under - rho, 1.0))
    raised = torch.exp(((y - above) / lam).clamp(min=0.0))
    lowered = torch.exp(((y - below) / lam).clamp(max=0.0))
    return torch.where(moved <= rho, free, p * raised * lowered)
