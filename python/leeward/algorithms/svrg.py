"""SVRG: stochastic variance-reduced gradient, with stages or loopless."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leeward.algorithms._staged import Rule, SnapshotMethod, Staged, check_count, check_size
from leeward.oracles import LinearModel

if TYPE_CHECKING:
    from leeward.algorithms.updates import Update
    from leeward.problems import Robust

__all__ = ["SVRG"]


@dataclass(frozen=True)
class SVRG(SnapshotMethod):
    r"""Stochastic variance-reduced gradient for ``min (1/n) sum_i f_i(w)``.

    A stage takes the full gradient ``g = grad f(w~)`` at the present point w~ and then makes steps over mini-batches S of
    b samples::

        v = grad f_S(w) - grad f_S(w~) + g,      w <- update(w, v, step)

    Parameters
    ----------
    inner_batch : int, float or None
        b: a size, or a fraction of n. Default: 1 for linear models, 64 for other oracles, whose calls are dear.
    inner_steps : int, "geometric" or None
        Steps of a stage: a number, or geometric from 0 with mean n/b (SCSG with B = n). Default: n/b, rounded.
    loopless : bool, default False
        Renew w~ after each step with chance ``1/inner_steps`` (b/n by default) instead of after a fixed number of steps.
    step : float, "theory", "bb", "linesearch" or None
        Step size, as for :class:`SCSG`; here ``"theory"`` is ``1/(10 L_max)`` for convex losses (Johnson and Zhang 2013; Xiao and
        Zhang 2014), else ``(b/n)^(2/3)/(6 L_max)``.
    sampling : "uniform" or "importance", default "uniform"
        The inner draws, as for :class:`SCSG`.
    update : Update, optional
        ``Plain()`` by default.
    output : "last", "random" or "average", default "last"
        The answer: the last iterate, the end of a stage drawn uniformly, or the mean of these.

    Notes
    -----
    A stage of N steps evaluates ``n + 2 b N`` component gradients (``result.njev``); ``result.samples`` counts ``n + b N``.
    Works on the mean of losses; the l2 term, prox terms and domains are taken exactly.

    References
    ----------
    Johnson and Zhang, Accelerating stochastic gradient descent using predictive variance reduction, NeurIPS 2013; Xiao and
    Zhang, A proximal stochastic gradient method with progressive variance reduction, 2014; Kovalev, Horvath and Richtarik,
    Don't jump through hoops and remove those loops, ALT 2020.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = lw.LinearModel(X, np.sign(X[:, 0]), l2=0.01)
    >>> lw.minimize(model, algorithm=lw.SVRG(loopless=True), tol=1e-6).success
    True
    """

    inner_batch: int | float | None = None
    inner_steps: int | str | None = None
    loopless: bool = False
    step: float | str | None = None
    sampling: str = "uniform"
    update: Update | None = None
    output: str = "last"

    def __post_init__(self) -> None:
        check_size("inner_batch", self.inner_batch)
        if isinstance(self.inner_steps, str):
            if self.inner_steps != "geometric":
                raise ValueError(
                    f"inner_steps must be a number of steps, 'geometric' or None, got {self.inner_steps!r}"
                )
        elif self.inner_steps is not None:
            check_count("inner_steps", self.inner_steps)
        if not isinstance(self.loopless, bool):
            raise TypeError(f"loopless must be True or False, got {self.loopless!r}")
        if self.loopless and self.inner_steps == "geometric":
            raise ValueError(
                "loopless=True tosses a coin after each step; inner_steps must be a number or None with it"
            )
        self._check_shared()

    def _estimator(self, problem: Robust) -> Staged:
        n = problem.size
        inner = self.inner_batch
        if inner is None:
            inner = 1 if isinstance(problem.oracle, LinearModel) else min(64, n)
        b = max(1, round(inner * n)) if isinstance(inner, float) else min(int(inner), n)
        steps = self.inner_steps if isinstance(self.inner_steps, int) else None
        length, chance = ("mean" if steps is None else "fixed"), 1.0
        if self.inner_steps == "geometric":
            length = "geometric"
        if self.loopless:
            length, chance = "loopless", min(1.0, b / n if steps is None else 1.0 / steps)
        exponent = 2.0 / 3.0 if self.step == "theory" and not problem.convex else 0.0
        rule = Rule(n, inner, "fixed", length, 1 if steps is None else steps, chance, exponent)
        return Staged("SnapshotDifference", rule)

    def _theory(self, problem: Robust) -> float:
        return 0.1 if problem.convex else 1.0 / 6.0
