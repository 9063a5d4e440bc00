"""STORM: momentum-based variance reduction without large batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leeward.algorithms._staged import FiniteSum, check_count
from leeward.algorithms._stochastic import Settings, descend
from leeward.algorithms.estimators import Estimator
from leeward.algorithms.updates import Plain

if TYPE_CHECKING:
    from leeward._context import RunContext
    from leeward.algorithms.updates import Update
    from leeward.problems import Robust

__all__ = ["STORM"]


@dataclass(frozen=True)
class STORM(FiniteSum):
    r"""Stochastic recursive momentum for ``min (1/n) sum_i f_i(w)``, convex or not: no large batch after the first.

    Over a mini-batch S of the samples at each step, evaluated at the present and at the last point::

        d <- grad f_S(w) + (1 - beta_t) (d - grad f_S(w_before)),      w <- update(w, d, step_t)

    Parameters
    ----------
    batch : int, default 32
        Samples of S.
    beta : float in (0, 1], default 0.1
        Mixing: 1 is plain SGD.
    first_batch : int, optional
        Samples of the first step. Default: ``batch / beta``.
    step : float, optional
        Step size. By default from the data as for :class:`SGD`.
    decay : "auto", "constant" or "sqrt", default "auto"
        ``"sqrt"``: ``step_t = step / sqrt(1 + t/m)`` and ``beta_t = beta / (1 + t/m)``, m the steps a pass, so that
        ``beta_t`` falls as the square of the step. ``"auto"`` is constant for a given step and ``"sqrt"`` for the default one.
    update : Update, optional
        ``Plain()`` by default.
    output : "last", "random" or "average", default "last"
        The answer: the last iterate, one drawn with probability proportional to ``step_t``, or the mean of that draw.

    Notes
    -----
    A step evaluates ``2 batch`` component gradients (``result.njev``); ``result.samples`` counts ``batch``. Works on the mean
    of losses; the l2 term, prox terms and domains are taken exactly.

    References
    ----------
    Cutkosky and Orabona, Momentum-based variance reduction in non-convex SGD, NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = lw.LinearModel(X, np.sign(X[:, 0]), l2=0.01)
    >>> lw.minimize(model, algorithm=lw.STORM(), tol=1e-2).success
    True
    """

    batch: int = 32
    beta: float = 0.1
    first_batch: int | None = None
    step: float | None = None
    decay: str = "auto"
    update: Update | None = None
    output: str = "last"

    def __post_init__(self) -> None:
        check_count("batch", self.batch)
        if self.first_batch is not None:
            check_count("first_batch", self.first_batch)
        if isinstance(self.beta, bool) or not isinstance(self.beta, float | int) or not 0 < self.beta <= 1:
            raise ValueError(f"beta must be in (0, 1], got {self.beta!r}")
        if self.decay not in ("auto", "constant", "sqrt"):
            raise ValueError(f"decay must be 'auto', 'constant' or 'sqrt', got {self.decay!r}")
        self._check_shared()

    def default_tol(self, problem: Robust, max_passes: float | None) -> float:
        return 1e-3 if max_passes is None else 0.0

    def run(self, context: RunContext) -> None:
        decaying = self.decay == "sqrt" or (self.decay == "auto" and self.step is None)
        update = Plain() if self.update is None else self.update
        estimator = self._estimator(context.problem)
        descend(context, Settings(update, estimator, self.step, False, decaying, self.output))

    def _estimator(self, problem: Robust) -> Estimator:
        decaying = self.decay == "sqrt" or (self.decay == "auto" and self.step is None)
        first = math.ceil(self.batch / self.beta) if self.first_batch is None else int(self.first_batch)
        return _Storm(int(self.batch), first, float(self.beta), decaying)


@dataclass(frozen=True)
class _Storm(Estimator):
    batch: int
    first: int
    beta: float
    decaying: bool

    def start(self, problem: Robust, seed: int) -> Any:
        period = math.ceil(problem.size / self.cost(problem)) if self.decaying else 0
        return problem.storm(self.batch, self.first, self.beta, float(period), seed)

    def cost(self, problem: Robust) -> float:
        return 2.0 * min(self.batch, problem.size)

    @property
    def staged(self) -> bool:
        return True

    def prober(self, problem: Robust, seed: int) -> Any:
        return problem.minibatch(min(self.batch, problem.size), True, seed)
