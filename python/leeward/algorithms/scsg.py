"""SCSG: stochastically controlled stochastic gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leeward.algorithms._staged import Rule, SnapshotMethod, Staged, check_count, check_size
from leeward.oracles import LinearModel

if TYPE_CHECKING:
    from leeward.algorithms.updates import Update
    from leeward.problems import Robust

__all__ = ["SCSG"]


@dataclass(frozen=True)
class SCSG(SnapshotMethod):
    r"""Stochastically controlled stochastic gradient for ``min (1/n) sum_i f_i(w)``, convex or not.

    Stage j = 1, 2, ... draws a batch I of B samples without replacement, takes ``g = grad f_I(w~)`` at the present point w~,
    draws a length N with ``P(N = k) = gamma^k (1 - gamma)``, ``gamma = B/(B + b)`` (mean ``B/b``, zero allowed), and makes
    N steps, each over a fresh mini-batch S of b of the n samples::

        v = grad f_S(w) - grad f_S(w~) + g,      w <- update(w, v, step (b/B)^exponent)

    Parameters
    ----------
    batch : int, "growing", "doubling" or None
        B: a fixed size (version 1 of the paper, and version 3 with the output "last"), ``min(ceil(j^{3/2}), n)`` (version
        2), or 256, 512, ... up to n. Default: "doubling" for linear models, "growing" for other oracles.
    inner_batch : int, float or None
        b: a size, or a fraction of B in (0, 1]. Default: 1 for linear models, 1/32 of B for other oracles, whose calls are
        dear.
    inner : "geometric", "mean" or "slices", default "geometric"
        The inner loop: a geometric length; always its mean, rounded; or the practical walk of the paper's experiments,
        which cuts the batch itself into B/b mini-batches and takes each once. The gradients of the slices at w~ are kept, in
        (B/b) d doubles, unless that is more than 1 GiB.
    step : float, "theory", "bb", "linesearch" or None
        Step size. Default: ``1/(L_f + L_max/b)`` for plain steps on a linear model, L_f that of the mean (at most the mean of
        the L_i) and L_i the Lipschitz constants of its samples' gradients, in variables in which features of any unit move alike;
        else from the curvature at the start and a line search. ``"theory"``: the paper's ``(b/B)^(2/3)/(6 L_max)``. ``"bb"``: the
        default, renewed from one full batch to the next after Barzilai and Borwein. ``"linesearch"``: from line searches on drawn
        batches, at the start and after 2, 4, 8, ... passes. A step that is not a number is cut when the objective rises.
    sampling : "uniform" or "importance", default "uniform"
        The inner draws: ``"importance"`` draws samples about in proportion to L_i and weighs them so that the mean stays unbiased;
        the mean of the L_i then stands in for L_max.
    exponent : float in [0, 1], optional
        Steps of a stage are ``step (b/B)^exponent``; the paper's theory has 2/3 and ``step = 1/(6 L)``. Default: 0 for a given
        step and for doubling batches, 2/3 for the theory's step and for chosen ones with a fixed B below n or a growing one.
    update : Update, optional
        ``Plain()`` by default.
    output : "last", "random" or "average", default "last"
        The answer: the last iterate, the end of a stage drawn with probability proportional to ``step_j B_j/b_j``, or the
        mean of that draw.

    Notes
    -----
    A stage evaluates ``B + 2 b N`` component gradients (``result.njev``, ``trace.gradients``, passes); the paper counts its
    ``B + b N`` samples (``result.samples``, ``trace.samples``). Walks through kept slices evaluate ``2 B``; both counts agree
    then. With sample weights p the sums stay unbiased: batches weigh
    their samples by p, mini-batches are drawn by p. Works on the mean of losses; the l2 term, prox terms and domains are
    taken exactly.

    References
    ----------
    Lei, Ju, Chen and Jordan, Non-convex finite-sum optimization via SCSG methods, NeurIPS 2017. For the doubling batch:
    Babanezhad et al., Stop wasting my gradients, NeurIPS 2015. Tan, Ma, Dai and Qian, Barzilai-Borwein step size for
    stochastic gradient descent, NeurIPS 2016. Importance sampling: Xiao and Zhang 2014.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = lw.LinearModel(X, np.sign(X[:, 0]), l2=0.01)
    >>> lw.minimize(model, algorithm=lw.SCSG(), tol=1e-6).success
    True
    """

    batch: int | str | None = None
    inner_batch: int | float | None = None
    inner: str = "geometric"
    step: float | str | None = None
    sampling: str = "uniform"
    exponent: float | None = None
    update: Update | None = None
    output: str = "last"

    def __post_init__(self) -> None:
        if isinstance(self.batch, str):
            if self.batch not in ("growing", "doubling"):
                raise ValueError(
                    f"batch must be a number of samples, 'growing', 'doubling' or None, got {self.batch!r}"
                )
        elif self.batch is not None:
            check_count("batch", self.batch)
        check_size("inner_batch", self.inner_batch)
        if self.inner not in ("geometric", "mean", "slices"):
            raise ValueError(f"inner must be 'geometric', 'mean' or 'slices', got {self.inner!r}")
        if self.exponent is not None and not (isinstance(self.exponent, float | int) and 0 <= self.exponent <= 1):
            raise ValueError(f"exponent must be in [0, 1], got {self.exponent!r}")
        self._check_shared()

    def _estimator(self, problem: Robust) -> Staged:
        linear = isinstance(problem.oracle, LinearModel)
        batch = self.batch if self.batch is not None else "doubling" if linear else "growing"
        inner = self.inner_batch if self.inner_batch is not None else 1 if linear else 1.0 / 32.0
        rule, size = (batch, _FIRST) if isinstance(batch, str) else ("fixed", int(batch))
        exponent = self.exponent
        if exponent is None:
            noisy = rule == "growing" or (rule == "fixed" and size < problem.size)
            own = self.step is None or self.step in ("bb", "linesearch")
            exponent = 2.0 / 3.0 if self.step == "theory" or (noisy and own) else 0.0
        return Staged("SnapshotDifference", Rule(size, inner, rule, self.inner, exponent=float(exponent)))

    def _theory(self, problem: Robust) -> float:
        return 1.0 / 6.0


_FIRST = 256  # the first of the doubling batches
