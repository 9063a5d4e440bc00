r"""The optimum of ``F(x) = -m.x + lam sqrt(x.S x)`` over ``l <= x <= u, sum x = b``, with a certificate.

Newton's method follows the minimisers of ``F_k(x) = min_{s > sqrt(x.S x)} -m.x + lam s - k log(s^2 - x.S x) - k sum log(x - l) - k
sum log(u - x)`` as k falls. Their gradient of the first part is ``g = -m + lam S x / s``, and ``|S^{1/2} x / s| < 1``, so by the
Cauchy-Schwarz inequality ``F(x') >= g.x'`` for every x': the least value of ``g.x'`` over the feasible set, which sorting finds, is
a lower bound of the optimum, also where the deviation is 0 and F has a kink. Weights at their bounds are then put there and Newton's
method ends on the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Feasible", "Optimum", "optimum"]

Array = NDArray[np.float64]
_TARGET = 1e-11  # of the certified gap over the objective: where the barrier ends
_WEAKEST = 1e-15  # barrier, in units of the returns' scale
_SHRINK = 0.2
_NEWTON = 60  # steps for one strength of the barrier
_CENTRED = 1e-8  # squared Newton decrement over the barrier's strength


@dataclass(frozen=True)
class Feasible:
    """``lower <= x <= upper`` with ``sum x = budget``, not empty."""

    lower: Array
    upper: Array
    budget: float

    def least(self, g: Array) -> Array:
        """A point where ``g.x`` is least: the budget goes to the smallest entries of g first."""
        x = self.lower.copy()
        left = self.budget - float(x.sum())
        for j in np.argsort(g, kind="stable"):
            if left <= 0.0:
                break
            move = min(left, float(self.upper[j] - x[j]))
            x[j] += move
            left -= move
        return x

    def inside(self) -> Array:
        """A point as far inside all bounds as the budget allows."""
        room = self.upper - self.lower
        total = float(room.sum())
        share = 0.0 if total == 0.0 else (self.budget - float(self.lower.sum())) / total
        return self.exact(self.lower + min(max(share, 0.0), 1.0) * room)

    def exact(self, x: Array) -> Array:
        """x within the bounds, and with the sum of the budget to rounding."""
        x = np.minimum(np.maximum(x, self.lower), self.upper)
        for _ in range(4):
            left = self.budget - math.fsum(x)
            if left == 0.0:
                break
            room = self.upper - x if left > 0 else x - self.lower
            inner = (
                np.minimum(self.upper - x, x - self.lower) > 0
            )  # weights at a bound stay there where others can move
            if room[inner].sum() > abs(left):
                room = np.where(inner, room, 0.0)
            if room.sum() == 0.0:
                break
            x = np.minimum(np.maximum(x + left * (room / room.sum()), self.lower), self.upper)
        return x


@dataclass(frozen=True)
class Optimum:
    """Weights, a lower bound of the optimum, and Newton steps."""

    x: Array
    bound: float
    steps: int


def optimum(mean: Array, covariance: Array, lam: float, feasible: Feasible) -> Optimum:
    """The weights, and a lower bound of the optimum.

    mean (d,), covariance (d, d) positive semidefinite, lam >= 0.
    """
    scale = math.sqrt(float(np.max(np.diag(covariance) + mean * mean)))
    start = feasible.inside()
    if scale == 0.0:
        return Optimum(start, 0.0, 0)
    m, S = mean / scale, covariance / scale**2
    if lam == 0.0:
        x = feasible.exact(feasible.least(-m))
        return Optimum(x, -scale * float(m @ feasible.least(-m)), 0)
    moving = (start > feasible.lower) & (start < feasible.upper)
    if np.count_nonzero(moving) < 2:  # one feasible point
        return Optimum(start, scale * _objective(m, S, lam, start, 0.0)[0], 0)
    path = _Path(m, S, lam, feasible, moving)
    x, bound = path.follow(start)
    x, bound = _ended(path, x, bound)
    return Optimum(x, scale * bound, path.steps)


def _objective(m: Array, S: Array, lam: float, x: Array, k: float) -> tuple[float, tuple[Array, float, float], Array]:
    """``F``, then ``S x``, s and the root that s holds, and the gradient with the barrier's s in the place of the deviation."""
    Sx = S @ x
    q = max(float(x @ Sx), 0.0)
    root = math.sqrt((k / lam) ** 2 + q)
    s = k / lam + root
    return -float(m @ x) + lam * math.sqrt(q), (Sx, s, root), -m + (lam * Sx / s if s > 0.0 else 0.0 * Sx)


class _Path:
    """The path of minimisers of the barrier problems; steps move the coordinates that are not fixed."""

    def __init__(self, m: Array, S: Array, lam: float, feasible: Feasible, moving: NDArray[np.bool_]) -> None:
        self.m, self.S, self.lam, self.feasible = m, S, lam, feasible
        self.free = np.flatnonzero(moving)
        self.steps = 0
        self.k = 0.0

    def bound(self, g: Array) -> float:
        """The lower bound of the optimum that a gradient with ``|S^{1/2} x / s| <= 1`` gives."""
        return float(g @ self.feasible.least(g))

    def follow(self, x: Array) -> tuple[Array, float]:
        m, S, lam = self.m, self.S, self.lam
        count = 2.0 * len(self.free) + 2.0
        k = max(lam * math.sqrt(max(float(x @ S @ x), 0.0)), abs(float(m @ x)), 1e-3) / count
        best, bound = x, -math.inf
        while True:
            self.k = k
            x = self._centre(x, k)
            value, _, g = _objective(m, S, lam, x, k)
            bound = max(bound, self.bound(g))
            if value - bound <= _objective(m, S, lam, best, 0.0)[0] - bound:
                best = x
            if k * count <= _WEAKEST or value - bound <= _TARGET * abs(value):
                return best, bound
            k *= _SHRINK

    def _barrier(self, x: Array, k: float) -> float:
        low, high = (x - self.feasible.lower)[self.free], (self.feasible.upper - x)[self.free]
        if low.min() <= 0.0 or high.min() <= 0.0:
            return math.inf
        _, (_, s, _), _ = _objective(self.m, self.S, self.lam, x, k)
        # s^2 - x.S x = 2 (k / lam) s at the best s
        smooth = -float(self.m @ x) + self.lam * s - k * math.log(2.0 * k / self.lam * s)
        return smooth - k * float(np.log(low).sum() + np.log(high).sum())

    def _centre(self, x: Array, k: float) -> Array:
        free, S, lam = self.free, self.S, self.lam
        now = self._barrier(x, k)
        for _ in range(_NEWTON):
            _, (Sx, s, root), g = _objective(self.m, S, lam, x, k)
            low, high = (x - self.feasible.lower)[free], (self.feasible.upper - x)[free]
            slope = g[free] - k / low + k / high
            along = Sx[free] / s
            H = lam * (S[np.ix_(free, free)] / s - np.outer(along, along) / root)
            H[np.diag_indices(len(free))] += k / low**2 + k / high**2
            move = _newton_step(H, slope)
            decrement = -float(slope @ move)
            self.steps += 1
            if not decrement > _CENTRED * k:
                break
            length, ahead = 1.0, x.copy()
            while length > 1e-10:
                ahead[free] = x[free] + length * move
                then = self._barrier(ahead, k)
                if then <= now - 0.1 * length * decrement:
                    break
                length *= 0.5
            else:
                break  # rounding: as near as it gets
            x, now = ahead.copy(), then
        return x


def _newton_step(H: Array, slope: Array) -> Array:
    """``-H^-1 (slope + nu 1)`` with sum 0, in variables that make the diagonal of H one."""
    d = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
    scaled = d[:, None] * H * d
    n = len(d)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n], system[:n, n], system[n, :n] = scaled, d, d
    right = np.append(-d * slope, 0.0)
    try:
        solved = np.linalg.solve(system, right)
        if not np.isfinite(solved).all():
            raise np.linalg.LinAlgError
    except np.linalg.LinAlgError:
        solved = np.linalg.lstsq(system, right, rcond=None)[0]
    move: Array = d * solved[:n]
    return move


def _ended(path: _Path, x: Array, bound: float) -> tuple[Array, float]:
    """Weights that the barrier keeps off their bounds are put there, and Newton's method ends on the others."""
    feasible, m, S, lam = path.feasible, path.m, path.S, path.lam
    low, high = x - feasible.lower, feasible.upper - x
    room = feasible.upper - feasible.lower
    barrier = math.sqrt(path.k)
    at_low, at_high = low < barrier * np.minimum(room, 1.0), high < barrier * np.minimum(room, 1.0)
    y = np.where(at_low, feasible.lower, np.where(at_high, feasible.upper, x))
    y = feasible.exact(y)
    best = feasible.exact(x)
    value = _objective(m, S, lam, best, 0.0)[0]
    free = np.flatnonzero(~(at_low | at_high))
    for _ in range(8):
        now, (Sx, s, _), g = _objective(m, S, lam, y, 0.0)
        if now <= value + 1e-15:  # a weight at its bound rather than beside it
            best, value = y, min(value, now)
        q = s * s
        if len(free) < 2 or q <= 1e-20:
            break
        bound = max(bound, path.bound(g))
        along = Sx[free] / s
        H = lam * (S[np.ix_(free, free)] - np.outer(along, along)) / s
        move = _reduced(H, g[free])
        ahead = y.copy()
        ahead[free] += move
        if (ahead < feasible.lower).any() or (ahead > feasible.upper).any() or not np.isfinite(ahead).all():
            break
        y = feasible.exact(ahead)
    return best, bound


def _reduced(H: Array, slope: Array) -> Array:
    """The shortest Newton step with sum 0, also where assets are alike and H has no inverse."""
    n = len(slope)
    centre = np.eye(n) - 1.0 / n
    move: Array = centre @ (np.linalg.pinv(centre @ H @ centre, rcond=1e-12, hermitian=True) @ (-centre @ slope))
    return move
