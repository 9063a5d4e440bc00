"""Portfolios by mean and deviation, as a composition of three native levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _core
from leeward.domains import Simplex
from leeward.problems._composition import Composition
from leeward.problems._returns import NativeLevel, checked_returns, checked_weight

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["MeanDeviation"]

_FLOOR = 1e-16  # least variance, over the mean square of the returns


class MeanDeviation(Composition):
    r"""The portfolio ``min_x  -mean_t <r_t, x> + lam sqrt(mean_t (<r_t, x> - <rbar, x>)^2)``, over the simplex by default.

    The levels are ``f_1(x) = (<rbar, x>, x)``, ``f_2(y, x) = (mean_t (<r_t, x> - y)^2, y)``, ``f_3(z, y) = -y + lam sqrt(z)``; the
    blocks that pass through are not stored. F is convex: runs certify how far they are from the optimum.

    Parameters
    ----------
    returns : (T, d) array
        Returns of d assets in T periods, float32 or float64, read where they lie when their columns are contiguous.
    lam : float, default 0.2
        Weight of the deviation, at least 0.
    l2 : float, default 0
        Strength of an additional ``(l2/2) |x|^2``.

    Notes
    -----
    F is positively homogeneous: without a feasible set its optimum is at 0, where it has no gradient, or at minus infinity
    (where the best Sharpe ratio exceeds lam). ``minimize(problem, domain=...)`` takes another set than the simplex, such as
    ``Box(0, 0.1)`` or ``L2Ball(1)``. Runs start at ``x = 1/d``. Variances below ``1e-16 mean r^2`` are taken for that.

    References
    ----------
    Jiang, Li, Gao, Wang, Yang and Zhang, Multi-level stochastic variance reduction, 2022, section 5.1 (with ``rbar`` the mean).

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> R = np.random.default_rng(0).normal([0.05, 0.02, 0.03], [1.0, 0.2, 0.5], size=(1000, 3))
    >>> problem = lw.MeanDeviation(R, lam=0.2)
    >>> x = np.array([0.2, 0.5, 0.3])
    >>> bool(np.isclose(problem.value(x), -(R @ x).mean() + 0.2 * (R @ x).std()))
    True
    >>> result = lw.minimize(problem, tol=1e-2)
    >>> result.success, bool(abs(result.x.sum() - 1) < 1e-12)
    (True, True)
    """

    def __init__(self, returns: ArrayLike, lam: float = 0.2, *, l2: float = 0.0) -> None:
        table, square = checked_returns(returns)
        weight = checked_weight(lam)
        d = table.shape[1]
        levels = [
            NativeLevel(_core.returns_level("mean", table), "mean of returns", (0, d)),
            NativeLevel(_core.returns_level("deviation", table), "mean square deviation", (0, 1)),
            NativeLevel(_core.deviation_penalty(weight, max(_FLOOR * square, 1e-300)), "deviation penalty"),
        ]
        super().__init__(levels, l2=l2, convex=True, domain=Simplex())
        self._returns, self.lam = table, weight

    @property
    def returns(self) -> NDArray[Any]:
        """The (T, d) returns."""
        return self._returns

    def start(self) -> NDArray[np.float64]:
        return np.full(self.dim, 1.0 / self.dim)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self._returns, self.lam, self.l2)

    def __repr__(self) -> str:
        l2 = f", l2={self.l2}" if self.l2 else ""
        return f"MeanDeviation(returns of shape {self._returns.shape}, lam={self.lam}{l2})"


def _rebuilt(returns: NDArray[Any], lam: float, l2: float) -> MeanDeviation:
    return MeanDeviation(returns, lam, l2=l2)
