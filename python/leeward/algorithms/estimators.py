"""Estimators of the gradient of a robust risk; the native twins are in csrc/include/leeward/estimator/."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from leeward.problems import Robust

__all__ = ["Estimator", "Minibatch"]


class Estimator:
    """Base of the estimators: settings, and ``start`` which makes the native estimator of one run."""

    def start(self, problem: Robust, seed: int) -> Any:
        """The native estimator for this problem and seed."""
        raise NotImplementedError

    def cost(self, problem: Robust) -> float:
        """Mean number of component evaluations a step."""
        raise NotImplementedError

    @property
    def staged(self) -> bool:
        """Whether steps differ in cost, so that points of a run are counted in evaluations instead."""
        return False

    def prober(self, problem: Robust, seed: int) -> Any:
        """A native mini-batch of the size of a step's, for choosing the step; may be what ``start`` makes."""
        return self.start(problem, seed)


@dataclass(frozen=True)
class Minibatch(Estimator):
    """The gradient of the risk of a random batch: ``g = sum_k q_k grad l(w; S_k)``, q the worst-case weights of the batch.

    Its mean is the gradient of the surrogate ``E R(l(w; S_1..S_n))``, which lies below ``R`` by O(1/sqrt n) for CVaR and
    O(1/n) for the chi-square penalty, and not at all for the mean.

    Parameters
    ----------
    n : int, default 64
        Samples in a batch; with ``replace=False`` at most the number of samples of positive weight are used.
    replace : bool, default True
        With replacement, the n samples are independent draws from the base distribution p (a sample with twice the
        weight is drawn twice as often, so that weights do the same as repeated rows), and the batch's base weights are
        uniform. Without replacement, samples of positive weight are drawn with equal chance and keep their sample weights as
        base weights of the batch; a batch of all samples gives the exact gradient.

    Notes
    -----
    With groups the batch is stratified: ``min(n, G)`` groups are drawn without replacement (all of them when ``n >= G``), and
    ``ceil(n / G)`` samples from each according to their weights; the risk is taken of the batch's group means.

    References
    ----------
    Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020, section 3.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.Minibatch(500)
    Minibatch(n=500, replace=True)
    """

    n: int = 64
    replace: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int | np.integer):
            raise TypeError(f"n must be an integer, got {self.n!r}")
        if self.n < 1:
            raise ValueError(f"n must be at least 1, got {self.n}")
        if self.n >= 2**31:
            raise ValueError(f"n must be below 2**31, got {self.n}")
        if not isinstance(self.replace, bool | np.bool_):
            raise TypeError(f"replace must be True or False, got {self.replace!r}")

    def start(self, problem: Robust, seed: int) -> Any:
        return problem.minibatch(int(self.n), bool(self.replace), seed)

    def cost(self, problem: Robust) -> float:
        return float(self.start(problem, 0).size)
