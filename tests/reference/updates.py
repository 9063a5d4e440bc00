"""NumPy twins of the updates: ``update(w, g, step, t)`` gives the next iterate. ``metric`` is the diagonal M of the moves.

With s = sqrt(M) the adaptive ones work on the scaled gradient ``s g``, that is in variables w/s.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Prox = Callable[[Vector, Vector], Vector]  # (v, step times metric, per coordinate) -> proximal point


def free(v: Vector, steps: Vector) -> Vector:
    """No domain."""
    return v


class Plain:
    """w <- prox(w - step M g)."""

    momentum = 0.0

    def __init__(self, prox: Prox = free, metric: float | Vector = 1.0) -> None:
        self.prox, self.metric = prox, metric

    def __call__(self, w: Vector, g: Vector, step: float, t: int) -> Vector:
        rate = step * self.metric * np.ones_like(w)
        return self.prox(w - rate * self.direction(g), rate / (1.0 - self.momentum))

    def direction(self, g: Vector) -> Vector:
        return g


class Momentum(Plain):
    """v <- momentum v + g along v, or along g + momentum v."""

    def __init__(self, momentum: float, nesterov: bool, prox: Prox = free, metric: float | Vector = 1.0) -> None:
        super().__init__(prox, metric)
        self.momentum, self.nesterov, self.v = momentum, nesterov, np.zeros(1)

    def direction(self, g: Vector) -> Vector:
        self.v = self.momentum * self.v + g
        return g + self.momentum * self.v if self.nesterov else self.v


class Normalized(Plain):
    """w <- prox(w - step M v/|v|), v the exponential mean of g and |v| its length in the metric."""

    def __init__(self, momentum: float, prox: Prox = free, metric: float | Vector = 1.0) -> None:
        super().__init__(prox, metric)
        self.memory, self.v = momentum, np.zeros(1)

    def __call__(self, w: Vector, g: Vector, step: float, t: int) -> Vector:
        self.v = self.memory * self.v + (1 - self.memory) * g
        M = self.metric * np.ones_like(w)
        length = np.sqrt(np.sum(M * self.v**2))
        return w if length == 0 else self.prox(w - step * M * self.v / length, step * M / length)


class Adaptive(Plain):
    """w <- prox(w - step s m/(sqrt h + delta)) in the metric step s^2/(sqrt h + delta)."""

    def __init__(self, prox: Prox = free, metric: float | Vector = 1.0, delta: float = 1e-8) -> None:
        super().__init__(prox, metric)
        self.delta, self.m, self.h, self.top = delta, np.zeros(1), np.zeros(1), np.zeros(1)

    def __call__(self, w: Vector, g: Vector, step: float, t: int) -> Vector:
        s = np.sqrt(self.metric) * np.ones_like(w)
        m, h = self.moments(s * g, t)
        rate = step * self.rate(h)
        return self.prox(w - rate * s * m, rate * s**2)

    def rate(self, h: Vector) -> Vector:
        return np.asarray(1.0 / (np.sqrt(h) + self.delta))

    def moments(self, g: Vector, t: int) -> tuple[Vector, Vector]:
        raise NotImplementedError


class AdaGrad(Adaptive):
    """h the sum of squares, or their mean."""

    def __init__(self, mean: bool = False, **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.mean = mean

    def moments(self, g: Vector, t: int) -> tuple[Vector, Vector]:
        self.h = self.h + g * g
        return g, self.h / (t + 1) if self.mean else self.h


class Adam(Adaptive):
    """m and h exponential means of g and g^2, both divided by one minus their start's weight."""

    def __init__(self, momentum: float = 0.9, memory: float = 0.999, **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.momentum, self.memory = momentum, memory

    def moments(self, g: Vector, t: int) -> tuple[Vector, Vector]:
        self.m = self.momentum * self.m + (1 - self.momentum) * g
        self.h = self.memory * self.h + (1 - self.memory) * g * g
        return self.m / (1 - self.momentum ** (t + 1)), self.corrected(t)

    def corrected(self, t: int) -> Vector:
        return np.asarray(self.h / (1 - self.memory ** (t + 1)))


class AMSGrad(Adam):
    """The largest h so far."""

    def corrected(self, t: int) -> Vector:
        self.top = np.maximum(self.top, super().corrected(t))
        return self.top


class AdaBound(Adam):
    """1/(sqrt h + delta) kept in [lower, upper]."""

    def __init__(self, lower: float, upper: float, **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.lower, self.upper = lower, upper

    def rate(self, h: Vector) -> Vector:
        return np.clip(super().rate(h), self.lower, self.upper)
