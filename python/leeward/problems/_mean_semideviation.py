"""Portfolios by mean and upper semideviation of the losses, as a composition of three native levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward.domains import Simplex
from leeward.problems._composition import Composition
from leeward.problems._returns import NativeLevel, checked_returns, checked_smoothing, checked_weight

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["MeanUpperSemideviation"]

_FLOOR = 1e-16  # least mean square, over the mean square of the returns


class MeanUpperSemideviation(Composition):
    r"""The portfolio ``min_x  -mean_t <r_t, x> + lam (mean_t max(<rbar, x> - <r_t, x>, 0)^p)^(1/p)``, over the simplex by default.

    The deviation counts periods only in which the loss ``-<r_t, x>`` is above its mean. The levels are ``f_1(x) = (<rbar, x>, x)``,
    ``f_2(y, x) = (mean_t g(y - <r_t, x>), y)`` and ``f_3(z, y) = -y + lam z^(1/p)``, with ``g(u) = max(u, 0)^2`` for p = 2. For p = 1
    this kink is made smooth on ``[-h, h]``, ``g(u) = (u + h)^2/(4 h)`` there, so that F is at most ``lam h/4`` above the value without
    (:meth:`unsmoothed`) and never below. F is convex: runs certify how far they are from its optimum.

    Parameters
    ----------
    returns : (T, d) array
        Returns of d assets in T periods, float32 or float64, read where they lie when their columns are contiguous.
    lam : float, default 0.5
        Weight of the semideviation, at least 0; up to 1 the risk is coherent.
    order : 1 or 2, default 2
        p.
    smoothing : float, optional
        h, in units of the returns, for ``order=1``; a hundredth of the returns' root mean square by default.
    l2 : float, default 0
        Strength of an additional ``(l2/2) |x|^2``.

    Notes
    -----
    F is positively homogeneous (p = 2) and wants a bounded feasible set, see :class:`MeanDeviation`. For p = 2, mean squares below
    ``1e-16 mean r^2`` are taken for that, and estimates of them are kept positive.

    References
    ----------
    Ruszczynski and Shapiro, Optimization of convex risk functions, Mathematics of Operations Research 2006. As a composition: Yang, Wang
    and Fang, Multilevel stochastic gradient methods for nested composition optimization, SIAM Journal on Optimization 2019.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> R = np.random.default_rng(0).normal([0.05, 0.02, 0.03], [1.0, 0.2, 0.5], size=(1000, 3))
    >>> problem = lw.MeanUpperSemideviation(R, lam=0.5)
    >>> x = np.array([0.2, 0.5, 0.3])
    >>> series = R @ x
    >>> below = np.maximum(series.mean() - series, 0.0)
    >>> bool(np.isclose(problem.value(x), -series.mean() + 0.5 * np.sqrt(np.mean(below**2))))
    True
    >>> result = lw.minimize(problem, tol=1e-2)
    >>> result.success, bool(abs(result.x.sum() - 1) < 1e-12)
    (True, True)
    """

    def __init__(
        self, returns: ArrayLike, lam: float = 0.5, *, order: int = 2, smoothing: float | None = None, l2: float = 0.0
    ) -> None:
        table, square = checked_returns(returns)
        weight = checked_weight(lam)
        power = _arrays.count(order, "order", 1)
        if power > 2:
            raise ValueError(f"order must be 1 or 2, got {power}")
        if power == 2 and smoothing is not None:
            raise ValueError(f"smoothing is for order=1: squares are smooth, got smoothing={smoothing!r}")
        h = checked_smoothing(smoothing, square) if power == 1 else 0.0
        d = table.shape[1]
        if power == 1:
            middle = _core.returns_level("shortfall", table, smoothing=h)
            outer: Any = _core.linear_level(np.array([[weight, -1.0]]), np.zeros(1))
        else:
            middle = _core.returns_level("square shortfall", table)
            outer = _core.deviation_penalty(weight, max(_FLOOR * square, 1e-300))
        levels = [
            NativeLevel(_core.returns_level("mean", table), "mean of returns", (0, d)),
            NativeLevel(middle, "mean shortfall", (0, 1)),
            NativeLevel(outer, "semideviation penalty"),
        ]
        super().__init__(levels, l2=l2, convex=True, domain=Simplex())
        self._returns, self.lam, self.order, self.smoothing = table, weight, power, h

    @property
    def returns(self) -> NDArray[Any]:
        """The (T, d) returns."""
        return self._returns

    def start(self) -> NDArray[np.float64]:
        return np.full(self.dim, 1.0 / self.dim)

    def unsmoothed(self, w: ArrayLike, *, threads: int | None = None) -> float:
        """F(w) with ``max(u, 0)`` itself; the same as :meth:`value` for order 2."""
        if self.order == 2:
            return self.value(w, threads=threads)
        exact = MeanUpperSemideviation(self._returns, self.lam, order=1, smoothing=np.finfo(float).tiny, l2=self.l2)
        return exact.value(w, threads=threads)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self._returns, self.lam, self.order, self.smoothing, self.l2)

    def __repr__(self) -> str:
        smoothing = f", smoothing={self.smoothing}" if self.order == 1 else ""
        l2 = f", l2={self.l2}" if self.l2 else ""
        return f"MeanUpperSemideviation(returns of shape {self._returns.shape}, lam={self.lam}, order={self.order}{smoothing}{l2})"


def _rebuilt(returns: NDArray[Any], lam: float, order: int, smoothing: float, l2: float) -> MeanUpperSemideviation:
    return MeanUpperSemideviation(returns, lam, order=order, smoothing=smoothing if order == 1 else None, l2=l2)
