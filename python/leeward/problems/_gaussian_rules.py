"""Nodes and weights for standard normal variables of few dimensions, for the softmax objective (docs/maths/gaussian_smoothing.md).

Up to three dimensions: the trapezoid rule, a lattice of one spacing with the density as weights. It converges faster than any power of
the spacing where the integrand is smooth, treats all directions alike, and reaches as far as it is asked to. In four Gauss's rule in
each; from five on a rule of degree 5, points of the sphere on four radii. All weights are positive.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Rule = tuple[Array, Array]

__all__ = ["MOST_NODES", "lattice", "product", "reach_of", "spacing", "spherical"]

MOST_NODES = 4096  # of a lattice around 0
_DROP = 34.0  # nodes whose weight is below e^-34 of the largest are left out
_LARGEST = 24  # dimensions of the spherical rule
_RADII = 4


def reach_of(q: int) -> float:
    """Radius that holds the nodes of a lattice around 0; three dimensions have too many for the last digits."""
    return math.sqrt(2.0 * (_DROP if q < 3 else 25.0))


def _volume(q: int, radius: float) -> float:
    return float(math.pi ** (q / 2) / math.gamma(q / 2 + 1) * radius**q)


def spacing(q: int, widest: float, wanted: float) -> float:
    """``widest`` or a part of it, in steps of sqrt(2), that is at most ``wanted`` if no more than MOST_NODES nodes follow."""
    least = (_volume(q, reach_of(q)) / MOST_NODES) ** (1.0 / q)
    h = widest
    while h > wanted and h / math.sqrt(2.0) >= least:
        h /= math.sqrt(2.0)
    return h


def lattice(q: int, h: float, radius: float) -> Array:
    """Points (K, q) of the lattice of spacing h within the radius."""
    line = h * np.arange(-math.floor(radius / h), math.floor(radius / h) + 1)
    points = np.stack(np.meshgrid(*([line] * q), indexing="ij"), axis=-1).reshape(-1, q)
    return np.ascontiguousarray(points[np.sum(points * points, axis=1) <= radius * radius])


def product(q: int, n: int) -> Rule:
    """Gauss's rule of n nodes in each of q dimensions, without the corners that weigh nothing: nodes (K, q) and weights (K,)."""
    line, share = np.polynomial.hermite_e.hermegauss(n)
    nodes = np.stack(np.meshgrid(*([line] * q), indexing="ij"), axis=-1).reshape(-1, q)
    weights = np.prod(np.stack(np.meshgrid(*([share / share.sum()] * q), indexing="ij"), axis=-1), axis=-1).ravel()
    kept = weights > 1e-12
    return nodes[kept], weights[kept] / weights[kept].sum()


def spherical(q: int, copies: int | None = None, radii: int = _RADII) -> Rule:
    """A rule of degree 5 for N(0, I_q) with positive weights: nodes (K, q) and weights (K,).

    On the unit sphere ``+-e_i`` have the weight ``1/(q (q + 2))`` and signs ``(+-1, ..., +-1)/sqrt(q)`` share ``q/(q + 2)``: all signs that
    agree with an orthogonal array of strength 5. Radii are the nodes of Gauss's rule for the law of ``|u|^2``. Each radius of each
    copy has the points in another orientation; by default there are as many copies as come to about 600 nodes.
    """
    if not 4 <= q <= _LARGEST:
        raise ValueError(f"the spherical rule takes 4 to {_LARGEST} dimensions, got {q}")
    signs = _signs(q)
    sphere = np.concatenate([np.eye(q), -np.eye(q), signs / math.sqrt(q)])
    share = np.concatenate([np.full(2 * q, 1.0 / (q * (q + 2.0))), np.full(len(signs), q / (len(signs) * (q + 2.0)))])
    from scipy.special import roots_genlaguerre

    halves, chance = roots_genlaguerre(radii, 0.5 * q - 1.0)
    count = max(1, round(600 / (_RADII * len(sphere)))) if copies is None else copies
    rng = np.random.default_rng(5 if copies is None else 6)
    turned = [
        math.sqrt(2.0 * h) * (sphere @ np.linalg.qr(rng.normal(size=(q, q)))[0]) for _ in range(count) for h in halves
    ]
    weights = np.tile(np.outer(chance / chance.sum(), share).ravel() / count, count)
    return np.concatenate(turned), weights


def _signs(q: int) -> Array:
    """Signs (N, q) of which any five columns hold all combinations equally often: words ``(1, x_j)`` over the field of two elements,
    no four of the ``x_j`` with the sum 0, found in order."""
    bits = 1
    while True:
        chosen: list[int] = []
        sums: set[int] = set()  # of two
        for x in range(1 << bits):
            new = {x ^ y for y in chosen}
            if not (new & sums):
                chosen, sums = [*chosen, x], sums | new
            if len(chosen) == q:
                break
        if len(chosen) == q:
            break
        bits += 1
    words = [(1 << bits) | x for x in chosen]
    parity = [[bin(row & word).count("1") & 1 for word in words] for row in range(2 << bits)]
    return 1.0 - 2.0 * np.array(parity, dtype=np.float64)
