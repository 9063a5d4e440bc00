"""SMVR and PMVR: nested variance reduction on compositions of any depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from leeward._arrays import number
from leeward.algorithms._nested import _GUARD, Nested, check_fraction, check_step_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from leeward._context import RunContext
    from leeward.algorithms._nested import Law
    from leeward.algorithms.updates import Update
    from leeward.domains import Domain

__all__ = ["PMVR", "SMVR", "Stages"]

_NORMS = {"spectral": 1, "fro": 2}
_DIRECTIONS = {"differences": 2, "average": 3}


@dataclass(frozen=True)
class Stages:
    """Stages s = 1, 2, ... of ``max(first 2^(s-1), second 2^((s-1)/2))`` steps (rounded up).

    In stage s the step is ``step 2^(-(s-1)/2)`` and beta is ``beta 2^-(s-1)``; each stage goes on from the last one's point and
    estimates. ``Stages()`` is the doubling that needs no constants, ``T_s = 2^(s-1)``.

    Parameters
    ----------
    first : float, default 1
    second : float, default 0

    References
    ----------
    Jiang, Li, Gao, Wang, Yang and Zhang, Multi-level stochastic variance reduction, 2022, algorithm 2 and lemma 1.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.SMVR(step=0.1, stages=lw.Stages(first=100)).stages
    Stages(first=100, second=0.0)
    """

    first: float = 1.0
    second: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= number(self.first, "first") < 2**60:
            raise ValueError(f"first must be at least 1 and below 2**60, got {self.first!r}")
        if not 0 <= number(self.second, "second") < 2**60:
            raise ValueError(f"second must be at least 0 and below 2**60, got {self.second!r}")


class _Reduced(Nested):
    batch: int
    beta: float | None
    c: float | None
    first_batch: int | None
    decay: str
    period: float | None

    def _check_reduced(self) -> None:
        self._check_shared()
        if self.beta is not None:
            check_fraction("beta", self.beta)
        check_step_size(self.c, "c")
        check_step_size(self.period, "period")
        if self.c is not None and (self.beta is not None or self.step is None):
            raise ValueError("c needs a given step, beta_t = min(1, c step_t^2), and no beta")
        if self.decay not in ("auto", "constant", "cbrt"):
            raise ValueError(f"decay must be 'auto', 'constant' or 'cbrt', got {self.decay!r}")
        if self.decay == "constant" and self.period is not None:
            raise ValueError("period is where a decay sets in: leave it out with decay='constant'")

    def _laws(self, problem: Any) -> tuple[tuple[int, int], Law, list[Law]]:
        """Batches, the size of the steps in units of the first one, and beta."""
        falling = self.decay == "cbrt" or (self.decay == "auto" and (self.step is None or self.period is not None))
        period = self._pass(problem) if self.period is None else float(self.period)
        if self.c is not None and self.step is not None:
            beta = float(self.c) * float(self.step) ** 2
        else:
            usual = 0.1 if getattr(self, "stages", None) is None else 0.5
            beta = usual if self.beta is None else float(self.beta)
        first = self.batch if self.first_batch is None else self.first_batch
        third = 1.0 / 3.0 if falling else 0.0
        return (int(self.batch), int(first)), (1.0, third, period), [(beta, 2.0 * third, period)]


@dataclass(frozen=True)
class SMVR(_Reduced):
    r"""Stochastic multi-level variance reduction: ``min f_K(... f_1(w))`` with O(1) samples a step and O(1/eps^3) in all.

    With ``u_0 = w`` and one fresh draw ``s_i`` of each level, taken at the new and at the last point, for i = 1..K::

        u_i <- f_i(u_{i-1}; s_i) + (1 - beta_t) (u_i^old - f_i(u_{i-1}^old; s_i))
        V_i <- P[J_i(u_{i-1}; s_i) + (1 - beta_t) (V_i^old - J_i(u_{i-1}^old; s_i))]
        w   <- update(w, V_1^T ... V_K^T, step_t),      beta_t = min(1, c step_{t-1}^2)

    The first step takes values and Jacobians as they are.

    Parameters
    ----------
    batch : int, default 32
        Samples of each level in a step, drawn with replacement; all of them, exactly, where a level has no more.
    beta : float in (0, 1], optional
        ``beta_1``; it falls as the square of the step. Default: 0.1, and 0.5 with stages, which must forget their start.
    c : float, optional
        ``beta_t = min(1, c step_{t-1}^2)`` instead, with a given step.
    step : float, optional
        Step size. By default it is found on draws, and cut where the objective rises.
    decay : "auto", "constant" or "cbrt", default "auto"
        ``"cbrt"``: ``step_t = step (1 + t/period)^(-1/3)``. ``"auto"`` is that for a default step or a given period, else constant.
    period : float, optional
        Steps until the decay sets in: a of ``(a + t)^(-1/3)``, with ``step = a^(-1/3)``. Default: the steps of a pass.
    first_batch : int, optional
        Samples of the first step, ``batch`` by default.
    radius : float or sequence of floats, optional
        P puts the computed rows of each ``V_i`` into the ball of this radius (one for all levels, or one each): a bound of the
        Jacobian's norm. By default there is no projection.
    norm : "spectral" or "fro", default "spectral"
        The norm of the ball. A Lipschitz constant bounds the spectral one; its projection clips singular values.
    update : Update, optional
        ``Plain()`` by default; ``AdaGrad(mean=True)``, ``Adam(momentum=0)``, ``AMSGrad(momentum=0)``, ``AdaBound(momentum=0)`` are the
        adaptive forms of the paper (up to the corrections of Adam's first steps).
    stages : Stages or "doubling", optional
        Stage-wise steps instead of ``decay``; ``"doubling"`` is ``Stages()``. See :meth:`pl`.
    output : "last", "random" or "average", default "last"
        The last iterate, one of all with equal chance (as in the theorems), or their mean.

    Notes
    -----
    A step evaluates two values and two Jacobians of each sample of each level. Projections, domains, prox terms and the l2 term are
    exact. Inputs that pass through a level are followed without an identity block.

    References
    ----------
    Jiang, Li, Gao, Wang, Yang and Zhang, Multi-level stochastic variance reduction (Optimal algorithms for stochastic multi-level
    compositional optimization), ICML 2022, algorithms 1 and 2.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> R = np.random.default_rng(0).normal([0.05, 0.02, 0.03], [1.0, 0.2, 0.5], size=(1000, 3))
    >>> result = lw.minimize(lw.MeanDeviation(R), algorithm=lw.SMVR(batch=32, step=0.2), max_passes=20)
    >>> result.counts["values"] == result.counts["jacobians"], result.counts["guards"]
    (True, 0)
    """

    products: ClassVar[bool] = False

    batch: int = 32
    beta: float | None = None
    c: float | None = None
    step: float | None = None
    decay: str = "auto"
    period: float | None = None
    first_batch: int | None = None
    radius: float | Sequence[float] | None = None
    norm: str = "spectral"
    update: Update | None = None
    stages: Stages | str | None = None
    output: str = "last"

    def __post_init__(self) -> None:
        self._check_reduced()
        if self.norm not in _NORMS:
            raise ValueError(f"norm must be 'spectral' or 'fro', got {self.norm!r}")
        if self.radius is None and self.norm != "spectral":
            raise ValueError(f"norm is that of the ball of a radius: give radius too, got norm={self.norm!r} alone")
        if self.radius is not None:
            radii = tuple(self.radius) if isinstance(self.radius, Sequence | np.ndarray) else (self.radius,)
            for radius in radii:
                if not number(radius, "radius") > 0:
                    raise ValueError(f"radius must be positive, got {radius!r}")
        if self.stages is not None and self.stages != "doubling" and not isinstance(self.stages, Stages):
            raise TypeError(f"stages must be Stages(...), 'doubling' or None, got {self.stages!r}")
        if self.stages is not None and (self.decay != "auto" or self.period is not None):
            raise ValueError("stages set the steps: leave out decay and period")

    @classmethod
    def pl(cls, mu: float, smoothness: float, **settings: Any) -> SMVR:
        """The stage-wise method for F with ``2 mu (F - F*) <= |grad F|^2``, with the constants of lemma 1 (from its stage 2 on).

        ``beta = 1/(8 L)``, ``step = sqrt(beta)/(4 L)``, stages of ``max(256 L^2, 90.5 L^1.5/mu) 2^(s-1)`` steps or so, L the
        ``smoothness``. For a convex F whose optimum has ``|x*| <= D``, add ``Composition(..., l2=eps/D^2)`` and take that for mu: the
        optimum is then found to eps in O(1/eps^2).

        Examples
        --------
        >>> import leeward as lw
        >>> lw.SMVR.pl(mu=0.5, smoothness=2.0, batch=1).stages.first
        1024.0
        """
        for name, value in (("mu", mu), ("smoothness", smoothness)):
            if value is None:
                raise TypeError(f"{name} must be a number, got None")
            check_step_size(value, name)
        if taken := sorted({"beta", "step", "stages"} & set(settings)):
            raise TypeError(
                f"pl sets beta, step and stages from mu and smoothness, got {', '.join(taken)}: use SMVR(...) for your own"
            )
        L = float(smoothness)
        beta = min(1.0, 1.0 / (8.0 * L))
        first, second = max(1.0, 256.0 * L**2), 256.0 * L**2 / (float(mu) * math.sqrt(8.0 * L))
        return cls(beta=beta, step=math.sqrt(beta) / (4.0 * L), stages=Stages(first, second), **settings)

    def check(self, problem: Any, domain: Domain | None) -> None:
        super().check(problem, domain)
        if isinstance(self.radius, Sequence | np.ndarray) and len(self.radius) != problem.depth:
            raise ValueError(f"radius must hold one number for each of {problem.depth} levels, got {len(self.radius)}")

    def _exact(self) -> bool:
        return self.radius is None

    def _make(self, context: RunContext) -> Callable[[Any, int], Any]:
        stages = Stages() if self.stages == "doubling" else self.stages
        lengths = (float(stages.first), float(stages.second)) if isinstance(stages, Stages) else (0.0, 0.0)

        def make(problem: Any, seed: int) -> Any:
            if self.radius is None:
                ball: tuple[int, list[float]] = (0, [])
            elif isinstance(self.radius, Sequence | np.ndarray):
                ball = (_NORMS[self.norm], [float(r) for r in self.radius])
            else:
                ball = (_NORMS[self.norm], [float(self.radius)] * problem.depth)
            return problem.tracked(seed, self._laws(problem), lengths, _GUARD, (0, *ball, 0, 0.0))

        return make


@dataclass(frozen=True)
class PMVR(_Reduced):
    r"""Variance reduction of the whole product: SMVR for levels that answer products with their Jacobians only, in O(d) memory.

    Values as in :class:`SMVR`; with ``g`` and ``g^old`` the products of the sampled Jacobians at the new and at the last
    estimates, on the same draws::

        v <- g + (1 - beta_t) (v_old - g^old),      w <- update(w, v, step_t)

    and with ``direction="average"`` the moving average ``v <- (1 - beta_t) v_old + beta_t g``.

    Parameters
    ----------
    batch, beta, c, step, decay, period, first_batch, update, output
        As for :class:`SMVR`.
    direction : "differences" or "average", default "differences"
        How v is followed. The average needs products at the new estimates only; it lags behind where w moves fast.

    Notes
    -----
    A step evaluates two values and two Jacobians or products (one with ``direction="average"``) of each sample of each level. That the
    recursion is kept on the product is an extension: the analysis of SMVR tracks each Jacobian.

    References
    ----------
    After Jiang, Li, Gao, Wang, Yang and Zhang, Multi-level stochastic variance reduction, ICML 2022.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> A = np.array([[1.0, 0.0], [1.0, 2.0], [0.0, 1.0]])
    >>> inner = lw.FunctionLevel(
    ...     lambda u, index: np.tanh(A[index] @ u).mean(keepdims=True),
    ...     vjp=lambda u, weights, index: weights[0] * ((1 - np.tanh(A[index] @ u) ** 2) @ A[index]) / index.size,
    ...     inputs=2, outputs=1, size=3)
    >>> problem = lw.Composition([inner, lw.ElementwiseLevel("exp")])
    >>> result = lw.minimize(problem, algorithm=lw.PMVR(batch=1, step=0.1), max_passes=100)
    >>> bool(result.fun < problem.value([0.0, 0.0])), result.counts["products"] > 0
    (True, True)
    """

    batch: int = 32
    beta: float | None = None
    c: float | None = None
    step: float | None = None
    decay: str = "auto"
    period: float | None = None
    first_batch: int | None = None
    update: Update | None = None
    output: str = "last"
    direction: str = "differences"

    def __post_init__(self) -> None:
        self._check_reduced()
        if not isinstance(self.direction, str) or self.direction not in _DIRECTIONS:
            raise ValueError(f"direction must be 'differences' or 'average', got {self.direction!r}")

    def _exact(self) -> bool:
        return self.direction == "differences"

    def _make(self, context: RunContext) -> Callable[[Any, int], Any]:
        def make(problem: Any, seed: int) -> Any:
            rule = _DIRECTIONS[self.direction]
            return problem.tracked(seed, self._laws(problem), (0.0, 0.0), _GUARD, (rule, 0, [], 0, 0.0))

        return make
