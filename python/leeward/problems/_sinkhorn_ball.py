"""Sinkhorn DRO over a ball: a budget for transport and divergence in place of their price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from leeward._sums import dot
from leeward.problems._ball import Ball
from leeward.problems._sinkhorn import Sinkhorn
from leeward.problems._sinkhorn_evaluation import SinkhornEvaluation
from leeward.problems._sinkhorn_gap import repaired_gap
from leeward.problems._transport import positive

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from leeward.oracles import LinearModel, PointOracle
    from leeward.problems._robust import Evaluation

    Vector = NDArray[np.float64]

__all__ = ["SinkhornBall"]


class SinkhornBall(Sinkhorn):
    r"""The worst case over all distributions within a Sinkhorn ball, on points drawn around the samples.

    With q_i a distribution on the m points of sample i and p the weights of the samples::

        P(w) = max_q { sum_i p_i sum_j q_ij l_ij :  sum_i p_i (sum_j q_ij c_ij + eps D_f(q_i)) <= radius } + (l2/2)|w_pen|^2
             = min_lam  lam radius + sum_i p_i Psi_i(w; lam) + (l2/2)|w_pen|^2

    so the price ``lam`` of :class:`Sinkhorn` is found at each w, by a search that solves the inner problems exactly.

    Parameters
    ----------
    oracle : LinearModel
    divergence : as for Sinkhorn, default "kl"
    radius : float
        The budget, in units of the cost: it must exceed what the cheapest distribution on the points needs.
    entropy, noise, cost, cost_scale, draws, reference, bounds, label_noise, label_cost, seed
        As for :class:`Sinkhorn`.

    Raises
    ------
    ValueError
        When the ball is empty on the drawn points; the message says from which radius on it is not.

    Notes
    -----
    The draws are common, and losses and costs of all ``n m`` points are held in memory: for full-batch algorithms (``LBFGS``). The
    price in force at w is ``price(w)``; ``Sinkhorn(lam=price)`` has the same worst case there. P has a kink where the losses of all
    points are equal, as at w = 0: where the data have no signal beyond it, a fit stays there and says so (``STALLED``).

    References
    ----------
    Wang, Gao and Xie, Sinkhorn distributionally robust optimization, 2021.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)); y = np.sign(X @ [1.0, -2.0, 0.5] + rng.normal(size=200))
    >>> model = lw.LinearModel(X, y, l2=0.01)
    >>> small, large = (lw.minimize(lw.SinkhornBall(model, "chi2", radius=r, noise=0.3)) for r in (0.25, 0.5))
    >>> small.success, large.success, bool(small.fun < large.fun)
    (True, True, True)
    """

    def __init__(
        self,
        oracle: LinearModel | PointOracle,
        divergence: Any = "kl",
        *,
        radius: float,
        entropy: float = 0.1,
        noise: ArrayLike | None = None,
        cost: str | Callable[..., Any] = "sqeuclidean",
        cost_scale: float = 1.0,
        draws: int = 8,
        reference: Any = "gaussian",
        bounds: Any = None,
        label_noise: float = 0.0,
        label_cost: float = 1.0,
        seed: int = 0,
    ) -> None:
        settings = {k: v for k, v in locals().items() if k not in ("self", "__class__", "oracle", "divergence")}
        self.radius = positive(radius, "radius")
        super().__init__(
            oracle,
            divergence,
            entropy=entropy,
            noise=noise,
            cost=cost,
            cost_scale=cost_scale,
            draws=draws,
            reference=reference,
            bounds=bounds,
            label_noise=label_noise,
            label_cost=label_cost,
            common=True,
            exact=False,
            recentre=False,
            seed=seed,
        )
        self._settings = settings
        self._ball = Ball(divergence, self.entropy, self.radius, self._base)
        self._point_costs = self.costs().reshape(self.size, self.draws)
        self._perturbed.answers = self
        least = self._ball.least(self._point_costs)
        if self.radius <= least:
            raise ValueError(
                f"radius must be above {least:.6g}, the least budget of any distribution on these points, got {radius}"
            )

    def price(self, w: ArrayLike) -> float:
        """The price lam of the budget at w."""
        return self._solved(self.point(w), None)[0]

    def worst_case(self, w: ArrayLike, index: ArrayLike | None = None) -> Vector:
        """Worst-case weights (k, m) of samples, all by default."""
        q: Vector = self._solved(self.point(w), None)[2].weights
        return q if index is None else q[np.asarray(index)]

    def losses(self, w: Vector, threads: int | None) -> Vector:
        """``Psi_i + lam radius`` at the price in force (n,), whose mean is P without the l2 term."""
        return self._solved(w, threads)[1]

    def gradient(self, w: Vector, weights: Vector, threads: int | None) -> Vector:
        """``sum_i weights_i sum_j q_ij grad l_ij``."""
        return self._of_points(w, (self._solved(w, threads)[2].weights * weights[:, None]).ravel(), threads)

    def _of_points(self, w: Vector, weights: Vector, threads: int | None) -> Vector:
        out = np.empty(self.dim)
        self._perturbed._points.gradient(w, weights, None, out, self._perturbed._thread_count(threads))
        return out

    def _solved(self, w: Vector, threads: int | None) -> tuple[float, Vector, Any]:
        return self._ball.solve(self._point_losses(w, threads), self._point_costs, threads)

    def _point_losses(self, w: Vector, threads: int | None) -> Vector:
        losses = np.empty(self.size * self.draws)
        self._perturbed._points.losses(w, None, losses, self._perturbed._thread_count(threads))
        return losses.reshape(self.size, self.draws)

    def _answers(self, w: Vector, threads: int | None) -> tuple[Vector, Vector, Vector | None, Vector | None]:
        losses = self._point_losses(w, threads)
        if not np.isfinite(losses).all():
            return np.full(self.size, np.inf), np.full(self.dim, np.nan), None, None
        _, values, solution = self._ball.solve(losses, self._point_costs, threads)
        gradient = self._of_points(w, self._spread_weights(solution.weights), threads)
        return values, gradient, solution.eta, solution.effective_sample_size

    def repaired_gap(self, w: Vector, evaluation: Evaluation, threads: int | None) -> float | None:
        """As for Sinkhorn, with what the worst case leaves of the value."""
        coef = evaluation.gradient[: self.penalised]
        near = self.convex and self.l2 > 0 and dot(coef, coef) / (2 * self.l2) <= abs(evaluation.value)
        if not (near and self.repairs):
            return None
        return self.dual_gap(w, threads)[0]

    def dual_gap(self, w: Vector, threads: int | None) -> tuple[float, float]:
        """As for Sinkhorn, with what the worst case leaves of the value."""
        losses = self._point_losses(w, threads)
        _, values, solution = self._ball.solve(losses, self._point_costs, threads)
        weights = self._spread_weights(solution.weights)
        left = float(self._risk(values, sample_weight=self._base)) - dot(weights, losses.ravel())
        gap, energy = repaired_gap(self._perturbed, w, weights, self._perturbed._thread_count(threads))
        return max(left, 0.0) + gap, energy

    def smoothed(self, strength: float) -> Self:
        """The ball of the model's smoothed losses on the same points."""
        twin = super().smoothed(strength)
        if twin is not self:
            twin._perturbed.answers = twin
        return twin

    def minibatch(self, *_: Any, **__: Any) -> Any:
        """None: the price depends on all samples."""
        raise ValueError("the price of a ball depends on all samples: use LBFGS, or Sinkhorn(lam=...)")

    nested = inexact = draws_mlmc = staged = storm = mlmc = growing_batch = minibatch

    def evaluate(self, w: ArrayLike, *, threads: int | None = None) -> SinkhornEvaluation:
        """The objective, its gradient and, as ``losses``, ``Psi_i + lam radius`` at the price in force."""
        return super().evaluate(w, threads=threads)

    def __repr__(self) -> str:
        return f"SinkhornBall({self.model!r}, radius={self.radius!r}, {self._words})"
