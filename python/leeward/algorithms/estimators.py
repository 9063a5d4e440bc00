"""Estimators of the gradient of a robust risk; the native twins are in csrc/include/leeward/estimator/."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._arrays import count, number
from leeward.problems import Sinkhorn
from leeward.risks import Worst

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.problems import Robust

__all__ = ["MLMC", "RTMLMC", "Estimator", "GrowingBatch", "Minibatch"]


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

    @property
    def noisy(self) -> bool:
        """Whether directions of a mean of losses, too, stay noisy to the end, so that steps have to fall."""
        return False

    def exact(self, problem: Any) -> bool:
        """Whether the run is gradient descent, under a right step of which the objective never rises."""
        return False

    @property
    def remembers(self) -> bool:
        """Whether a direction depends on those asked for before, so that the step is chosen with ``prober`` instead."""
        return False

    def prober(self, problem: Robust, seed: int) -> Any:
        """A native mini-batch of the size of a step's, for choosing the step; may be what ``start`` makes."""
        return self.start(problem, seed)

    def cut(self, memory: NDArray[np.float64], factor: float) -> None:
        """Changes the native estimator's memory, in place, when a run goes on with a default step ``factor`` times as long."""


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
    reshuffle : bool, default False
        With ``replace=False``: batches follow each other through a random order of all samples, drawn anew when all have been
        seen (the batch that ends one order begins the next), as most training loops do. Errors of the batches of a pass then
        cancel in part, so that large batches allow larger steps near the optimum; theory is for independent batches.

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
    reshuffle: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int | np.integer):
            raise TypeError(f"n must be an integer, got {self.n!r}")
        if self.n < 1:
            raise ValueError(f"n must be at least 1, got {self.n}")
        if self.n >= 2**31:
            raise ValueError(f"n must be below 2**31, got {self.n}")
        if not isinstance(self.replace, bool | np.bool_):
            raise TypeError(f"replace must be True or False, got {self.replace!r}")
        if not isinstance(self.reshuffle, bool | np.bool_):
            raise TypeError(f"reshuffle must be True or False, got {self.reshuffle!r}")
        if self.reshuffle and self.replace:
            raise ValueError("reshuffle=True goes through the samples without replacement: give replace=False as well")

    def __repr__(self) -> str:
        reshuffle = ", reshuffle=True" if self.reshuffle else ""
        return f"Minibatch(n={self.n!r}, replace={self.replace!r}{reshuffle})"

    def start(self, problem: Robust, seed: int) -> Any:
        return problem.minibatch(int(self.n), bool(self.replace), seed, reshuffle=bool(self.reshuffle))

    def cost(self, problem: Robust) -> float:
        return float(self.start(problem, 0).size)


@dataclass(frozen=True)
class MLMC(Estimator):
    r"""Multi-level Monte Carlo: the gradient of the surrogate of ``n_max`` samples, without its bias, at the mean cost of few.

    With ``F(S) = sum_i q_i grad l(w; S_i)``, q the worst-case weights of the batch S, a level J with ``P(J=j) = 2^-j`` for
    ``j < levels`` and ``P(J=levels) = 2^-(levels-1)``, and ``k = 2^J n0`` independent draws from the base weights::

        M = F(S_1..S_n0) + (F(S_1..S_k) - F(S_1..S_k/2)/2 - F(S_k/2+1..S_k)/2) / P(J)

    The mean of M is that of ``Minibatch(2^levels n0)``, and its mean cost ``n0 (1 + levels)``. All four risks are of one batch: one
    evaluation of its losses and one signed weighted gradient.

    Parameters
    ----------
    n0 : int, default 8
        Samples of the lowest level.
    n_max : int, default 4096
        Samples of the highest one: rounded down to ``2^levels n0``, at least ``2 n0``.

    Warns
    -----
    UserWarning
        On a radius form, and on ``Worst``, which can put any weight on one sample: a few draws of high levels then dominate all others.

    Notes
    -----
    Samples are drawn with replacement; groups are not supported.

    References
    ----------
    Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020, section 4.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.MLMC(10, 5000).levels
    8
    """

    n0: int = 8
    n_max: int = 4096

    def __post_init__(self) -> None:
        least = count(self.n0, "n0", 1)
        most = count(self.n_max, "n_max", 1)
        if most < 2 * least:
            raise ValueError(f"n_max must be at least 2 n0 = {2 * least}, got {most}")
        if most >= 2**31:
            raise ValueError(f"n_max must be below 2**31, got {most}")

    @property
    def levels(self) -> int:
        """Number of levels above the lowest: ``floor(log2(n_max / n0))``."""
        return (int(self.n_max) // int(self.n0)).bit_length() - 1

    @property
    def staged(self) -> bool:
        return True

    def start(self, problem: Robust, seed: int) -> Any:
        risk = problem.risk
        radius = getattr(risk, "radius", None) is not None and getattr(risk, "penalty", None) is None
        if radius or isinstance(risk, Worst):
            warnings.warn(
                f"the multi-level estimates of {risk!r} have no bounded variance: it can put any weight on one sample; use "
                "Minibatch, a penalty form, or Doubling for a chi-square radius",
                UserWarning,
                stacklevel=2,
            )
        return problem.mlmc(int(self.n0), self.levels, seed)

    def cost(self, problem: Robust) -> float:
        return float(self.n0 * (1 + self.levels))

    def prober(self, problem: Robust, seed: int) -> Any:
        return problem.minibatch(int(self.n0) * (1 + self.levels), True, seed)


@dataclass(frozen=True)
class GrowingBatch(Estimator):
    """A mini-batch of ``ceil(n0 growth^t)`` samples at step t, up to all samples, from where directions are exact.

    Early steps are cheap, late ones have neither bias nor noise: the work of a run is that of its last few steps.

    Parameters
    ----------
    n0 : int, default 32
        Samples at the first step.
    growth : float, default 1.05
        Factor a step, at least 1.

    Notes
    -----
    Samples are drawn with replacement until the batch is all samples; groups are not supported.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.GrowingBatch(100, growth=1.1)
    GrowingBatch(n0=100, growth=1.1)
    """

    n0: int = 32
    growth: float = 1.05

    def __post_init__(self) -> None:
        count(self.n0, "n0", 1)
        rate = number(self.growth, "growth")
        if not (math.isfinite(rate) and 1.0 <= rate <= 1e6):
            raise ValueError(f"growth must be in [1, 1e6], got {self.growth}")

    @property
    def staged(self) -> bool:
        return True

    def start(self, problem: Robust, seed: int) -> Any:
        return problem.growing_batch(int(self.n0), float(self.growth), seed)

    def cost(self, problem: Robust) -> float:
        return float(min(self.n0, problem.size))

    def prober(self, problem: Robust, seed: int) -> Any:
        return problem.minibatch(int(min(self.n0, problem.size)), True, seed)


@dataclass(frozen=True)
class RTMLMC(Estimator):
    r"""Multi-level Monte Carlo in the number of draws of a :class:`Sinkhorn` problem: many points without their price or their bias.

    A worst case over m drawn points is, on average, below that over the kernel. With ``G_m`` the gradient of a sample's Psi on m
    points, a level L with ``P(L >= j) = 2^(-3 (j - 1)/2)`` for each of n samples, and ``k = 2^L m0`` points around it::

        G = G_m0 + (G_k - (G_first half + G_second half)/2) / P(L)

    The mean of G is that of ``G_m_max``, at a mean cost of about ``4.4 m0`` points a sample. Its variance stays bounded as m_max grows,
    for KL, chi-square and the other penalties with weights that are smooth in the losses: what bias is left, of order ``1/m_max``, costs
    next to nothing to make smaller.

    Parameters
    ----------
    n : int, default 64
        Samples a step.
    m0 : int, default 4
        Points of the lowest level.
    m_max : int, default 65536
        Points of the highest one: rounded down to ``2^levels m0``, at least ``2 m0``.

    Notes
    -----
    For ``SGD(RTMLMC(...))``, ``Nesterov``, and as ``NestedSGD(inner="mlmc")``. Points are new at each step; a problem with common draws has
    no use for it. As many points as the problem has draws count as one evaluation.

    References
    ----------
    Hu, Chen and He, On the bias-variance-cost tradeoff of stochastic optimization, 2021; Wang, Gao and Xie, Sinkhorn distributionally
    robust optimization, 2021, section 4.1 (RT-MLMC); Blanchet and Glynn, 2015.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)); y = np.sign(X @ [1.0, -2.0, 0.5] + rng.normal(size=200))
    >>> problem = lw.Sinkhorn(lw.LinearModel(X, y, l2=0.01), "kl", noise=0.3)
    >>> result = lw.minimize(problem, algorithm=lw.SGD(lw.RTMLMC(16)), max_passes=20)
    >>> bool(result.fun < problem.value(np.zeros(4)))
    True
    """

    n: int = 64
    m0: int = 4
    m_max: int = 65536

    def __post_init__(self) -> None:
        count(self.n, "n", 1)
        least = count(self.m0, "m0", 1)
        most = count(self.m_max, "m_max", 1)
        if most < 2 * least:
            raise ValueError(f"m_max must be at least 2 m0 = {2 * least}, got {most}")
        if most > 2**31 or self.levels > 30:
            raise ValueError(f"m_max must be at most 2**31 and 2**30 m0, got {most}")

    @property
    def levels(self) -> int:
        """Number of levels above the lowest: ``floor(log2(m_max / m0))``."""
        return (int(self.m_max) // int(self.m0)).bit_length() - 1

    @property
    def staged(self) -> bool:
        return True

    @property
    def noisy(self) -> bool:
        return True

    def start(self, problem: Robust, seed: int) -> Any:
        return _sinkhorn(problem).draws_mlmc(int(self.n), int(self.m0), self.levels, seed)

    def cost(self, problem: Robust) -> float:
        rate, chance, points = 2.0**-1.5, 1.0, 0.0
        for level in range(1, self.levels + 1):
            points += self.m0 * 2.0**level * chance * (1.0 - rate if level < self.levels else 1.0)
            chance *= rate
        return max(1.0, self.n * points / int(_sinkhorn(problem).draws))

    def prober(self, problem: Robust, seed: int) -> Any:
        return _sinkhorn(problem).nested(int(self.n), True, seed, 4 * int(self.m0))


def _sinkhorn(problem: Robust) -> Any:
    if not isinstance(problem, Sinkhorn):
        raise ValueError(f"RTMLMC is for Sinkhorn problems, got {type(problem).__name__}; use MLMC")
    return problem
