"""NumPy twins of the finite-sum methods, as Algorithm 1 of SCSG and the printed iterations say, on the core's own draws.

Draws are values of (seed, purpose, stage) or (seed, purpose, step); stages count from 1, steps and inner steps from 0. A
finite sum here is ``f(w) = sum_i p_i f_i(w)`` over samples with ``p_i > 0``, given as ``gradient(w, index, weights)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leeward import _core

Vector = NDArray[np.float64]
Index = NDArray[np.int64]
Gradient = Callable[[Vector, Index, Vector], Vector]  # sum_k weights_k grad f_{index_k}(w)
BATCH, ORDER, LENGTH, OUTPUT, SUBSET = 0, 1, 3, 5, 7  # purposes of streams


@dataclass
class FiniteSum:
    """The sum, its weights p (None: equal), and the exact l2 term on the first coordinates."""

    gradient: Gradient
    size: int
    base: Vector | None = None
    l2: float = 0.0
    penalised: int = 0

    def __post_init__(self) -> None:
        self.people = np.arange(self.size) if self.base is None else np.flatnonzero(self.base > 0)
        self.p = np.full(self.size, 1.0 / self.size) if self.base is None else self.base / self.base.sum()

    def ridge(self, w: Vector) -> Vector:
        return np.where(np.arange(len(w)) < self.penalised, self.l2 * w, 0.0)

    def batch(self, w: Vector, order: Index) -> Vector:
        """Mean over positions drawn uniformly, with weights that make it unbiased."""
        chosen = self.people[order]
        return self.gradient(w, chosen, self.p[chosen] * len(self.people) / len(order))


@dataclass
class Rule:
    """Sizes and lengths of stages."""

    batch: int | str = 1  # a size, "growing" or "doubling" (from `first`)
    inner: int | float = 1  # b, or the fraction of B
    length: str | int = "geometric"  # "geometric", "mean", "slices", "loopless", or a number of steps
    chance: float = 0.0
    first: int = 1
    exponent: float = 0.0

    def sizes(self, j: int, n: int) -> tuple[int, int]:
        if self.batch == "growing":
            B = math.ceil(j * math.sqrt(j))
        elif self.batch == "doubling":
            B = self.first * 2 ** min(j - 1, 50)
        else:
            B = int(self.batch)
        B = min(B, n)
        b = math.ceil(self.inner * B) if isinstance(self.inner, float) else self.inner
        return B, max(1, min(b, B))

    def steps(self, j: int, n: int, seed: int) -> int:
        B, b = self.sizes(j, n)
        if self.length == "geometric":  # P(N = k) = gamma^k (1 - gamma), gamma = B/(B + b)
            return int(_core.draws.geometric(seed, LENGTH, j, B / b, 1)[0])
        if self.length == "mean":
            return max(1, math.floor(B / b + 0.5))
        if self.length == "slices":
            return -(-B // b)
        if self.length == "loopless":
            return 1 + int(_core.draws.geometric(seed, LENGTH, j, 1.0 / self.chance - 1.0, 1)[0])
        return int(self.length)


@dataclass
class Path:
    """Iterates of all steps, and what each stage was."""

    iterates: list[Vector] = field(default_factory=list)
    ends: list[tuple[float, Vector]] = field(default_factory=list)  # (share, point) of the output rule
    stages: list[tuple[int, int, int]] = field(default_factory=list)  # (B, b, N)
    gradients: int = 0  # component gradients evaluated, and samples drawn for them
    samples: int = 0

    def count(self, points: int, samples: int) -> None:
        self.gradients += points * samples
        self.samples += samples


def stage_batch(f: FiniteSum, rule: Rule, j: int, seed: int) -> Index:
    """I_j: B_j positions without replacement."""
    B, _ = rule.sizes(j, len(f.people))
    if len(f.people) == B and rule.length != "slices":
        return np.arange(B)
    return np.asarray(_core.draws.permutation(seed, ORDER, j, len(f.people), B))


def inner_gradients(f: FiniteSum, rule: Rule, j: int, k: int, t: int, seed: int, points: list[Vector]) -> list[Vector]:
    """Mean gradients over the k-th inner mini-batch of stage j, at each point."""
    n = len(f.people)
    b = rule.sizes(j, n)[1]
    if rule.length == "slices":
        order = stage_batch(f, rule, j, seed)[k * b : (k + 1) * b]
    elif f.base is not None:
        drawn = f.people[_core.draws.weighted(seed, BATCH, j, f.p[f.people], b, k * b)]
        return [f.gradient(x, drawn, np.full(b, 1.0 / b)) for x in points]
    elif b == 1:
        order = np.asarray(_core.draws.below(seed, BATCH, j, n, 1, k))
    else:
        order = np.asarray(_core.draws.permutation(seed, SUBSET, t, n, b))
    return [f.batch(x, order) for x in points]


def slices_of(f: FiniteSum, rule: Rule, j: int, seed: int, w: Vector) -> tuple[list[Vector], Vector]:
    """Gradients at w of the slices of stage j's batch, and their mean over the batch."""
    B, b = rule.sizes(j, len(f.people))
    kept = [inner_gradients(f, rule, j, k, 0, seed, [w])[0] for k in range(-(-B // b))]
    shares = [min(b, B - k * b) / B for k in range(len(kept))]
    return kept, np.asarray(sum(share * g for share, g in zip(shares, kept, strict=True)))


def snapshot(w: Vector, f: FiniteSum, rule: Rule, update: Any, step: float, stages: int, seed: int) -> Path:
    """Algorithm 1 of SCSG; SVRG is B = n. Slices are evaluated at the reference point once, with the batch."""
    path, t, n, empty = Path(), 0, len(f.people), 0.0
    for j in range(1, stages + 1):
        (B, b), N = rule.sizes(j, n), rule.steps(j, n, seed)
        reference, walk = w, rule.length == "slices"
        kept, g = slices_of(f, rule, j, seed, w) if walk else ([], f.batch(w, stage_batch(f, rule, j, seed)))
        path.count(1, B)
        scale = (b / B) ** rule.exponent
        for k in range(N):
            if walk:
                new, old = inner_gradients(f, rule, j, k, t, seed, [w])[0], kept[k]
                path.count(1, min(b, B - k * b))
            else:
                new, old = inner_gradients(f, rule, j, k, t, seed, [w, reference])
                path.count(2, b)
            w = update(w, new - old + g + f.ridge(w), step * scale, t)
            path.iterates.append(w)
            t += 1
        path.stages.append((B, b, N))
        share = step * scale * B / b
        if N == 0:  # stages without a step are one candidate together, taken with the next step
            empty += share
            continue
        path.ends += [(empty, reference)] * (empty > 0) + [(share, w)]
        empty = 0.0
    return path


def spider(w: Vector, f: FiniteSum, rule: Rule, update: Any, step: float, stages: int, seed: int) -> Path:
    """SARAH/SPIDER: v_0 = grad f_B(w), v_k = grad f_b(w_k) - grad f_b(w_{k-1}) + v_{k-1}."""
    path, t, n = Path(), 0, len(f.people)
    for j in range(1, stages + 1):
        (B, b), N = rule.sizes(j, n), rule.steps(j, n, seed)
        v, before = f.batch(w, stage_batch(f, rule, j, seed)), w
        path.count(1, B)
        for k in range(N):
            if k > 0:
                new, old = inner_gradients(f, rule, j, k - 1, t, seed, [w, before])
                v = new - old + v
                path.count(2, b)
            before, w = w, update(w, v + f.ridge(w), step, t)
            path.iterates.append(w)
            path.ends.append((step, w))
            t += 1
        path.stages.append((B, b, N))
    return path


def storm(
    w: Vector,
    f: FiniteSum,
    batch: int,
    first: int,
    beta: Callable[[int], float],
    update: Any,
    step: float,
    steps: int,
    seed: int,
) -> Path:
    """STORM: d_t = g(w_t; xi_t) + (1 - beta_t)(d_{t-1} - g(w_{t-1}; xi_t)); the first batch may be larger."""
    path = Path()
    d, before = np.zeros_like(w), w
    for t in range(steps):
        if t == 0:
            d = f.batch(w, stage_batch(f, Rule(first), 1, seed))
            path.count(1, min(first, len(f.people)))
        else:
            new, old = inner_gradients(f, Rule(len(f.people), batch), 1, t - 1, t, seed, [w, before])
            d = new + (1.0 - beta(t)) * (d - old)
            path.count(2, batch)
        before, w = w, update(w, d + f.ridge(w), step, t)
        path.iterates.append(w)
        path.ends.append((step, w))
    return path


def chosen_output(ends: list[tuple[float, Vector]], start: Vector, seed: int) -> Vector:
    """A point with probability proportional to its share, by a reservoir: one uniform an offer, offers from 0."""
    pick, total = start, 0.0
    for k, (share, w) in enumerate(ends):
        total += share
        if _core.draws.uniform(seed, OUTPUT, k, 1)[0] * total < share:
            pick = w
    return pick


def mean_output(ends: list[tuple[float, Vector]]) -> Vector:
    """The mean of that choice."""
    shares = np.array([share for share, _ in ends])
    return np.asarray(shares @ np.array([w for _, w in ends]) / shares.sum())
