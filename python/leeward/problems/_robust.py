"""The robust problem: a risk of an oracle's losses plus its l2 term,

    P(w) = R_p(l(w)) + (l2/2) |w_pen|^2,

with p the normalised sample weights, or, with groups, the risk of the groups' mean losses (docs/maths/risks.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward._sums import dot
from leeward.errors import InfiniteError
from leeward.problems._descent import native_descent
from leeward.risks import Mean, Risk, Tilted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from leeward.oracles import LinearModel, Oracle
    from leeward.risks import RiskSolution

__all__ = ["Evaluation", "Robust"]


@dataclass(frozen=True)
class Evaluation:
    """The objective at one point, with everything that was computed on the way.

    Attributes
    ----------
    value : float
        ``P(w)``, the l2 term included.
    gradient : ndarray (d,)
        ``sum_i q_i grad l_i(w) + l2 w_pen``: the gradient of P where the risk is smooth, else a subgradient.
    losses : ndarray (n,)
        Per-sample losses.
    weights : ndarray (n,)
        Worst-case weights q of the samples; they sum to 1.
    solution : RiskSolution
        The inner solution: of the samples, or of the groups when there are groups.
    """

    value: float
    gradient: NDArray[np.float64]
    losses: NDArray[np.float64]
    weights: NDArray[np.float64]
    solution: RiskSolution

    @property
    def eta(self) -> float:
        """Dual variable of the risk."""
        return float(self.solution.eta)


class Robust:
    r"""The robust problem ``min_w R(l(w)) + (l2/2) |w_pen|^2``.

    Parameters
    ----------
    oracle : Oracle
        Gives the losses ``l_i(w)`` and weighted sums of their gradients; its ``sample_weight`` (normalised to sum 1) is
        the base distribution p, so only ratios of sample weights matter, and its ``l2`` the regulariser.
    risk : Risk, default ``Mean()``
        How losses become one number.
    groups : (n,) integers, optional
        A group label for each sample. The risk is then taken over the groups: with
        ``m_g = sum_{i in g} p_i l_i / sum_{i in g} p_i`` the weighted mean loss of group g, ``P(w) = R(m_1, ..., m_G)``
        under equal base weights 1/G, whatever the groups' sizes. A sample's weight is
        ``q_i = q_g p_i / sum_{j in g} p_j``. Labels are arbitrary integers; a group without a sample of positive weight
        is left out.

    Raises
    ------
    TypeError
        If oracle or risk is of another kind, or groups are not integers.
    ValueError
        If groups has another length than the oracle has samples.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 2.0, 9.0])
    >>> problem = lw.Robust(lw.LinearModel(X, y, loss="squared", l2=0.1), lw.CVaR(0.5))
    >>> problem.value(np.zeros(2))
    21.25
    """

    def __init__(self, oracle: Oracle, risk: Risk | None = None, *, groups: ArrayLike | None = None) -> None:
        _check_oracle(oracle)
        if risk is None:
            risk = Mean()
        if not isinstance(risk, Risk):
            raise TypeError(f"risk must be a leeward risk such as CVaR(0.1), got {risk!r}")
        self._oracle = oracle
        self._risk = risk
        if groups is not None and oracle.population > oracle.size:
            raise ValueError("groups need an oracle with a label for each sample, got one of samples without end")
        self._base = _normalised(oracle.sample_weight)
        self._groups = None if groups is None else _Groups(groups, oracle.size, self._base)

    @property
    def oracle(self) -> Oracle:
        """The oracle."""
        return self._oracle

    @property
    def risk(self) -> Risk:
        """The risk."""
        return self._risk

    @property
    def groups(self) -> NDArray[np.int64] | None:
        """Group number 0..G-1 of each sample (labels in sorted order), -1 where the group has no weight; or None."""
        return None if self._groups is None else self._groups.number

    @property
    def base(self) -> NDArray[np.float64] | None:
        """Base weights p of the samples, summing to 1; None for uniform."""
        return self._base

    @property
    def size(self) -> int:
        """Number of samples n."""
        return self._oracle.size

    @property
    def dim(self) -> int:
        """Length d of w."""
        return self._oracle.dim

    @property
    def l2(self) -> float:
        """Strength of the l2 term."""
        return self._oracle.l2

    @property
    def penalised(self) -> int:
        """Number of leading coordinates of w under the l2 term, the domain and the prox terms."""
        return self._oracle.penalised

    @property
    def linear(self) -> LinearModel | None:
        """The linear model whose losses the objective is made of, for curvature models and scales of moves; None for other oracles."""
        from leeward.oracles import LinearModel

        return self._oracle if isinstance(self._oracle, LinearModel) else None

    @property
    def spread(self) -> float:
        """Mean variance that the problem adds to a feature of its linear model."""
        return 0.0

    @property
    def smooth(self) -> bool:
        """Whether P has a Lipschitz gradient: risk and losses are both smooth."""
        return bool(self._risk.smooth and self._oracle.smooth)

    @property
    def convex(self) -> bool:
        """Whether P is known to be convex: convex losses under a monotone convex risk."""
        turned = isinstance(self._risk, Tilted) and self._risk.t < 0  # plays down large losses: concave in them
        return bool(self._oracle.convex and not turned)

    def value(self, w: ArrayLike, *, threads: int | None = None) -> float:
        """P(w)."""
        w = self.point(w)
        losses = self._oracle.losses(w, threads=threads)
        reduced, base = (losses, self._base) if self._groups is None else (self._groups.means(losses), None)
        return float(self._risk(reduced, sample_weight=base, threads=threads)) + self._l2_term(w)

    def evaluate(self, w: ArrayLike, *, threads: int | None = None) -> Evaluation:
        """The objective, its (sub)gradient, the losses and the worst-case weights at w: one pass over the data each way."""
        w = self.point(w)
        return self._assemble(w, self._oracle.losses(w, threads=threads), threads)

    def evaluate_if_finite(self, w: NDArray[np.float64], *, threads: int | None = None) -> Evaluation | None:
        """:meth:`evaluate`, or None where w or a loss is NaN or infinite, or a user's function has left its range."""
        if not np.isfinite(w).all():
            return None
        try:
            losses = self._oracle.losses(w, threads=threads)
            return self._assemble(w, losses, threads) if np.isfinite(losses).all() else None
        except InfiniteError:
            return None

    def _assemble(self, w: NDArray[np.float64], losses: NDArray[np.float64], threads: int | None) -> Evaluation:
        solution, weights = self.weigh(losses, threads=threads)
        gradient = self._oracle.gradient(w, weights, threads=threads)
        if self.l2:
            with np.errstate(over="ignore"):
                gradient[: self.penalised] += self.l2 * w[: self.penalised]
        return Evaluation(float(solution.value) + self._l2_term(w), gradient, losses, weights, solution)

    def weigh(
        self, losses: NDArray[np.float64], *, threads: int | None = None
    ) -> tuple[RiskSolution, NDArray[np.float64]]:
        """The inner solution for given (n,) losses, and the samples' worst-case weights (n,)."""
        if self._groups is None:
            solution = self._risk.solve(losses, sample_weight=self._base, threads=threads)
            return solution, solution.weights
        solution = self._risk.solve(self._groups.means(losses), threads=threads)
        return solution, self._groups.spread(solution.weights)

    def smoothed(self, strength: float) -> Robust:
        """The problem with its non-smooth parts replaced by smooth lower bounds of the given strength (in units of the loss).

        The risk's weights stay feasible for this problem's risk, so lower bounds for the new problem hold for this one.
        """
        if not (np.isfinite(strength) and strength > 0):
            raise ValueError(f"strength must be positive and finite, got {strength}")
        copy = object.__new__(Robust)
        copy._oracle = self._oracle if self._oracle.smooth else self._oracle.smoothed(strength)  # type: ignore[attr-defined]
        copy._risk = self._risk if self._risk.smooth else self._risk.smoothed(strength)
        copy._base, copy._groups = self._base, self._groups
        return copy

    def point(self, w: ArrayLike) -> NDArray[np.float64]:
        """w as a float64 (d,) array; ValueError unless its length is d and it is finite."""
        array = _arrays.point(w, self.dim)
        if not np.isfinite(array).all():
            j = int(np.argmin(np.isfinite(array)))
            raise ValueError(f"w must be finite, got {array[j]} at position {j}")
        return array

    repairs = False  # whether repaired_gap has an answer

    def repaired_gap(self, w: NDArray[np.float64], evaluation: Evaluation, threads: int | None) -> float | None:
        """A certified gap at w where free coordinates keep the gradient from giving one; for problems that know more than their
        oracle."""
        return None

    def slope_energy(self, w: NDArray[np.float64], evaluation: Evaluation, threads: int | None) -> float:
        """``(mu/2) sum_i q_i s_i^2`` of a linear model's losses smoothed by mu, with s their slopes and q their weights at w."""
        linear: Any = self._oracle
        s = linear.slopes(w, threads=threads)
        return 0.5 * float(linear.loss.smoothing) * float(np.sum(evaluation.weights * s * s))

    def minibatch(self, n: int, replace: bool, seed: int, *, reshuffle: bool = False) -> Any:
        """The native mini-batch estimator (see :class:`leeward.Minibatch`)."""
        if self._groups is not None and not replace:
            raise ValueError("Minibatch(replace=False) is not supported with groups")
        arguments = self._oracle._core, self._risk._core, self._base, self.groups, n, replace, seed
        return _core.Minibatch(*arguments, reshuffle=reshuffle)

    def staged(self, kind: str, stages: tuple[Any, ...], seed: int, chances: NDArray[np.float64] | None = None) -> Any:
        """The native estimator ``"SnapshotDifference"`` or ``"Spider"`` of the mean loss; ``stages`` are the fields of StageSettings
        (csrc/include/leeward/estimator/stages.hpp) and ``chances`` those of the mini-batches' draws."""
        return getattr(_core, kind)(self._oracle._core, self._base, chances, stages, seed)

    def storm(self, batch: int, first: int, beta: float, period: float, seed: int) -> Any:
        """The native STORM estimator of the mean loss (csrc/include/leeward/estimator/storm.hpp)."""
        return _core.Storm(self._oracle._core, self._base, None, batch, first, beta, period, seed)

    def mlmc(self, n0: int, levels: int, seed: int) -> Any:
        """The native multi-level estimator (see :class:`leeward.MLMC`)."""
        self._ungrouped("MLMC")
        return _core.Mlmc(self._oracle._core, self._risk._core, self._base, n0, levels, seed)

    def growing_batch(self, n0: int, growth: float, seed: int) -> Any:
        """The native growing batch (see :class:`leeward.GrowingBatch`)."""
        self._ungrouped("GrowingBatch")
        return _core.GrowingBatch(self._oracle._core, self._risk._core, self._base, n0, growth, seed)

    def dual_batch(
        self,
        form: tuple[int, float, float],
        n: int,
        eta: tuple[float, float, float, float],
        lam: tuple[float, float, float, float],
        period: float | None,
        seed: int,
    ) -> Any:
        """The native estimator of the dual form (csrc/include/leeward/estimator/dual_batch.hpp)."""
        self._ungrouped("DualSGM")
        return _core.DualBatch(self._oracle._core, self._base, form, n, eta, lam, period, seed)

    def penalty_search(
        self, levels: tuple[int, int], lam: tuple[float, float, float, float], period: float | None, seed: int
    ) -> Any:
        """The native search for the penalty of a chi-square radius (csrc/include/leeward/estimator/penalty_search.hpp)."""
        self._ungrouped("Doubling")
        return _core.PenaltySearch(self._oracle._core, self._base, levels, self.risk.radius, lam, period, seed)

    def primal_dual(self, form: tuple[int, float], n: int, dual_step: float, seed: int) -> Any:
        """The native primal-dual estimator (csrc/include/leeward/estimator/primal_dual.hpp)."""
        self._ungrouped("PrimalDual")
        return _core.PrimalDual(self._oracle._core, self._base, form, n, dual_step, seed)

    def _ungrouped(self, what: str) -> None:
        if self._groups is not None:
            raise ValueError(
                f"{what} is not supported with groups; use Minibatch, which draws groups and samples in them"
            )

    def descent(
        self, estimator: Any, update: tuple[str, list[float]], start: NDArray[np.float64], **settings: Any
    ) -> Any:
        """A native descent on this problem (csrc/include/leeward/descent/driver.hpp); for authors of algorithms."""
        return native_descent(self, estimator, update, start, **settings)

    def unfitted(self, threads: int | None = None) -> float:
        """``|R(l(0))|``: the size of the objective where nothing is fitted."""
        losses = self._oracle.losses(np.zeros(self.dim), threads=threads)
        return abs(float(self.weigh(losses, threads=threads)[0].value))

    def _l2_term(self, w: NDArray[np.float64]) -> float:
        if not self.l2:
            return 0.0
        coef = w[: self.penalised]
        with np.errstate(over="ignore"):  # infinite where it must be
            return 0.5 * self.l2 * dot(coef, coef)

    def __repr__(self) -> str:
        groups = "" if self._groups is None else f", groups={self._groups.count} groups"
        return f"Robust({self._oracle!r}, {self._risk!r}{groups})"


class _Groups:
    """Samples cut into groups: means of losses within a group, and a group's weight spread over its samples."""

    def __init__(self, labels: ArrayLike, size: int, base: NDArray[np.float64] | None) -> None:
        array = _arrays.labels(labels, "groups")
        if array.shape != (size,):
            raise ValueError(f"groups must have shape ({size},), one label a sample, got {array.shape}")
        if not (np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_):
            raise TypeError(f"groups must be integers, got dtype {array.dtype}")
        _, number = np.unique(array, return_inverse=True)
        p = np.full(size, 1.0 / size) if base is None else base
        mass = np.bincount(number, weights=p)
        kept = np.cumsum(mass > 0) - 1
        self.number: NDArray[np.int64] = np.where(mass[number] > 0, kept[number], -1).astype(np.int64)
        self.count = int(kept[-1]) + 1
        inside = self.number >= 0
        self._share = np.zeros(size)  # p_i / sum of p over the group of i
        self._share[inside] = p[inside] / mass[mass > 0][self.number[inside]]
        self._bin = np.maximum(self.number, 0)
        self.number.flags.writeable = False

    def means(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        means = np.bincount(self._bin, weights=self._share * losses, minlength=self.count)
        return means.astype(np.float64, copy=False)

    def spread(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return weights[self._bin] * self._share


def _normalised(sample_weight: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    if sample_weight is None:
        return None
    base: NDArray[np.float64] = sample_weight / sample_weight.sum()
    base.flags.writeable = False
    return base


def _check_oracle(oracle: Any) -> None:
    from leeward.oracles import Oracle

    if not isinstance(oracle, Oracle):
        raise TypeError(f"oracle must be a leeward oracle such as LinearModel(X, y), got {type(oracle).__name__}")
