"""Baselines for compositions that follow values by moving averages: SCGD, ASC-PG, A-TSCGD, NASA and NLASG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from leeward._arrays import number
from leeward.algorithms._nested import _GUARD, Nested, check_fraction, check_step_size
from leeward.algorithms.updates import Update

if TYPE_CHECKING:
    from collections.abc import Callable

    from leeward._context import RunContext

__all__ = ["ASCPG", "ATSCGD", "NASA", "NLASG", "SCGD"]

_SCGD, _ATSCGD, _NASA, _NLASG = range(4)


@dataclass(frozen=True)
class SCGD(Nested):
    r"""Stochastic compositional gradient descent, for any depth.

    With ``b_t = (1 + t)^(-1/2)`` at step t = 0, 1, ... and step sizes ``step (1 + t)^(-3/4)``::

        u_i <- (1 - b_{t-1}) u_i + b_{t-1} f_i(u_{i-1}; s_i),      w <- prox(w - step_t J_1^T ... J_K^T)

    Parameters
    ----------
    batch : int, default 32
        Samples of each level in a step.
    step : float, optional
        Found on draws by default.
    period : float, default 1
        Steps until the sequences fall: ``1 + t/period`` in place of ``1 + t``.

    Notes
    -----
    A step evaluates one value and one Jacobian (or product) of each sample of each level. The paper is about two levels.

    References
    ----------
    Wang, Fang and Liu, Stochastic compositional gradient descent, Mathematical Programming 2017.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> R = np.random.default_rng(0).normal([0.05, 0.02, 0.03], [1.0, 0.2, 0.5], size=(1000, 3))
    >>> problem = lw.MeanDeviation(R)
    >>> result = lw.minimize(problem, algorithm=lw.SCGD(step=0.5), max_passes=10)
    >>> bool(result.fun < problem.value(problem.start()))
    True
    """

    evaluations: ClassVar[float] = 1.0

    batch: int = 32
    step: float | None = None
    period: float = 1.0

    def __post_init__(self) -> None:
        self._check_shared()
        check_step_size(number(self.period, "period"), "period")

    def _make(self, context: RunContext) -> Callable[[Any, int], Any]:
        period, batch = float(self.period), int(self.batch)
        laws = (batch, batch), (1.0, 0.75, period), [(1.0, 0.5, period)]
        return lambda problem, seed: problem.averaged(seed, laws, _GUARD, _SCGD)


@dataclass(frozen=True)
class ATSCGD(Nested):
    r"""Accelerated T-level stochastic compositional gradient descent.

    Values are followed at extrapolated points on draws of their own, for i < K::

        z_i = (1 - 1/b_i) u_{i-1}^old + (1/b_i) u_{i-1},      u_i <- (1 - b_i) u_i + b_i f_i(z_i; s'_i)
        w   <- prox(w - step_t J_1^T ... J_K^T)

    with ``b_{i,t} = min(1, 2 t^(-(3+K-i)/(7+K)))`` and steps ``step (1 + t)^(-(3+K)/(7+K))``.

    Parameters
    ----------
    batch : int, default 32
        Samples of each draw.
    step : float, optional
        Found on draws by default.
    strongly_convex : bool, default False
        The exponents for strongly convex F: 3 + K in place of 7 + K.
    period : float, default 1
        Steps until the sequences fall: ``1 + t/period`` in place of ``1 + t``.

    Notes
    -----
    A step evaluates one value (but of the last level) and one Jacobian or product of each level, on two draws. Extrapolated points
    can leave a level's domain; its guard acts on them too.

    References
    ----------
    Yang, Wang and Fang, Multilevel stochastic gradient methods for nested composition optimization, SIAM Journal on Optimization 2019.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> R = np.random.default_rng(0).normal([0.05, 0.02, 0.03], [1.0, 0.2, 0.5], size=(1000, 3))
    >>> problem = lw.MeanDeviation(R)
    >>> result = lw.minimize(problem, algorithm=lw.ATSCGD(step=0.5), max_passes=10)
    >>> bool(result.fun < problem.value(problem.start()))
    True
    """

    evaluations: ClassVar[float] = 1.0

    batch: int = 32
    step: float | None = None
    strongly_convex: bool = False
    period: float = 1.0

    def __post_init__(self) -> None:
        self._check_shared()
        if not isinstance(self.strongly_convex, bool):
            raise TypeError(f"strongly_convex must be True or False, got {self.strongly_convex!r}")
        check_step_size(number(self.period, "period"), "period")

    def _make(self, context: RunContext) -> Callable[[Any, int], Any]:
        problem: Any = context.problem
        K, period, batch = problem.depth, float(self.period), int(self.batch)
        below = 3.0 + K if self.strongly_convex else 7.0 + K
        betas = [(2.0, (3.0 + K - i) / below, period) for i in range(1, K + 1)]
        laws = (batch, batch), (1.0, (3.0 + K) / below, period), betas
        return lambda problem, seed: problem.averaged(seed, laws, _GUARD, _ATSCGD)


@dataclass(frozen=True)
class ASCPG(ATSCGD):
    r"""Accelerated stochastic compositional proximal gradient: :class:`ATSCGD` for one or two levels.

    ``b_t = min(1, 2 t^(-4/9))`` and steps ``step (1 + t)^(-5/9)`` for two levels, ``b_t = min(1, 2 t^(-4/5))`` and ``step (1 + t)^-1``
    where F is strongly convex.

    Parameters
    ----------
    batch, step, strongly_convex, period
        As for :class:`ATSCGD`.

    References
    ----------
    Wang, Liu and Fang, Accelerating stochastic composition optimization, Journal of Machine Learning Research 2017.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> a = np.random.default_rng(0).normal(1.0, 0.5, size=100)
    >>> inner = lw.FunctionLevel(lambda u, index: u - a[index].mean(), lambda u, index: np.eye(1), inputs=1, outputs=1, size=100)
    >>> problem = lw.Composition([inner, lw.ElementwiseLevel("power", exponent=2.0)])
    >>> result = lw.minimize(problem, algorithm=lw.ASCPG(batch=8, step=0.2), max_passes=100)
    >>> bool(result.fun < 0.01 * problem.value([0.0]))
    True
    """

    deepest: ClassVar[int | None] = 2


@dataclass(frozen=True)
class _Share(Update):
    """The native move ``w <- w + share (prox(w - step d) - w)``."""

    name: ClassVar[str] = "relaxed"
    share: float = 0.1

    def native(self) -> tuple[str, list[float]]:
        return self.name, [self.share]


class _Linearised(Nested):
    evaluations: ClassVar[float] = 1.0
    rule: ClassVar[int]
    batch: int
    tau: float | None

    def _check_linearised(self) -> None:
        self._check_shared()
        if self.tau is not None:
            check_fraction("tau", self.tau)

    def _share(self, context: RunContext) -> float:
        """tau: 1 over the square root of the number of steps in the budget."""
        if self.tau is not None:
            return float(self.tau)
        passes = context.max_passes
        if passes is None or math.isinf(passes):
            passes = 1000.0
        return 1.0 / math.sqrt(max(1.0, passes * self._pass(context.problem)))

    def _update(self, context: RunContext) -> Update:
        return _Share(self._share(context))

    def _make(self, context: RunContext) -> Callable[[Any, int], Any]:
        batch, share = int(self.batch), self._share(context)
        laws = (batch, batch), (1.0, 0.0, 1.0), [(share, 0.0, 1.0)]
        return lambda problem, seed: problem.averaged(seed, laws, _GUARD, self.rule)


@dataclass(frozen=True)
class NLASG(_Linearised):
    r"""Nested linearised averaging of stochastic gradients.

    With Jacobians and values at the last estimates, and J_i drawn with f_i::

        u_i <- (1 - tau) u_i + tau f_i(u_{i-1}^old; s_i) + J_i (u_{i-1} - u_{i-1}^old)
        d   <- (1 - tau) d + tau J_1^T ... J_K^T,      w <- w + tau (prox(w - step d) - w)

    Parameters
    ----------
    batch : int, default 32
        Samples of each level in a step.
    tau : float in (0, 1], optional
        By default 1 over the square root of the number of steps that the budget allows.
    step : float, optional
        ``1/beta`` of the paper. Found on draws by default.

    Notes
    -----
    A step evaluates one value and one Jacobian of each sample of each level. A level that answers products only needs a ``jvp`` too.

    References
    ----------
    Balasubramanian, Ghadimi and Nguyen, Stochastic multilevel composition optimization algorithms with level-independent convergence
    rates, SIAM Journal on Optimization 2022.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> R = np.random.default_rng(0).normal([0.05, 0.02, 0.03], [1.0, 0.2, 0.5], size=(1000, 3))
    >>> problem = lw.MeanDeviation(R)
    >>> result = lw.minimize(problem, algorithm=lw.NLASG(step=1.0), max_passes=10)
    >>> bool(result.fun < problem.value(problem.start()))
    True
    """

    rule: ClassVar[int] = _NLASG

    batch: int = 32
    tau: float | None = None
    step: float | None = None

    def __post_init__(self) -> None:
        self._check_linearised()

    def check(self, problem: Any, domain: Any) -> None:
        super().check(problem, domain)
        if not all(level.pushes for level in problem.levels):
            raise ValueError("NLASG needs Jacobians or a jvp of each level; use PMVR")


@dataclass(frozen=True)
class NASA(_Linearised):
    r"""Nested averaged stochastic approximation, for one or two levels.

    ::

        u_1 <- (1 - tau) u_1 + tau f_1(w; s_1),      d <- (1 - tau) d + tau J_1(w; s_1)^T J_2(u_1^old; s_2)^T
        w   <- w + tau (prox(w - step d) - w)

    Parameters
    ----------
    batch : int, default 32
    tau : float in (0, 1], optional
        By default 1 over the square root of the number of steps that the budget allows.
    step : float, optional
        ``1/beta`` of the paper. Found on draws by default.

    References
    ----------
    Ghadimi, Ruszczynski and Wang, A single timescale stochastic approximation method for nested stochastic optimization, SIAM Journal on
    Optimization 2020.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> a = np.random.default_rng(0).normal(1.0, 0.5, size=100)
    >>> inner = lw.FunctionLevel(lambda u, index: u - a[index].mean(), lambda u, index: np.eye(1), inputs=1, outputs=1, size=100)
    >>> problem = lw.Composition([inner, lw.ElementwiseLevel("power", exponent=2.0)])
    >>> result = lw.minimize(problem, algorithm=lw.NASA(batch=8, step=0.4, tau=0.1), max_passes=100)
    >>> bool(result.fun < 0.1 * problem.value([0.0]))
    True
    """

    rule: ClassVar[int] = _NASA
    deepest: ClassVar[int | None] = 2

    batch: int = 32
    tau: float | None = None
    step: float | None = None

    def __post_init__(self) -> None:
        self._check_linearised()
