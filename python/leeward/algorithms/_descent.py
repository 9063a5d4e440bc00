"""scipy's L-BFGS-B in changed variables: segments, line-search failures, and polishing below the noise of the objective.

A segment minimises ``f(w + P v)`` over v. SciPy's first step has length ``min(1, 1/|g|) |g|``; v is measured in units of the first
gradient, so that the first step is ``-P P^T g``, a Newton step when P comes from the curvature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._sums import norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from leeward._precondition import Scaling

    Vector = NDArray[np.float64]
    Function = Callable[[Vector], tuple[float, Vector, bool]]

__all__ = ["Point", "Segment", "descend", "polish"]


class _EndSegment(Exception):
    """Leaves SciPy's loop."""


@dataclass(frozen=True)
class Point:
    """A point with its value and gradient."""

    w: Vector
    value: float
    gradient: Vector


@dataclass(frozen=True)
class Segment:
    """What a segment found: its best point, whether nothing falls any more, and whether its first step went too far."""

    point: Point
    ended: bool
    overshot: bool


def descend(f: Function, start: Point, scaling: Scaling, memory: int, limit: int) -> Segment:
    """L-BFGS-B from ``start`` in the variables v of ``w = start.w + P v``.

    Parameters
    ----------
    f : callable
        ``f(w) -> (value, gradient, enough)``; ``enough`` ends the segment. It is not called at ``start``.
    start : Point
    scaling : Scaling
        P.
    memory : int
        Pairs that L-BFGS keeps.
    limit : int
        Iterations at most.

    Returns
    -------
    Segment
    """
    best = start
    pulled = scaling.pull(start.gradient)
    unit = norm(pulled)
    if unit == 0.0 or not math.isfinite(unit):
        return Segment(best, True, False)
    overshot = False
    for _ in range(12):
        best, ended, rose, finite = _segment(f, best, scaling, unit, memory, limit)
        overshot = overshot or rose
        if finite:
            return Segment(best, ended, overshot)
        unit *= 0.1  # a trial step left the range of doubles: shorter first steps from the best point
    return Segment(best, True, True)


def _segment(
    f: Function, start: Point, scaling: Scaling, unit: float, memory: int, limit: int
) -> tuple[Point, bool, bool, bool]:
    best = start
    finite, rose = True, False
    calls = 0

    def objective(v: Vector) -> tuple[float, Vector]:
        nonlocal best, finite, rose, calls
        calls += 1
        if calls == 1:
            return start.value, unit * scaling.pull(start.gradient)
        w = start.w + scaling.forward(unit * v)
        if not np.isfinite(w).all():
            finite = False
            raise _EndSegment
        value, gradient, enough = f(w)
        finite = math.isfinite(value) and bool(np.isfinite(gradient).all())
        rose = rose or (calls == 2 and not value <= start.value)
        if finite and value <= best.value:
            best = Point(w, value, gradient)
        if enough or not finite:
            raise _EndSegment
        return value, unit * scaling.pull(gradient)

    from scipy import optimize  # when first needed: it is slow to import

    options: Any = {"maxcor": memory, "maxiter": limit, "maxfun": 4 * limit + 20, "ftol": 0.0, "gtol": 0.0, "maxls": 30}
    try:
        optimize.minimize(objective, np.zeros(len(start.w)), jac=True, method="L-BFGS-B", options=options)
    except _EndSegment:
        return best, False, rose, finite
    return best, True, rose, True


def polish(f: Function, start: Point, scaling: Scaling, limit: int) -> Point:
    """Steps ``-P P^T g`` while they shorten ``P^T g``: progress where differences of the objective drown in rounding."""
    best, size = start, _length(scaling.pull(start.gradient))
    for _ in range(limit):
        w = best.w - scaling.forward(scaling.pull(best.gradient))
        if not np.isfinite(w).all():
            break
        value, gradient, enough = f(w)
        if not math.isfinite(value):
            break
        now = _length(scaling.pull(gradient))
        if not now < 0.9 * size:
            break
        best, size = Point(w, value, gradient), now
        if enough:
            break
    return best


def _length(v: Vector) -> float:
    return norm(v)
