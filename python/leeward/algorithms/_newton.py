"""Newton's method along the path of smoothing strengths: for problems whose losses (nearly) tie at the optimum.

Where many losses tie, the smoothed problem with strength lam is curved like 1/lam and looks like its quadratic model only where
losses move by about lam: a change of variables, however good at one strength, is of no use at the next. The optimum is
nearly ``w* + lam v`` there. Each step takes the whole curvature H afresh; a cut of the strength to ``lam'`` moves along the path,

    dw = -H^{-1} (g + (1 - lam'/lam) b),      b = sum_i c_i (l_i - mean_c l) s_i x~_i = -lam dg/dlam,

with c the curvature of the risk; steps of one strength are damped as for a self-concordant function in units of lam.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from leeward._precondition import Scaling

    Vector = NDArray[np.float64]
    Value = Callable[[Vector], tuple[float, Vector]]

__all__ = ["newton_step", "path_step"]

_TRIES = 8  # step lengths of one direction
_ENOUGH = 1e-4  # part of the first-order decrease that is asked for
_NOISE = 1e-12  # relative rounding of the objective


def newton_step(
    f: Value, w: Vector, value: float, gradient: Vector, scaling: Scaling, strength: float
) -> tuple[Vector, float, Vector, float] | None:
    """One damped step ``w - t P P^T g``; point, value, gradient, and the decrease over that of the model, None when no t is good.

    The first t is ``1 / (1 + sqrt(g.P P^T g / strength))``, and 1 where that root is below a quarter; each further t comes from the
    parabola through the values. Where the objective is rounding only, a shorter scaled gradient is good too.
    """
    pulled = scaling.pull(gradient)
    square = float(pulled @ pulled)
    if not (math.isfinite(square) and square > 0.0):
        return None
    step = scaling.forward(pulled)
    far = math.sqrt(square / strength)
    t = 1.0 / (1.0 + far) if far > 0.25 else 1.0
    for _ in range(_TRIES):
        trial = w - t * step
        now, slope = f(trial) if np.isfinite(trial).all() else (math.inf, gradient)
        if math.isfinite(now):
            promised = (t - 0.5 * t * t) * square
            if now <= value - _ENOUGH * t * square:
                return trial, now, slope, (value - now) / promised
            after = scaling.pull(slope)
            if now <= value + _NOISE * abs(value) and float(after @ after) < 0.81 * square:
                return trial, now, slope, 1.0
            rise = now - value + t * square
            t *= min(max(0.5 * t * square / rise, 0.1), 0.5) if rise > 0.0 else 0.5
        else:
            t *= 0.1
    return None


def path_step(w: Vector, gradient: Vector, pull: Vector, scaling: Scaling, cut: float) -> Vector:
    """The point predicted for ``lam' = cut lam``: w + dw of the formula above, ``pull`` its b."""
    return w - scaling.forward(scaling.pull(gradient + (1.0 - cut) * pull))
