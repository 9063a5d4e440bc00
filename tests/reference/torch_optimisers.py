"""NumPy twins of the optimisers for networks, on batches given step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

import leeward as lw

Vector = NDArray[np.float64]
Gradient = Callable[[Vector, NDArray[np.int64]], Vector]


class Move:
    """``torch.optim.SGD``'s step along a direction."""

    def __init__(self, momentum: float = 0.0, decay: float = 0.0, max_norm: float | None = None) -> None:
        self.momentum, self.decay, self.max_norm = momentum, decay, max_norm
        self.buffer: Vector | float = 0.0

    def __call__(self, w: Vector, v: Vector, lr: float) -> Vector:
        if self.max_norm is not None:
            v = v * min(1.0, self.max_norm / (np.linalg.norm(v) + 1e-6))
        self.buffer = self.momentum * self.buffer + v + self.decay * w
        return w - lr * self.buffer


def scsg(
    gradient: Gradient, w: Vector, batches: Sequence[NDArray[np.int64]], lr: float, m: int, seed: int, move: Move
) -> list[Vector]:
    """The iterate after each call of ``step``."""
    path, t, stage = [], 0, 0
    while True:
        stage, snapshot = stage + 1, w
        if t + m > len(batches):
            return path + [w] * (len(batches) - t)
        g = sum(gradient(w, S) for S in batches[t : t + m]) / m
        path, t = path + [w] * m, t + m
        u = lw.Draws([stage], seed).uniform()[0]
        for _ in range(math.floor(math.log(u) / math.log(m / (m + 1)))):
            if t == len(batches):
                return path
            w = move(w, gradient(w, batches[t]) - gradient(snapshot, batches[t]) + g, lr)
            path.append(w)
            t += 1


def storm(
    gradient: Gradient,
    w: Vector,
    batches: Sequence[NDArray[np.int64]],
    lrs: Sequence[float],
    beta: Callable[[int], float],
    move: Move,
) -> list[Vector]:
    """``beta(t)`` at steps t = 1, 2, ...; step 0 takes the gradient as it is."""
    path, d, before = [], np.zeros_like(w), w
    for t, S in enumerate(batches):
        d = gradient(w, S) if t == 0 else gradient(w, S) + (1 - beta(t)) * (d - gradient(before, S))
        before, w = w, move(w, d, lrs[t])
        path.append(w)
    return path
