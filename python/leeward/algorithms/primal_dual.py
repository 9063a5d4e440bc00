"""The primal-dual method: samples drawn from an adversary's distribution, which follows their losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._arrays import count, number
from leeward.algorithms._stochastic import Settings, check_step, descend
from leeward.algorithms.base import Stochastic
from leeward.algorithms.estimators import Estimator, Minibatch
from leeward.algorithms.updates import Plain
from leeward.risks import ChiSquare, CVaR, Worst

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward._context import RunContext
    from leeward.domains import Domain
    from leeward.problems import Robust
    from leeward.risks import Risk

    Vector = NDArray[np.float64]

__all__ = ["PrimalDual"]

_NUDGE = 0.5  # what a loss one standard deviation above the mean adds to its score at a visit, by default


@dataclass(frozen=True)
class PrimalDual(Stochastic):
    r"""The game ``min_w max_q sum_i q_i l_i(w)`` over the risk's set of distributions q, both sides by stochastic steps.

    With batches ``I ~ q`` and ``J ~ p`` of n samples a step::

        w   <- prox(w - step (mean_{i in I} grad l_i + l2 w))
        S_j <- S_j + dual_step (l_j - b)/(n p_j)    for j in J, b the running mean of the losses
        q   <- argmax_q  sum_i q_i S_i - (mirror map of q)

    The mirror map is the entropy for ``Worst`` and ``CVaR`` (q = capped softmax of the scores) and the squared distance for
    ``ChiSquare(radius=)``. Scores stand in a tree of sums, so that a step costs O(log of the samples seen), whatever n is, beside its
    losses and gradients.

    Parameters
    ----------
    n : int, default 16
        Samples in each batch.
    step : float, optional
        Of w; chosen as for :class:`SGD` by default.
    dual_step : float, optional
        Of the scores; by default such that a loss one standard deviation (at w0) above the mean gains 1/2 at a visit.
    average : "polynomial", "uniform", True or False, default True
        As for :class:`SGD`.

    Notes
    -----
    Each visit tells about one sample only: for a sum over N samples the method needs a number of passes, not of steps, to know its tail.
    ``result.weights`` are the exact worst-case weights at ``result.x``. Without groups.

    References
    ----------
    Namkoong and Duchi, Stochastic gradient methods for distributionally robust optimization with f-divergences, 2016.
    Curi, Levy, Jegelka and Krause, Adaptive sampling for stochastic risk-averse learning, 2020.
    Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020, appendix A.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)); y = X @ [1.0, -2.0, 0.5] + rng.normal(size=200)
    >>> problem = lw.Robust(lw.LinearModel(X, y, loss="squared", l2=0.01), lw.CVaR(0.3))
    >>> result = lw.minimize(problem, algorithm=lw.PrimalDual(), max_passes=200)
    >>> bool(result.fun < 1.05 * lw.minimize(problem).fun)
    True
    """

    n: int = 16
    step: float | None = None
    dual_step: float | None = None
    average: bool | str = True

    def __post_init__(self) -> None:
        count(self.n, "n", 1)
        check_step(Minibatch(1), self.step, 0.0, self.average)
        if self.dual_step is not None and not (
            math.isfinite(number(self.dual_step, "dual_step")) and self.dual_step >= 0
        ):
            raise ValueError(f"dual_step must be finite and at least 0, or None, got {self.dual_step!r}")

    def check(self, problem: Robust, domain: Domain | None) -> None:
        if _form(problem.risk) is None:
            raise ValueError(
                f"PrimalDual is for CVaR, ChiSquare with a positive radius and no penalty, and Worst, got {problem.risk!r}; use SGD"
            )
        if problem.groups is not None:
            raise ValueError("PrimalDual is not supported with groups; use SGD")

    def run(self, context: RunContext) -> None:
        form, dual_step = _form(context.problem.risk), self.dual_step
        assert form is not None
        if dual_step is None:
            losses = context.initial.losses
            size = float(np.abs(losses).max()) or 1.0
            spread = float(losses.std())
            spread = spread if spread > 1e-9 * size else size
            dual_step = _NUDGE * int(self.n) / (context.problem.size * spread)
        estimator = _Game(form, int(self.n), float(dual_step))
        descend(context, Settings(Plain(), estimator, self.step, self.average, self.step is None))


@dataclass(frozen=True)
class _Game(Estimator):
    """The estimator of one run: settings of the native one."""

    form: tuple[int, float]
    n: int
    dual_step: float

    def start(self, problem: Robust, seed: int) -> Any:
        return problem.primal_dual(self.form, self.n, self.dual_step, seed)

    def cost(self, problem: Robust) -> float:
        return float(self.n)

    @property
    def staged(self) -> bool:
        return True

    def prober(self, problem: Robust, seed: int) -> Any:
        return problem.minibatch(self.n, True, seed)


def _form(risk: Risk) -> tuple[int, float] | None:
    if isinstance(risk, Worst):
        return 0, 0.0
    if isinstance(risk, CVaR):
        return 1, float(risk.alpha)
    if isinstance(risk, ChiSquare) and risk.penalty is None and risk.radius is not None and risk.radius > 0:
        return 2, float(risk.radius)
    return None
