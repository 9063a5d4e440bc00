"""Tilts on two levels in plain NumPy: value, gradient and the three levels of the composition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from reference.compositions import Level

Vector = NDArray[np.float64]


def tilt(losses: Vector, p: Vector, t: float) -> float:
    """``(1/t) log sum p exp(t l)`` for weights p that sum to 1."""
    if t == 0:
        return float(p @ losses)
    return float(logsumexp(t * losses, b=p)) / t


def hierarchical(losses: Vector, p: Vector, groups: NDArray[np.int64], t: float, tau: float) -> tuple[float, Vector]:
    """The value, and its derivatives by the losses; p sums to 1."""
    labels = np.unique(groups[p > 0])
    mass = np.array([p[groups == g].sum() for g in labels])
    inner = np.array([tilt(losses[groups == g], p[groups == g] / p[groups == g].sum(), tau) for g in labels])
    value = tilt(inner, mass, t)
    slopes = np.zeros(len(losses))
    with np.errstate(divide="ignore"):
        for g, m, r in zip(labels, mass, inner, strict=True):
            at = groups == g
            slopes[at] = np.exp(np.log(m) + t * (r - value) + np.log(p[at] / m) + tau * (losses[at] - r))
    return value, slopes


def levels(
    losses: Callable[[Vector, Any], Vector],
    gradients: Callable[[Vector, Any], Vector],
    groups: NDArray[np.int64],
    shift: Vector,
    t: float,
    tau: float,
) -> list[Level]:
    """The composition with Jacobians written out, for equal weights and groups 0..G-1; ``gradients(w, index)`` is (m, d)."""
    n, count = len(groups), len(shift)
    size = np.bincount(groups).astype(float)

    def terms(w: Vector, index: Any) -> Vector:
        g = groups[index]
        out = np.zeros((len(index), count))
        out[np.arange(len(index)), g] = n / size[g] * np.exp(tau * (losses(w, index) - shift[g]))
        return out

    def jacobian(w: Vector, index: Any) -> Vector:
        return np.asarray(tau * terms(w, index).T @ gradients(w, index) / len(index))

    def outer(y: Vector) -> Vector:
        z = np.log(size / n) + t * (y + shift)
        return np.asarray(np.exp(z - logsumexp(z)))

    return [
        Level(lambda w, index: terms(w, index).mean(axis=0), jacobian, n),
        Level(
            lambda u, index: np.log(u) / tau, lambda u, index: np.diag(1 / (tau * u)), positive=(0, count), floor=1e-300
        ),
        Level(
            lambda y, index: np.array([logsumexp(t * (y + shift), b=size / n) / t]),
            lambda y, index: outer(y)[None, :],
        ),
    ]
