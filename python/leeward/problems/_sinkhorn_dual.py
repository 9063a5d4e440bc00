"""What a Sinkhorn problem knows of its dual: certified gaps, and smoothed losses on the way to those with a kink.

With ``l_mu <= l`` the smoothed losses and mu their strength, a dual point with slopes s of the smoothed problem is one of the problem
itself, where its objective is larger by ``(mu/2) sum_ij p_i q_ij s_ij^2`` (Moreau: ``l_mu* = l* + mu s^2/2``). So at every w

    P - P*  <=  (P - P_mu)(w) + gap_mu(w) - (mu/2) sum_ij p_i q_ij s_ij^2.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

from leeward._sums import dot
from leeward.oracles import LinearModel
from leeward.oracles._perturbed import PerturbedModel
from leeward.problems._robust import Robust
from leeward.problems._sinkhorn_gap import repaired_gap, slope_energy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from leeward.oracles import PointOracle
    from leeward.problems._exact import Exact
    from leeward.problems._robust import Evaluation

    Vector = NDArray[np.float64]

__all__ = ["SinkhornDual"]

_WORTH = 0.1  # a gap that cannot be below this share of the objective is not computed


class SinkhornDual(Robust):
    """Base of :class:`leeward.Sinkhorn`, which sets the attributes."""

    model: LinearModel | PointOracle
    draws: int
    seed: int
    _perturbed: PerturbedModel
    _exact: Exact | None

    def _made(self, seed: int, draws: int, inner: Any = None) -> tuple[Any, Any]:
        raise NotImplementedError

    def worst_case(self, w: ArrayLike, index: ArrayLike | None = None) -> Vector:
        """Worst-case weights of the draws."""
        raise NotImplementedError

    def smoothed(self, strength: float) -> Self:
        """The problem of the model's smoothed losses on the same points, which is nowhere above this one."""
        if self.smooth:
            return self
        if not isinstance(self.model, LinearModel):
            raise ValueError(f"a Sinkhorn problem of the loss {self.model!r} has no smoothing")
        twin = copy.copy(self)
        twin.model = self.model.smoothed(strength)
        twin._perturbed = PerturbedModel(twin.model, *twin._made(self.seed, self.draws))
        twin._oracle = twin._perturbed
        return twin

    @property
    def repairs(self) -> bool:  # type: ignore[override]
        """Whether a gap with an intercept can be certified: for linear models."""
        return isinstance(self.model, LinearModel)

    def repaired_gap(self, w: Vector, evaluation: Evaluation, threads: int | None) -> float | None:
        """A certified gap with an intercept; None where the coefficients alone are too far off."""
        coef = evaluation.gradient[: self.penalised]
        near = self.convex and self.l2 > 0 and dot(coef, coef) / (2 * self.l2) <= _WORTH * abs(evaluation.value)
        if not (near and self.repairs):
            return None
        if self._exact is not None:
            return max(evaluation.value - self._exact.bound(w, threads), 0.0)
        return self.dual_gap(w, threads)[0]

    def dual_gap(self, w: Vector, threads: int | None) -> tuple[float, float]:
        """The gap on the common draws with balanced slopes, and the part of it that smoothed losses alone have."""
        return repaired_gap(self._perturbed, w, self._masses(w, threads), self._perturbed._thread_count(threads))

    def slope_energy(self, w: Vector, evaluation: Evaluation, threads: int | None) -> float:
        """By how much the smoothing of the losses takes their dual objective down at w's own slopes and weights."""
        return slope_energy(self._perturbed, w, self._masses(w, threads), self._perturbed._thread_count(threads))

    def _masses(self, w: Vector, threads: int | None) -> Vector:
        """``p_i q_ij`` (n m,) at w."""
        return self._spread_weights(self.worst_case(w))

    def _spread_weights(self, q: Vector) -> Vector:
        return (q / self.size if self._base is None else q * self._base[:, None]).ravel()
