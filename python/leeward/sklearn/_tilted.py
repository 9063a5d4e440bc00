r"""Exact draws from the worst case of a linear score under Gaussian noise, KL and squared distance.

The worst case around a sample a with label y has the density of ``N(0, S) exp(l(w.(a + z) + b; y)/T)`` in z, with S the noise
tilted by the cost and ``T = lam entropy``. It changes the law of z along one direction only: with ``t^2 = w.S w``,

    z = z0 + (S w/t) (s - w.z0/t),    z0 ~ N(0, S),    s ~ exp(l(m0 + t s)/T - s^2/2),

m0 the margin (or residual) at the sample. For losses made of parabolas and lines the law of s is a mixture of Gaussians cut to
intervals. Elsewhere chords bound the convex loss from above, and a draw under the chord is kept with probability
``exp((l - chord)/T)``, which leaves the exact law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_ndtr, ndtri_exp

import leeward as lw

__all__ = ["gaussian_points", "has_pieces", "tilted_margins"]

Array = NDArray[np.float64]
_KNOWN = ("squared", "huber", "absolute", "quantile", "logistic", "hinge", "squared_hinge")
_OF_CLASSES = (lw.losses.Logistic, lw.losses.Hinge, lw.losses.SquaredHinge)
_SLACK = 0.1  # of the exponent: how far chords may lie above the loss
_PIECES = 2000  # chords at most
_ENTRIES = 1 << 20  # of a block of points by pieces
_FLAT = 1e-2  # precision of s below which a parabola is replaced by chords


def has_pieces(loss: Any) -> bool:
    """Whether margins under this loss can be drawn."""
    return loss.name in _KNOWN and loss.smoothing == 0.0


@dataclass(frozen=True)
class _Pieces:
    """An upper bound ``a + b m + c m^2/2`` of the loss between knots; `exact` where it is the loss."""

    knots: Array
    a: Array
    b: Array
    c: Array
    exact: bool


def tilted_margins(loss: Any, m0: Array, t: float, T: float, rng: np.random.Generator) -> Array:
    """Draws (n,) of s with the density ``exp(l(m0 + t s)/T - s^2/2)``.

    Losses of classes are functions of the margin m, others of the residual. ValueError where the expectation is infinite.
    """
    if t == 0.0:
        return rng.standard_normal(len(m0))
    pieces = _pieces(loss, t * t / T, T)
    s = np.empty(len(m0))
    block = max(1, _ENTRIES // len(pieces.a))
    for first in range(0, len(m0), block):
        left = np.arange(first, min(first + block, len(m0)))
        while len(left):
            drawn = _drawn(pieces, m0[left], t, T, rng)
            if pieces.exact:
                s[left] = drawn
                break
            m = m0[left] + t * drawn
            excess = (_value(loss, m) - _bound(pieces, m)) / T
            kept = np.log(rng.random(len(left))) <= excess
            s[left[kept]] = drawn[kept]
            left = left[~kept]
    return s


def _value(loss: Any, m: Array) -> Array:
    if loss.name == "logistic":
        return np.asarray(-log_expit(m))
    size = np.abs(m)
    delta = loss.parameter
    return np.where(size <= delta, 0.5 * m * m, delta * (size - 0.5 * delta))


def _bound(pieces: _Pieces, m: Array) -> Array:
    j = np.searchsorted(pieces.knots, m)
    bound: Array = pieces.a[j] + m * (pieces.b[j] + 0.5 * pieces.c[j] * m)
    return bound


def _pieces(loss: Any, bend: float, T: float) -> _Pieces:
    """The loss in pieces; `bend` is ``t^2/T``, what a second derivative of 1 takes from the precision of s."""
    name, inf = loss.name, math.inf
    if name in ("squared", "squared_hinge") and bend >= 1.0:
        raise ValueError(
            "the worst case of a quadratic loss under KL is infinite at these coefficients: take a larger lam or entropy, or less noise"
        )
    if name == "squared":
        made = [(inf, 0.0, 0.0, 1.0)]
    elif name == "squared_hinge":
        made = [(1.0, 0.5, -1.0, 1.0), (inf, 0.0, 0.0, 0.0)]
    elif name == "hinge":
        made = [(1.0, 1.0, -1.0, 0.0), (inf, 0.0, 0.0, 0.0)]
    elif name in ("absolute", "quantile"):
        below, above = (1.0, 1.0) if name == "absolute" else (loss.parameter, 1.0 - loss.parameter)
        made = [(0.0, 0.0, -below, 0.0), (inf, 0.0, above, 0.0)]
    elif name == "huber" and 1.0 - bend > _FLAT:
        delta = loss.parameter
        half = -0.5 * delta * delta
        made = [(-delta, half, -delta, 0.0), (delta, 0.0, 0.0, 1.0), (inf, half, delta, 0.0)]
    else:
        return _chords(loss, T)
    knots, a, b, c = (np.array(column) for column in zip(*made, strict=True))
    return _Pieces(knots[:-1], a, b, c, True)


def _chords(loss: Any, T: float) -> _Pieces:
    """Chords of the logistic and of Huber's loss over the part that bends, and lines of the outer slopes beyond."""
    if loss.name == "logistic":
        reach, bend, steep = 14.0 + max(0.0, -math.log(T)), 0.25, (-1.0, 0.0)
    else:
        reach, bend, steep = loss.parameter, 1.0, (-loss.parameter, loss.parameter)
    count = math.ceil(2.0 * reach / math.sqrt(8.0 * _SLACK * T / bend))
    knots = np.linspace(-reach, reach, min(max(count, 8), _PIECES) + 1)
    value = _value(loss, knots)
    b = np.concatenate([[steep[0]], np.diff(value) / np.diff(knots), [steep[1]]])
    at = np.concatenate([knots[:1], knots])  # a knot of each piece
    a = np.concatenate([value[:1], value]) - b * at
    return _Pieces(knots, a, b, np.zeros(len(b)), False)


def _drawn(pieces: _Pieces, m0: Array, t: float, T: float, rng: np.random.Generator) -> Array:
    """A draw under the bound for each m0: first the piece, then s within it."""
    m = m0[:, None]
    root = np.sqrt(1.0 - pieces.c * (t * t / T))  # of the precision of s
    centre = t * (pieces.b + pieces.c * m) / (T * root)
    ends = np.concatenate([[-math.inf], pieces.knots, [math.inf]])
    low, high = (root * ((end - m) / t) - centre for end in (ends[:-1], ends[1:]))
    top = (pieces.a + m * (pieces.b + 0.5 * pieces.c * m)) / T + 0.5 * centre * centre - np.log(root)
    flip = low > 0  # so that the intervals begin in the lower tail, where the logarithm of Phi is precise
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        lower, upper = log_ndtr(low), log_ndtr(high)
        inside = upper + np.log1p(-np.exp(lower - upper))
        mass = np.where(high > low, top + inside, -math.inf)
        mass = np.where(np.isnan(mass), -math.inf, mass)
        j = np.argmax(mass + rng.gumbel(size=mass.shape), axis=1)
        k = np.arange(len(j))
        chosen = np.logaddexp(lower[k, j], np.log(rng.random(len(j))) + inside[k, j])
    z = np.clip(ndtri_exp(np.minimum(chosen, 0.0)), low[k, j], high[k, j])
    z = np.where(flip[k, j], -z, z)
    return np.asarray((z + centre[k, j]) / root[j])


def gaussian_points(
    X: Array, scores: Array, y: Array, coef: Array, loss: Any, covariance: Array, T: float, rng: np.random.Generator
) -> Array:
    """A point (k, d) of the worst case around each row of X.

    `covariance` (d,) or (d, d) is that of the tilted noise; y are the numbers that the loss takes, -1 and 1 for losses of classes.
    """
    signs = isinstance(loss, _OF_CLASSES)
    moved = covariance * coef if covariance.ndim == 1 else covariance @ coef
    t = math.sqrt(max(float(coef @ moved), 0.0))
    z = rng.standard_normal(X.shape)
    z = z * np.sqrt(covariance) if covariance.ndim == 1 else z @ np.linalg.cholesky(covariance).T
    if t > 0.0:
        s = tilted_margins(loss, scores * y if signs else scores - y, t, T, rng)
        along = s * y if signs else s
        z += np.outer(along - z @ coef / t, moved / t)
    return X + z
