"""NumPy twins of the methods for compositions, as their papers print them, on the core's own draws.

A level here has a dense Jacobian of all its outputs, those that pass through included. Draws of level i (from 0) at a step are those
of (seed, 256 + 2 i + turn, step); steps count from 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leeward import _core

Vector = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass
class Level:
    """``value(u, index)`` and ``jacobian(u, index)``: means over the samples in index."""

    value: Callable[[Vector, Index], Vector]
    jacobian: Callable[[Vector, Index], Vector]
    size: int = 1
    positive: tuple[int, int] = (0, 0)
    floor: float = 0.0


@dataclass
class Counts:
    values: int = 0
    jacobians: int = 0
    products: int = 0
    samples: int = 0
    guards: int = 0


def power(first: float, exponent: float = 0.0, period: float = 1.0) -> Callable[[int], float]:
    """t -> first (1 + t/period)^-exponent."""
    return lambda t: first * (1.0 + t / period) ** -exponent


@dataclass
class Settings:
    """``size(t)`` scales the step of step t; ``betas[i](t)`` is the weight of level i at step t + 1, before it is clipped to 1."""

    batch: int = 1
    first: int = 1
    seed: int = 0
    size: Callable[[int], float] = lambda t: 1.0
    betas: list[Callable[[int], float]] = field(default_factory=list)
    guard: float = 0.1


class Nested:
    """Base: draws, guards, plain starts, and the product of Jacobians."""

    def __init__(self, levels: list[Level], settings: Settings) -> None:
        self.levels, self.s, self.t, self.counts = levels, settings, 0, Counts()
        self.w = self.d = np.zeros(0)
        self.u: list[Vector] = []
        self.V: list[Vector] = []

    def beta(self, i: int) -> float:
        betas = self.s.betas
        return min(1.0, betas[min(i, len(betas) - 1)](self.t - 1))

    def draw(self, i: int, batch: int, turn: int = 0) -> Index:
        n = self.levels[i].size
        if n == 1:
            return np.zeros(1, dtype=np.int64)
        self.counts.samples += min(batch, n)
        if batch >= n:
            return np.arange(n)
        return np.asarray(_core.draws.below(self.s.seed, 256 + 2 * i + turn, self.t, n, batch))

    def f(self, i: int, u: Vector, index: Index) -> Vector:
        self.counts.values += len(index)
        return self.levels[i].value(u, index)

    def J(self, i: int, u: Vector, index: Index) -> Vector:
        self.counts.jacobians += len(index)
        return self.levels[i].jacobian(u, index)

    def guarded(self, i: int, u: Vector, before: Vector | None) -> Vector:
        """u as the input of level i: what must be positive is at least the floor, and a share of what it was."""
        if i == len(self.levels):
            return u
        level, out = self.levels[i], u.copy()
        for j in range(*level.positive):
            least = level.floor if before is None else max(level.floor, self.s.guard * before[j])
            if out[j] < least:
                out[j] = least
                self.counts.guards += 1
        return out

    def start(self, w: Vector, batch: int) -> Vector:
        self.w, self.u, self.V = w.copy(), [self.guarded(0, w, None)], []
        for i in range(len(self.levels)):
            index = self.draw(i, batch)
            value, jacobian = self.f(i, self.u[i], index), self.J(i, self.u[i], index)
            self.u.append(self.guarded(i + 1, value, None))
            self.V.append(jacobian)
        self.d = chain(self.V)
        return self.d

    def direction(self, w: Vector) -> tuple[Vector, float]:
        """The direction of the next step and the factor of its step size."""
        v = self.start(w, self.s.first) if self.t == 0 else self.advance(w)
        scale = self.scale(v)
        self.t += 1
        return v, scale

    def scale(self, v: Vector) -> float:
        return self.s.size(self.t)

    def advance(self, w: Vector) -> Vector:
        raise NotImplementedError


def chain(jacobians: list[Vector]) -> Vector:
    """J_1^T ... J_K^T, from the outside in."""
    v = np.ones(1)
    for J in reversed(jacobians):
        v = J.T @ v
    return v


def spectral(V: Vector, radius: float) -> Vector:
    """Singular values above the radius put there."""
    U, s, Wt = np.linalg.svd(V, full_matrices=False)
    return V if s[0] <= radius else (U * np.minimum(s, radius)) @ Wt


def frobenius(V: Vector, radius: float) -> Vector:
    norm = np.linalg.norm(V)
    return V if norm <= radius else V * (radius / norm)


class SMVR(Nested):
    """u and V by nested STORM. ``project(i, V)`` comes last."""

    rule = "tracked"

    def __init__(
        self, levels: list[Level], s: Settings, project: Callable[[int, Vector], Vector] | None = None
    ) -> None:
        super().__init__(levels, s)
        self.project = project if project is not None else lambda i, V: V

    def start(self, w: Vector, batch: int) -> Vector:
        super().start(w, batch)
        self.V = [self.project(i, V) for i, V in enumerate(self.V)]
        self.d = chain(self.V)
        return self.d

    def advance(self, w: Vector) -> Vector:
        old, u, fresh, stale = self.u, [self.guarded(0, w, None)], [], []
        for i in range(len(self.levels)):
            index, b = self.draw(i, self.s.batch), self.beta(i)
            value = self.f(i, u[i], index) + (1 - b) * (old[i + 1] - self.f(i, old[i], index))
            fresh.append(self.J(i, u[i], index))
            if self.rule != "plain":
                stale.append(self.J(i, old[i], index))
            if self.rule == "tracked":
                self.V[i] = self.project(i, fresh[i] + (1 - b) * (self.V[i] - stale[i]))
            u.append(self.guarded(i + 1, value, old[i + 1]))
        self.u = u
        if self.rule == "product":
            self.d = chain(fresh) + (1 - self.beta(0)) * (self.d - chain(stale))
        else:
            self.d = chain(self.V if self.rule == "tracked" else fresh)
        return self.d


class SCSC(SMVR):
    rule = "plain"


class PMVR(SMVR):
    rule = "product"


class PMVRAverage(SMVR):
    """Values by differences, the direction by a moving average of products at the new estimates."""

    rule = "plain"

    def advance(self, w: Vector) -> Vector:
        before = self.d
        g, b = super().advance(w), self.beta(0)
        self.d = (1 - b) * before + b * g
        return self.d


class NestedSPIDER(SMVR):
    """Differences without forgetting between restarts every ``period`` steps; steps no longer than ``reach``."""

    def __init__(self, levels: list[Level], s: Settings, period: int, reach: float = math.inf) -> None:
        super().__init__(levels, s)
        self.period, self.reach = period, reach

    def beta(self, i: int) -> float:
        return 0.0

    def advance(self, w: Vector) -> Vector:
        return self.start(w, self.s.first) if self.t % self.period == 0 else super().advance(w)

    def scale(self, v: Vector) -> float:
        return min(1.0, self.reach / float(np.linalg.norm(v)))


class SCGD(Nested):
    def advance(self, w: Vector) -> Vector:
        old, self.u, self.V = self.u, [self.guarded(0, w, None)], []
        for i in range(len(self.levels)):
            index, b = self.draw(i, self.s.batch), self.beta(i)
            value = (1 - b) * old[i + 1] + b * self.f(i, self.u[i], index)
            self.V.append(self.J(i, self.u[i], index))
            self.u.append(self.guarded(i + 1, value, old[i + 1]))
        return chain(self.V)


class ATSCGD(Nested):
    """Values at extrapolated points on draws of their own, Jacobians at the new estimates."""

    def advance(self, w: Vector) -> Vector:
        old, self.u, self.V, K = self.u, [self.guarded(0, w, None)], [], len(self.levels)
        for i in range(K - 1):
            b = self.beta(i)
            z = self.guarded(i, (1 - 1 / b) * old[i] + (1 / b) * self.u[i], old[i])
            value = (1 - b) * old[i + 1] + b * self.f(i, z, self.draw(i, self.s.batch, 1))
            self.u.append(self.guarded(i + 1, value, old[i + 1]))
        self.u.append(old[K])
        for i in range(K):
            self.V.append(self.J(i, self.u[i], self.draw(i, self.s.batch)))
        return chain(self.V)


class NASA(Nested):
    """Two levels: the outer one at the last estimate of the inner one; the direction averaged like the values."""

    linear = False

    def advance(self, w: Vector) -> Vector:
        old, u, self.V = self.u, [self.guarded(0, w, None)], []
        for i in range(len(self.levels)):
            index, b = self.draw(i, self.s.batch), self.beta(i)
            at = old[i] if self.linear or i > 0 else u[i]
            value = (1 - b) * old[i + 1] + b * self.f(i, at, index)
            self.V.append(self.J(i, at, index))
            if self.linear:
                value = value + self.V[i] @ (u[i] - old[i])
            u.append(self.guarded(i + 1, value, old[i + 1]))
        self.u, b = u, self.beta(0)
        self.d = (1 - b) * self.d + b * chain(self.V)
        return self.d


class NLASG(NASA):
    linear = True


class Relaxed:
    """w <- w + share (prox(w - step g) - w)."""

    def __init__(self, share: float, prox: Callable[[Vector, Vector], Vector] = lambda v, steps: v) -> None:
        self.share, self.prox = share, prox

    def __call__(self, w: Vector, g: Vector, step: float, t: int) -> Vector:
        return w + self.share * (self.prox(w - step * g, step * np.ones_like(w)) - w)


def run(method: Nested, update: Any, w: Vector, step: float, steps: int, l2: float = 0.0) -> list[Vector]:
    """All iterates, the start first."""
    iterates = [w.copy()]
    for t in range(steps):
        v, scale = method.direction(w)
        w = update(w, v + l2 * w, step * scale, t)
        iterates.append(w.copy())
    return iterates


def smooth_levels(sizes: list[int], samples: int, seed: int = 0) -> list[Level]:
    """Levels ``mean_s sin(A_s u + b_s)`` with these lengths of u_0, ..., u_K; ``samples`` 1 for levels without noise."""
    rng = np.random.default_rng(seed)

    def one(d: int, m: int) -> Level:
        A, b = rng.normal(size=(samples, m, d)) / math.sqrt(d), rng.normal(size=(samples, m))

        def value(u: Vector, index: Index) -> Vector:
            return np.asarray(np.sin(A[index] @ u + b[index]).mean(axis=0))

        def jacobian(u: Vector, index: Index) -> Vector:
            return np.asarray((np.cos(A[index] @ u + b[index])[:, :, None] * A[index]).mean(axis=0))

        return Level(value, jacobian, samples)

    return [one(d, m) for d, m in itertools.pairwise(sizes)]


def mean_deviation_levels(R: Vector, lam: float) -> list[Level]:
    """The three levels of the portfolio with their identity blocks written out."""
    T, d = R.shape
    eye, floor = np.eye(d), 1e-16 * float(np.mean(R**2))

    def deviation(u: Vector, index: Index) -> Vector:
        return np.asarray(R[index] @ u[1:] - u[0])

    def mean_jacobian(u: Vector, index: Index) -> Vector:
        return np.vstack([R[index].mean(axis=0), eye])

    def square_jacobian(u: Vector, index: Index) -> Vector:
        e = deviation(u, index)
        return np.vstack([np.r_[-2 * e.mean(), 2 * (e[:, None] * R[index]).mean(axis=0)], np.r_[1.0, np.zeros(d)]])

    return [
        Level(lambda u, index: np.r_[(R[index] @ u).mean(), u], mean_jacobian, T),
        Level(lambda u, index: np.array([(deviation(u, index) ** 2).mean(), u[0]]), square_jacobian, T),
        Level(
            lambda u, index: np.array([-u[1] + lam * math.sqrt(u[0])]),
            lambda u, index: np.array([[lam / (2 * math.sqrt(u[0])), -1.0]]),
            positive=(0, 1),
            floor=floor,
        ),
    ]


def shortfall(u: Vector, h: float) -> tuple[Vector, Vector]:
    """g(u) and g'(u): ``max(u, 0)^2`` for h = 0, else ``max(u, 0)`` made smooth on [-h, h]."""
    if h == 0.0:
        above = np.maximum(u, 0.0)
        return above**2, 2.0 * above
    return np.where(np.abs(u) < h, (u + h) ** 2 / (4 * h), np.maximum(u, 0.0)), np.clip((u + h) / (2 * h), 0.0, 1.0)


def semideviation_levels(R: Vector, lam: float, h: float) -> list[Level]:
    """Mean and upper semideviation of order 2 (h = 0) or 1; the first and last level are those of the mean deviation."""
    d = R.shape[1]
    first, _, last = mean_deviation_levels(R, lam)

    def value(u: Vector, index: Index) -> Vector:
        return np.array([shortfall(u[0] - R[index] @ u[1:], h)[0].mean(), u[0]])

    def jacobian(u: Vector, index: Index) -> Vector:
        slope = shortfall(u[0] - R[index] @ u[1:], h)[1]
        return np.vstack([np.r_[slope.mean(), -(slope[:, None] * R[index]).mean(axis=0)], np.r_[1.0, np.zeros(d)]])

    if h > 0.0:
        last = Level(lambda u, index: np.array([lam * u[0] - u[1]]), lambda u, index: np.array([[lam, -1.0]]))
    return [first, Level(value, jacobian, len(R)), last]


def mean_cvar_levels(R: Vector, lam: float, alpha: float, h: float) -> list[Level]:
    """Of (x, v), with eta = unit v and unit the root mean square of the returns."""
    d, unit = R.shape[1], float(np.sqrt(np.mean(R**2)))

    def excess(w: Vector, index: Index) -> tuple[Vector, Vector]:
        return shortfall(-R[index] @ w[:-1] - unit * w[-1], h)

    def value(w: Vector, index: Index) -> Vector:
        return np.array([excess(w, index)[0].mean(), (R[index] @ w[:-1]).mean(), w[-1]])

    def jacobian(w: Vector, index: Index) -> Vector:
        r, slope = R[index], excess(w, index)[1]
        return np.vstack(
            [
                np.r_[-(slope[:, None] * r).mean(axis=0), -unit * slope.mean()],
                np.r_[r.mean(axis=0), 0.0],
                np.r_[np.zeros(d), 1.0],
            ]
        )

    outer = np.array([[lam / alpha, -1.0, lam * unit]])
    return [Level(value, jacobian, len(R)), Level(lambda u, index: outer @ u, lambda u, index: outer)]
