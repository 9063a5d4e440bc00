"""NumPy twin of points around samples and of their costs; the inner problems are risks of rows (reference.risks)."""

from __future__ import annotations

import numpy as np

from . import draws
from .philox import words

NOISE = 4  # Purpose::noise


def points(
    X, y, m, seed, sets=None, *, kind="gaussian", scale=1.0, factor=None, rows=None, bounds=None, label_noise=0.0
):
    """(points (k m, d), labels (k m,), costs' displacements' origin (k m, d)) of sets 0..n-1, or of the given ones."""
    n, d = X.shape
    sets = range(n) if sets is None else sets
    even = {"ball": (d + 3) // 2 * 2, "empirical": 2}.get(kind, (d + 1) // 2 * 2)
    width = even + (2 if label_noise > 0 else 0)
    made, labels, origin = [], [], []
    for s in sets:
        a = X[s % n].astype(np.float64)
        for j in range(m):
            w = words(seed, NOISE, s, width, j * width)
            z = draws.normal(w)
            if kind == "gaussian":
                move = scale * z[:d] if factor is None else factor @ z[:d]
            elif kind == "laplace":
                t = draws.uniform(w[:d]) + 2.0**-53 - 0.5
                move = -scale * np.sign(t) * np.log(1 - 2 * abs(t))
            elif kind == "ball":
                move = scale * z[:d] / np.linalg.norm(z[: d + 2])
            else:
                k = draws.below(seed, NOISE, s, len(rows), j * width + 1)[-1]
                move = rows[k]
            x = a + move
            made.append(x if bounds is None else np.clip(x, *bounds))
            labels.append(y[s % n] + (label_noise * z[even] if label_noise > 0 else 0.0))
            origin.append(a)
    return np.array(made), np.array(labels), np.array(origin)


def costs(x, origin, cost="sqeuclidean", scale=1.0, labels=None, true=None, label_scale=0.0):
    """c(zeta, xi) (k,)."""
    move = x - origin
    size = {
        "sqeuclidean": lambda: (move**2).sum(1),
        "euclidean": lambda: np.sqrt((move**2).sum(1)),
        "l1": lambda: abs(move).sum(1),
        "linf": lambda: abs(move).max(1),
    }[cost]()
    return scale * size + (0.0 if labels is None else label_scale * (labels - true) ** 2)


def level_of_draws(u, levels):
    """L with P(L >= j) = 2^(-1.5 (j - 1)) from u in [0, 1), at most `levels`, and 1 / P(L)."""
    r = 2.0**-1.5
    level = 1
    while level < levels and u < r**level:
        level += 1
    return level, 1.0 / (r ** (level - 1) * (1.0 - r if level < levels else 1.0))


def levels_of_draws(rows, gradients, m0, rarities, solve):
    """Mean over samples of G_m0 + (G_k - (G_half + G_other)/2)/P and the same of Psi.

    rows: shifted losses (k,) of each sample; gradients: (k, dim) of its points; solve: losses -> (value, weights).
    """
    value, direction = 0.0, np.zeros(gradients[0].shape[1])
    for l, g, rarity in zip(rows, gradients, rarities, strict=True):
        half = len(l) // 2
        for part, factor in (
            (slice(0, m0), 1.0),
            (slice(0, len(l)), rarity),
            (slice(0, half), -rarity / 2),
            (slice(half, len(l)), -rarity / 2),
        ):
            psi, q = solve(l[part])
            value += factor * psi / len(rows)
            direction += factor * (q @ g[part]) / len(rows)
    return value, direction
