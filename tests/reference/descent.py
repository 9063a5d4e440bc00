"""Plain NumPy twins of the descent loops: ten lines each, the iteration as it is printed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Gradient = Callable[[Vector, int], Vector]  # (w, t) -> direction, l2 term included
Prox = Callable[[Vector, float], Vector]  # (v, step) -> proximal point


def free(v: Vector, step: float) -> Vector:
    """No domain."""
    return v


def sgd(
    w: Vector,
    gradient: Gradient,
    steps: int,
    step: Callable[[int], float],
    momentum: float = 0.0,
    nesterov: bool = False,
    prox: Prox = free,
) -> list[Vector]:
    """Iterates w_1, w_2, ... of projected SGD with heavy-ball or Nesterov momentum."""
    v, iterates = np.zeros_like(w), []
    for t in range(steps):
        g = gradient(w, t)
        v = momentum * v + g
        w = prox(w - step(t) * (g + momentum * v if nesterov else v), step(t) / (1.0 - momentum))
        iterates.append(w)
    return iterates


def acsa(w: Vector, gradient: Gradient, steps: int, step: Callable[[int], float], prox: Prox = free) -> list[Vector]:
    """Iterates y_1, y_2, ... of AC-SA with theta_t = 2/(t+2)."""
    y, z, iterates = w, w, []
    for t in range(steps):
        theta = 2.0 / (t + 2.0)
        x = (1.0 - theta) * y + theta * z
        z = prox(z - step(t) / theta * gradient(x, t), step(t) / theta)
        y = (1.0 - theta) * y + theta * z
        iterates.append(y)
    return iterates


def average(iterates: list[Vector], kind: str) -> Vector:
    """The uniform mean, or the polynomial-decay average with parameter 3 by its recursion."""
    if kind == "uniform":
        return np.mean(iterates, axis=0)
    mean = np.zeros_like(iterates[0])
    for t, w in enumerate(iterates, start=1):
        c = 4.0 / (t + 3.0)
        mean = (1.0 - c) * mean + c * w
    return mean


def mlmc(
    losses: Vector, gradients: Vector, risk: Callable[[Vector], tuple[float, Vector]], n0: int, level: int, levels: int
) -> tuple[float, Vector]:
    """Value and direction of one multi-level draw: losses (k,) and gradients (k, d) of its ``2^level n0`` samples."""

    def part(first: int, last: int) -> tuple[float, Vector]:
        value, q = risk(losses[first:last])
        return value, q @ gradients[first:last]

    k = n0 * 2**level
    chance = 2.0 ** -(level if level < levels else levels - 1)
    (low, f), (whole, g) = part(0, n0), part(0, k)
    (first, g1), (second, g2) = part(0, k // 2), part(k // 2, k)
    return low + (whole - (first + second) / 2) / chance, f + (g - (g1 + g2) / 2) / chance
