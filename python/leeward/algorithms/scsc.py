"""SCSC and Nested-SPIDER: baselines that follow values by differences at two points of one draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from leeward._arrays import count
from leeward.algorithms._nested import _GUARD, Nested, check_fraction, check_step_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from leeward._context import RunContext
    from leeward.algorithms.updates import Update

__all__ = ["SCSC", "NestedSPIDER"]


@dataclass(frozen=True)
class SCSC(Nested):
    r"""Stochastically corrected stochastic compositional gradients.

    The values of :class:`SMVR`, with Jacobians as they are drawn::

        u_i <- f_i(u_{i-1}; s_i) + (1 - beta) (u_i^old - f_i(u_{i-1}^old; s_i)),   w <- update(w, J_1^T ... J_K^T, step)

    Parameters
    ----------
    batch : int, default 32
        Samples of each level in a step.
    beta : float in (0, 1], default 0.1
    step : float, optional
        Found on draws by default.
    decay : "auto", "constant" or "sqrt", default "auto"
        ``"sqrt"``: ``step_t = step (1 + t/m)^(-1/2)`` and ``beta_t = beta (1 + t/m)^(-1/2)``, m the steps a pass. ``"auto"`` is that for a
        default step, else constant.
    first_batch : int, optional
    update : Update, optional
        ``Plain()`` by default; ``AMSGrad()`` is the adaptive form of the paper.
    output : "last", "random" or "average", default "last"

    Notes
    -----
    A step evaluates two values and one Jacobian (or product) of each sample of each level.

    References
    ----------
    Chen, Sun and Yin, Solving stochastic compositional optimization is nearly as easy as solving stochastic optimization, IEEE
    Transactions on Signal Processing 2021.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> R = np.random.default_rng(0).normal([0.05, 0.02, 0.03], [1.0, 0.2, 0.5], size=(1000, 3))
    >>> result = lw.minimize(lw.MeanDeviation(R), algorithm=lw.SCSC(step=0.1), max_passes=10)
    >>> result.counts["values"] > result.counts["jacobians"]
    True
    """

    batch: int = 32
    beta: float = 0.1
    step: float | None = None
    decay: str = "auto"
    first_batch: int | None = None
    update: Update | None = None
    output: str = "last"

    def __post_init__(self) -> None:
        self._check_shared()
        check_fraction("beta", self.beta)
        if self.decay not in ("auto", "constant", "sqrt"):
            raise ValueError(f"decay must be 'auto', 'constant' or 'sqrt', got {self.decay!r}")

    def _make(self, context: RunContext) -> Callable[[Any, int], Any]:
        falling = self.decay == "sqrt" or (self.decay == "auto" and self.step is None)
        half, first = 0.5 if falling else 0.0, self.batch if self.first_batch is None else self.first_batch

        def make(problem: Any, seed: int) -> Any:
            period = self._pass(problem)
            laws = (int(self.batch), int(first)), (1.0, half, period), [(float(self.beta), half, period)]
            return problem.tracked(seed, laws, (0.0, 0.0), _GUARD, (1, 0, [], 0, 0.0))

        return make


@dataclass(frozen=True)
class NestedSPIDER(Nested):
    r"""Nested SPIDER: values and Jacobians restarted from large batches, followed by differences in between.

    Every ``period`` steps ``u_i = f_i(u_{i-1}; S_i)``, ``V_i = J_i(u_{i-1}; S_i)`` over ``big`` samples; else, on a draw of ``batch``
    samples at the new and at the last point::

        u_i <- u_i + f_i(u_{i-1}; s_i) - f_i(u_{i-1}^old; s_i),      V_i <- V_i + J_i(u_{i-1}; s_i) - J_i(u_{i-1}^old; s_i)

    Parameters
    ----------
    batch : int, default 32
    big : int, default 1024
        Samples of each level at a restart.
    period : int, default 32
    step : float, optional
        Found on draws by default.
    length : float, optional
        Longest move: the step is ``min(step, length/|v|)``, with a given step.

    Notes
    -----
    A step evaluates two values and two Jacobians of each sample of each level, a restart one of each.

    References
    ----------
    Zhang and Xiao, MultiLevel composite stochastic optimization via nested variance reduction, SIAM Journal on Optimization 2021.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> R = np.random.default_rng(0).normal([0.05, 0.02, 0.03], [1.0, 0.2, 0.5], size=(1000, 3))
    >>> problem = lw.MeanDeviation(R)
    >>> result = lw.minimize(problem, algorithm=lw.NestedSPIDER(step=0.1, length=0.01), max_passes=10)
    >>> bool(result.fun < problem.value(problem.start()))
    True
    """

    products: ClassVar[bool] = False

    batch: int = 32
    big: int = 1024
    period: int = 32
    step: float | None = None
    length: float | None = None

    def __post_init__(self) -> None:
        self._check_shared()
        for name, value in (("big", self.big), ("period", self.period)):
            if count(value, name, 1) >= 2**31:
                raise ValueError(f"{name} must be below 2**31, got {value}")
        check_step_size(self.length, "length")
        if self.length is not None and self.step is None:
            raise ValueError("length needs a given step")

    def _make(self, context: RunContext) -> Callable[[Any, int], Any]:
        reach = 0.0 if self.length is None or self.step is None else float(self.length) / float(self.step)

        def make(problem: Any, seed: int) -> Any:
            laws = (int(self.batch), int(self.big)), (1.0, 0.0, 1.0), [(1.0, 0.0, 1.0)]
            return problem.tracked(seed, laws, (0.0, 0.0), _GUARD, (0, 0, [], int(self.period), reach))

        return make
