"""SARAH and SPIDER: recursive gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leeward.algorithms._staged import FiniteSum, Rule, Staged, check_count, check_size
from leeward.oracles import LinearModel

if TYPE_CHECKING:
    from leeward.algorithms.updates import Update
    from leeward.problems import Robust

__all__ = ["SARAH"]


@dataclass(frozen=True)
class SARAH(FiniteSum):
    r"""The recursive gradient of SARAH and SPIDER for ``min (1/n) sum_i f_i(w)``, convex or not.

    A stage takes ``v = grad f_I(w)`` over a batch I (all samples by default) and a step along it; its other steps go over
    mini-batches S of b samples::

        v <- grad f_S(w) - grad f_S(w_before) + v,      w <- update(w, v, step)

    Parameters
    ----------
    batch : int, optional
        Samples of I, drawn without replacement; all n by default (SARAH). A smaller batch is SPIDER's.
    inner_batch : int, float or None
        b: a size, or a fraction of the batch. Default: 1 for linear models, 64 for other oracles.
    inner_steps : int, optional
        Steps of a stage. Default: the batch over b, rounded.
    step : float, optional
        Step size; by default from the data as for :class:`SCSG`.
    update : Update, optional
        ``Plain()`` by default.
    output : "last", "random" or "average", default "last"
        The answer: the last iterate, one drawn uniformly (as the theory has it), or the mean of all.

    Notes
    -----
    A stage of N steps evaluates ``B + 2 b (N - 1)`` component gradients (``result.njev``); ``result.samples`` counts
    ``B + b (N - 1)``. Works on the mean of losses; the l2 term, prox terms and domains are taken exactly.

    References
    ----------
    Nguyen, Liu, Scheinberg and Takac, SARAH, ICML 2017; Fang, Li, Lin and Zhang, SPIDER, NeurIPS 2018.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = lw.LinearModel(X, np.sign(X[:, 0]), l2=0.01)
    >>> lw.minimize(model, algorithm=lw.SARAH(), tol=1e-4).success
    True
    """

    batch: int | None = None
    inner_batch: int | float | None = None
    inner_steps: int | None = None
    step: float | None = None
    update: Update | None = None
    output: str = "last"

    def __post_init__(self) -> None:
        if self.batch is not None:
            check_count("batch", self.batch)
        check_size("inner_batch", self.inner_batch)
        if self.inner_steps is not None:
            check_count("inner_steps", self.inner_steps)
        self._check_shared()

    def _estimator(self, problem: Robust) -> Staged:
        batch = problem.size if self.batch is None else int(self.batch)
        inner = self.inner_batch
        if inner is None:
            inner = 1 if isinstance(problem.oracle, LinearModel) else min(64, batch)
        length, steps = ("mean", 1) if self.inner_steps is None else ("fixed", int(self.inner_steps))
        return Staged("Spider", Rule(batch, inner, "fixed", length, steps))
