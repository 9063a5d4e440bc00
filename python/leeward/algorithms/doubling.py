"""The chi-square radius by multi-level estimates of its penalty form, one interval of penalties after another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._arrays import number
from leeward._points import StopRun
from leeward._progress import Progress
from leeward.algorithms._stochastic import Settings, check_step, descend
from leeward.algorithms.base import Stochastic
from leeward.algorithms.estimators import MLMC, Estimator, Minibatch
from leeward.algorithms.updates import Plain
from leeward.result import Status
from leeward.risks import ChiSquare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward._context import RunContext
    from leeward.domains import Domain
    from leeward.problems import Robust
    from leeward.result import Result

    Vector = NDArray[np.float64]

__all__ = ["Doubling"]

_SHARE = 0.25  # of an interval: how far lam moves at unit slope, by default


@dataclass(frozen=True)
class Doubling(Stochastic):
    r"""Minimises ``R_rho(l(w))`` of ``ChiSquare(radius=rho)`` as ``min_lam R_lam(l(w)) + lam rho``, R_lam the penalty form.

    Multi-level estimates of a radius form have no bounded variance; those of the penalty form have, the better the larger lam is. So
    ``[eps/(2 rho), B/rho]``, where lam must lie for accuracy eps and losses of range B, is cut into
    ``ceil(log2(2 B/eps))`` intervals of ratio 2. Stochastic gradient descent runs on w and lam jointly in one after the other, with
    :class:`MLMC` for both derivatives (``dR_lam/dlam = -D(q)``), and the best point by the exact objective is kept.

    Parameters
    ----------
    n0, n_max : int, default 8 and 4096
        Of :class:`MLMC`.
    accuracy : float, default 0.01
        eps as a share of ``P(w0)``.
    step, lam_step : float, optional
        Step sizes of w, chosen as for :class:`SGD` by default, and of lam, by default such that it crosses a quarter of its interval
        at a slope of rho.
    average : "polynomial", "uniform", True or False, default True
        As for :class:`SGD`.

    Notes
    -----
    Intervals go from the largest penalties down, each from the best point so far (the published scheme starts each at w0) and with an
    equal share of half of ``max_passes`` (200 by default); the other half goes to the best interval once more. ``result.eta`` and
    ``result.weights`` are those of the radius form. A checkpoint holds whole intervals. Without groups.

    References
    ----------
    Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020, section 6.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)); y = X @ [1.0, -2.0, 0.5] + rng.normal(size=500)
    >>> problem = lw.Robust(lw.LinearModel(X, y, loss="squared", l2=0.01), lw.ChiSquare(radius=0.5))
    >>> result = lw.minimize(problem, algorithm=lw.Doubling(), max_passes=200)
    >>> bool(result.fun < 1.02 * lw.minimize(problem).fun)
    True
    """

    n0: int = 8
    n_max: int = 4096
    accuracy: float = 0.01
    step: float | None = None
    lam_step: float | None = None
    average: bool | str = True

    def __post_init__(self) -> None:
        MLMC(self.n0, self.n_max)
        check_step(Minibatch(1), self.step, 0.0, self.average)
        if not 0 < number(self.accuracy, "accuracy") < 1:
            raise ValueError(f"accuracy must be in (0, 1), got {self.accuracy}")
        if self.lam_step is not None and not (math.isfinite(number(self.lam_step, "lam_step")) and self.lam_step >= 0):
            raise ValueError(f"lam_step must be finite and at least 0, or None, got {self.lam_step}")

    def check(self, problem: Robust, domain: Domain | None) -> None:
        risk = problem.risk
        if not isinstance(risk, ChiSquare) or risk.radius is None or risk.penalty is not None or not risk.radius > 0:
            raise ValueError(f"Doubling is for ChiSquare(radius=) with a positive radius, got {risk!r}; use SGD")
        if problem.groups is not None:
            raise ValueError("Doubling is not supported with groups; use SGD")

    def intervals(self, problem: Robust, losses: Vector, value: float) -> list[tuple[float, float]]:
        """The intervals of lam, from the largest penalties down.

        Parameters
        ----------
        problem : Robust
        losses : (n,)
            At the start: their range, or size where they are all equal, stands for B.
        value : float
            ``P`` at the start.
        """
        radius = problem.risk.radius
        eps = self.accuracy * max(abs(value), 1e-300)
        span = float(np.ptp(losses)) if np.ptp(losses) > 1e-9 * np.abs(losses).max() else float(np.abs(losses).max())
        span = max(span, eps)
        count = max(1, math.ceil(math.log2(2.0 * span / eps)))
        top = span / radius
        return [(top / 2.0 ** (k + 1), top / 2.0**k) for k in range(count)]

    def run(self, context: RunContext) -> None:
        problem, initial = context.problem, context.initial
        intervals = self.intervals(problem, initial.losses, initial.value)
        saved = context.checkpoint.load()
        done, kept, best, reached = 0, 0, context.w0, context.objective(context.w0, initial.value)
        if saved is not None:
            context.restore()
            done, kept = (int(v) for v in saved["done"])
            best, reached = saved["best"], float(saved["reached"][0])
        context.raise_if_done()
        budget = context.max_passes
        count = len(intervals)
        for k in range(done, count + 1):
            passes = None
            if budget is not None and not math.isinf(budget):
                share = 0.5 * budget / count if k < count else budget - context.passes
                passes = max(min(share, budget - context.passes), 1e-9)
            result = self._interval(context, best, intervals[k if k < count else kept], passes)
            context.count_losses(result.nfev)
            context.count_gradients(result.njev)
            if result.fun < reached:
                kept, best, reached = (k if k < count else kept), result.x, result.fun
            evaluation = problem.evaluate(best, threads=context.threads)
            state = {"done": np.array([k + 1, kept]), "best": best, "reached": np.array([reached])}
            gap = context.certified_gap(best, evaluation)
            norm = context.gradient_norm(best, evaluation.gradient)
            try:
                context.record(best, evaluation.value, norm, gap, step=k + 1, evaluation=evaluation)
            finally:
                context.checkpoint.save(state)
        context.finish(
            best, Status.BUDGET, "all intervals of penalties have been searched", evaluation=evaluation, gap=gap
        )

    def _interval(
        self, context: RunContext, start: Vector, interval: tuple[float, float], passes: float | None
    ) -> Result:
        """A run of its own with one interval of penalties."""
        problem = context.problem
        part = type(context)(
            problem,
            start,
            self,
            domain=context.domain,
            max_passes=passes,
            tol=context.tol,
            seed=context.seed,
            threads=context.threads,
            trace_every="pass",
            callback=None,
            checkpoint=None,
            progress=Progress(False, passes),
        )
        automatic = self.step is None
        estimator = _Search(self, float(problem.risk.radius), interval, automatic)
        try:
            descend(part, Settings(Plain(), estimator, self.step, self.average, automatic))
        except StopRun as stop:
            part.stopped(stop)
        return part.result()


@dataclass(frozen=True)
class _Search(Estimator):
    """The estimator of one interval: settings of the native one."""

    settings: Doubling
    radius: float
    interval: tuple[float, float]
    decaying: bool

    @property
    def _levels(self) -> MLMC:
        return MLMC(self.settings.n0, self.settings.n_max)

    def start(self, problem: Robust, seed: int) -> Any:
        low, high = self.interval
        step = self.settings.lam_step
        step = _SHARE * (high - low) / self.radius if step is None else float(step)
        period = max(1.0, math.ceil(problem.size / self.cost(problem))) if self.decaying else None
        levels = (int(self.settings.n0), self._levels.levels)
        return problem.penalty_search(levels, (math.sqrt(low * high), low, high, step), period, seed)

    def cost(self, problem: Robust) -> float:
        return self._levels.cost(problem)

    @property
    def staged(self) -> bool:
        return True

    def prober(self, problem: Robust, seed: int) -> Any:
        return problem.minibatch(int(self.cost(problem)), True, seed)

    def cut(self, memory: Vector, factor: float) -> None:
        memory[1] = factor
