r"""The ball form of Sinkhorn DRO on drawn points: the worst case within a budget of transport and divergence, at one point w,

    max_q { E sum_j q_ij l_ij :  E [sum_j q_ij c_ij + eps D_f(q_i)] <= radius }  =  min_lam  lam radius + E Psi_i(lam).

The slope in lam, ``radius - E [sum q c + eps D_f(q)]`` at the worst case of lam, rises with lam, and its root is found by Brent's
method. The gradient in w is that at the root (envelope theorem).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward.problems._inner import inner_risk, penalty_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Ball"]

_PRECISION = 1e-14  # relative, of lam
_RANGE = 1e9  # of lam about its first guess, either way


class Ball:
    """Settings: divergence f, eps, radius, and the base weights p of the samples (None: equal)."""

    def __init__(self, divergence: Any, entropy: float, radius: float, base: Array | None) -> None:
        self.divergence, self.entropy, self.radius, self.base = divergence, entropy, radius, base

    def least(self, costs: Array) -> float:
        """The smallest budget that any distribution on the points needs."""
        solution = inner_risk(self.divergence, self.entropy).solve(-costs)
        return -self._mean(np.asarray(solution.value))

    def solve(self, losses: Array, costs: Array, threads: int | None) -> tuple[float, Array, Any]:
        """``lam``, ``Psi_i + lam radius`` (n,), and the rows' solutions."""
        from scipy import optimize  # when first needed: it is slow to import

        spread = max(float(np.ptp(losses)), 1e-9 * float(np.abs(losses).max()), 1e-100)
        size = spread / max(float(np.mean(costs)), 1e-100)
        low, high = size / _RANGE, size * _RANGE

        def rows(lam: float) -> Any:
            return inner_risk(self.divergence, lam * self.entropy).solve(losses - lam * costs, threads=threads)

        def slope(power: float) -> float:
            return self.radius - self.spent(rows(float(np.exp(power))).weights, costs)

        ends = float(np.log(low)), float(np.log(high))
        if slope(ends[0]) >= 0:  # the worst points of all are within the budget: what they lose is the answer
            solution = rows(low)
            return low, np.sum(solution.weights * losses, axis=1), solution
        lam = float(np.exp(optimize.brentq(slope, *ends, xtol=_PRECISION, rtol=8.9e-16)))
        solution = rows(lam)
        return lam, solution.value + lam * self.radius, solution

    def spent(self, q: Array, costs: Array) -> float:
        """``E [sum q c + eps D_f(q)]``."""
        risk = inner_risk(self.divergence, 1.0)
        f, m = risk.divergence, q.shape[1]
        assert f is not None
        ratio = np.minimum(q * m, f.upper)  # weights on the cap are on it up to rounding
        divergence = penalty_of(risk) * np.mean(f.f(ratio), axis=1)
        return self._mean(np.sum(q * costs, axis=1) + self.entropy * divergence)

    def _mean(self, values: Array) -> float:
        return float(np.mean(values)) if self.base is None else float(np.sum(self.base * values))
