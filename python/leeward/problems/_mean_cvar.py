"""Portfolios by mean and conditional value at risk, as a composition of a native level and a linear one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward._sums import dot
from leeward._threads import thread_request
from leeward.domains import Simplex
from leeward.oracles._linear import core_matrix
from leeward.problems._composition import Composition, CompositionEvaluation
from leeward.problems._returns import NativeLevel, checked_returns, checked_smoothing, checked_weight
from leeward.risks import CVaR

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["MeanCVaR"]

_ROUNDS, _ROUNDING = 64, 1e-14  # on the way to the best eta


class MeanCVaR(Composition):
    r"""The portfolio ``min_x  -mean_t <r_t, x> + lam CVaR_alpha(-<r_t, x>)``, over the simplex by default.

    The CVaR, the mean of the worst share alpha of the losses, is ``min_eta eta + mean_t max(-<r_t, x> - eta, 0)/alpha``. The variable is
    ``w = (x, v)`` with ``eta = unit v``, and unit the returns' root mean square, so that x and v are of one size; the domain and the l2
    term act on x. The levels are ``f_1(x, v) = (mean_t g(-<r_t, x> - unit v), <rbar, x>, v)`` and ``f_2(z, y, v) = -y + lam (unit v +
    z/alpha)``. The kink is made smooth on ``[-h, h]``: ``g(u) = (u + h)^2/(4 h)`` there, else ``max(u, 0)``. F is then at most
    ``lam h`` above the value without (:meth:`unsmoothed`), and never below. F is convex: runs certify how far they are from its optimum.

    Parameters
    ----------
    returns : (T, d) array
        Returns of d assets in T periods, float32 or float64, read where they lie when their columns are contiguous.
    lam : float, default 1
        Weight of the CVaR, at least 0.
    alpha : float in (0, 1], default 0.05
        Share of the worst periods.
    smoothing : float, optional
        h, in units of the returns; a hundredth of their root mean square by default.
    l2 : float, default 0
        Strength of an additional ``(l2/2) |x|^2``.

    Notes
    -----
    Points may be given as the d weights x alone: v is then the best one, and ``value(x)`` the objective of the portfolio. The answer of
    a run is ``result.x[:-1]``, and ``result.eta`` the quantile of the losses, the value at risk. Runs start at ``x = 1/d``.

    References
    ----------
    Rockafellar and Uryasev, Optimization of conditional value-at-risk, Journal of Risk 2000.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> R = np.random.default_rng(0).normal([0.05, 0.02, 0.03], [1.0, 0.2, 0.5], size=(1000, 3))
    >>> problem = lw.MeanCVaR(R, lam=0.5, alpha=0.1)
    >>> x = np.array([0.2, 0.5, 0.3])
    >>> exact = -(R @ x).mean() + 0.5 * lw.CVaR(0.1)(-(R @ x))
    >>> bool(np.isclose(problem.unsmoothed(x), exact)), bool(0 <= problem.value(x) - exact <= 0.5 * problem.smoothing)
    (True, True)
    >>> result = lw.minimize(problem, tol=1e-2)
    >>> result.success, bool(abs(result.x[:-1].sum() - 1) < 1e-12)
    (True, True)
    """

    def __init__(
        self,
        returns: ArrayLike,
        lam: float = 1.0,
        alpha: float = 0.05,
        *,
        smoothing: float | None = None,
        l2: float = 0.0,
    ) -> None:
        table, square = checked_returns(returns)
        weight = checked_weight(lam)
        share = _arrays.number(alpha, "alpha")
        if not 0 < share <= 1:
            raise ValueError(f"alpha must be in (0, 1], got {alpha}")
        h = checked_smoothing(smoothing, square)
        unit, d = float(np.sqrt(square)) if square > 0 else 1.0, table.shape[1]
        outer = _core.linear_level(np.array([[weight / share, -1.0, weight * unit]]), np.zeros(1))
        levels = [
            NativeLevel(_core.returns_level("tail", table, smoothing=h, unit=unit), "tail of returns", (d, 1)),
            NativeLevel(outer, "mean and tail"),
        ]
        super().__init__(levels, l2=l2, convex=True, domain=Simplex())
        self._returns, self._matrix = table, core_matrix(table, "returns", 0)
        self.lam, self.alpha, self.smoothing, self.unit = weight, share, h, unit

    @property
    def returns(self) -> NDArray[Any]:
        """The (T, d) returns."""
        return self._returns

    @property
    def penalised(self) -> int:
        return self.dim - 1

    def start(self) -> Vector:
        return self.solved(np.full(self.dim, 1.0 / self.penalised))

    def point(self, w: ArrayLike) -> Vector:
        """w as a float64 (d + 1,) array; the d weights alone are completed by the best v."""
        array = _arrays.doubles(w, "w")
        if array.shape == (self.dim,):
            return super().point(array)
        if array.shape != (self.penalised,):
            raise ValueError(
                f"w must have shape ({self.dim},), or ({self.penalised},) for the weights alone, got shape {array.shape}"
            )
        if not np.isfinite(array).all():
            j = int(np.argmin(np.isfinite(array)))
            raise ValueError(f"w must be finite, got {array[j]} at position {j}")
        return self.solved(np.append(array, 0.0))

    def evaluate(self, w: ArrayLike, *, threads: int | None = None) -> CompositionEvaluation:
        point = self.point(w)
        return replace(super().evaluate(point, threads=threads), eta=self.unit * float(point[-1]))

    def unsmoothed(self, w: ArrayLike, *, threads: int | None = None) -> float:
        """``-mean <r, x> + lam CVaR_alpha(-<r, x>) + (l2/2) |x|^2``: F at the best eta, without smoothing."""
        point = self.point(w)
        losses, coef = self._losses(point, threads), point[:-1]
        tail = float(CVaR(self.alpha)(losses, threads=threads))
        return float(losses.mean()) + self.lam * tail + 0.5 * self.l2 * dot(coef, coef)

    def solved(self, w: Vector, threads: int | None = None) -> Vector:
        """w with the best v for its x: ``mean_t g'(-<r_t, x> - unit v) = alpha``."""
        losses, h = self._losses(w, threads), self.smoothing
        first = int(np.ceil(self.alpha * losses.size))
        quantile = float(np.partition(losses, losses.size - first)[losses.size - first])
        tail = losses[losses > quantile - 2.0 * h]  # the others have slope 0 wherever the best eta can be
        low, high, wanted = quantile - h, quantile + h, self.alpha * losses.size
        eta = quantile
        for _ in range(_ROUNDS):  # Newton's method on a function of straight pieces, inside a bracket
            share = np.clip((tail - eta + h) * (0.5 / h), 0.0, 1.0)
            excess = float(share.sum()) - wanted
            low, high = (eta, high) if excess >= 0 else (low, eta)
            if abs(excess) <= _ROUNDING * wanted:
                break
            inside = int(np.count_nonzero((share > 0) & (share < 1)))
            ahead = eta + 2.0 * h * excess / inside if inside else high
            eta = ahead if low < ahead < high else 0.5 * (low + high)
        return np.append(w[:-1], eta / self.unit)

    def _losses(self, w: Vector, threads: int | None) -> Vector:
        out = np.empty(len(self._returns))
        self._matrix.scores(np.ascontiguousarray(-w[:-1]), 1, False, out, thread_request(threads))
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self._returns, self.lam, self.alpha, self.smoothing, self.l2)

    def __repr__(self) -> str:
        l2 = f", l2={self.l2}" if self.l2 else ""
        shape = self._returns.shape
        return f"MeanCVaR(returns of shape {shape}, lam={self.lam}, alpha={self.alpha}, smoothing={self.smoothing}{l2})"


def _rebuilt(returns: NDArray[Any], lam: float, alpha: float, smoothing: float, l2: float) -> MeanCVaR:
    return MeanCVaR(returns, lam, alpha, smoothing=smoothing, l2=l2)
