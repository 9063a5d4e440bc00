"""Nested stochastic gradient descent on Sinkhorn problems: an inner solution a sample, a step on the mean of their gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from leeward._arrays import count, number
from leeward.algorithms._stochastic import Settings, check_step, check_update, descend
from leeward.algorithms.base import Stochastic
from leeward.algorithms.estimators import RTMLMC, Estimator, Minibatch
from leeward.algorithms.updates import Plain, Update
from leeward.problems import Sinkhorn
from leeward.problems._transport import positive

if TYPE_CHECKING:
    from leeward._context import RunContext
    from leeward.domains import Domain
    from leeward.problems import Robust

__all__ = ["NestedSGD"]

_INNER = ("exact", "bisection", "sgd", "mlmc")
_POINTS = 65536  # of the highest level of "mlmc"
_OUTPUTS = ("average", "last", "random")


@dataclass(frozen=True)
class NestedSGD(Stochastic):
    r"""Nested SGD for :class:`Sinkhorn` problems.

    A step draws a batch of samples and points around each, solves each sample's inner problem in its eta, and moves along the
    mean of ``E r grad l`` with ``r = (f*)'((l - lam c - eta)/(lam eps))``.

    Parameters
    ----------
    batch : int, default 64
        Samples a step.
    draws : int, optional
        Points a sample, those of the problem by default.
    inner : "exact", "bisection", "sgd" or "mlmc", default "exact"
        How the inner problem on the drawn points is solved: exactly; by bisection to ``1e-12``, which gives the same and is
        slower; or by ``inner_steps`` gradient steps on eta from where the sample's last visit left it, of which the eta of
        smallest residual ``|1 - mean r|`` is taken (algorithm 1 of the paper). With ``"mlmc"`` it is solved exactly on random numbers of
        points, such that the step has the mean of one on 65536 points (:class:`RTMLMC`, whose lowest level are the draws).
    inner_steps : int, default 8
        Steps on eta, for ``"sgd"``.
    inner_step : float, optional
        Size of these steps. By default ``lam eps`` over the smoothness of f* (1, or 1/(4 alpha) for SmoothedCVaR below alpha = 1/4).
    step : float, optional
        Step size of w; chosen as for :class:`SGD` by default.
    update : Update, optional
        How w moves: ``Plain()`` by default, ``NesterovMomentum()``, ``Adam()`` and the others of :class:`SGD`.
    output : "average", "last" or "random", default "average"
        The polynomial-decay average of the iterates, the last one, or one drawn with equal chance (as the theorems have it).
    decay : "auto", "constant" or "sqrt", default "auto"
        As for :class:`SGD`.
    inner_start : float, optional
        eta at a sample's first visit, for ``"sgd"``; by default the mean of its shifted losses ``l - lam c``. A step up
        to more than ``lam eps`` above the largest of them ends at the largest instead, since the solution is not above it.

    Notes
    -----
    Unless the problem's draws are common, points are new at each step, and 50 passes are made; ``result.gap`` is about the
    common draws, which such a run does not see, so there is no tolerance by default. With common draws the rules are those of
    :class:`SGD`. Evaluations are counted in samples: each costs the losses and the gradient of its m points.

    References
    ----------
    Yang, Zhou and Lu, Nested stochastic algorithm for generalized Sinkhorn distance-regularized distributionally robust optimization,
    2025, algorithms 1 and 2; the rule of the smallest residual as its theorem needs it.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)); y = np.sign(X @ [1.0, -2.0, 0.5] + rng.normal(size=200))
    >>> problem = lw.Sinkhorn(lw.LinearModel(X, y, l2=0.01), "chi2", noise=0.3)
    >>> result = lw.minimize(problem, algorithm=lw.NestedSGD(16, inner="sgd"), max_passes=10)
    >>> bool(result.fun < problem.value(np.zeros(4)))
    True
    """

    batch: int = 64
    draws: int | None = None
    inner: str = "exact"
    inner_steps: int = 8
    inner_step: float | None = None
    step: float | None = None
    update: Update | None = None
    output: str = "average"
    decay: str = "auto"
    inner_start: float | None = None

    def __post_init__(self) -> None:
        count(self.batch, "batch", 1)
        if self.draws is not None:
            count(self.draws, "draws", 1)
        if self.inner not in _INNER:
            raise ValueError(f"inner must be 'exact', 'bisection', 'sgd' or 'mlmc', got {self.inner!r}")
        count(self.inner_steps, "inner_steps", 1)
        if self.inner_step is not None:
            positive(self.inner_step, "inner_step")
            if self.inner != "sgd":
                raise ValueError(f"inner_step is for inner='sgd', got inner={self.inner!r}")
        if self.inner_start is not None:
            if not math.isfinite(number(self.inner_start, "inner_start")):
                raise ValueError(f"inner_start must be finite, got {self.inner_start!r}")
            if self.inner != "sgd":
                raise ValueError(f"inner_start is for inner='sgd', got inner={self.inner!r}")
        check_step(Minibatch(1), self.step, 0.0, True)
        check_update(self.update)
        if self.output not in _OUTPUTS:
            raise ValueError(f"output must be 'average', 'last' or 'random', got {self.output!r}")
        if self.decay not in ("auto", "constant", "sqrt"):
            raise ValueError(f"decay must be 'auto', 'constant' or 'sqrt', got {self.decay!r}")

    def check(self, problem: Robust, domain: Domain | None) -> None:
        if not isinstance(problem, Sinkhorn):
            raise ValueError(f"NestedSGD is for Sinkhorn problems, got {type(problem).__name__}; use SGD")
        self._estimator().start(problem, 0)

    def default_budget(self, problem: Robust) -> float | None:
        return 50.0 if not getattr(problem, "common", True) else 200.0

    def default_tol(self, problem: Robust, max_passes: float | None) -> float:
        """None with fresh draws: the gap is about the common ones, which such a run does not minimise over."""
        return super().default_tol(problem, max_passes) if getattr(problem, "common", True) else 0.0

    def run(self, context: RunContext) -> None:
        update = Plain() if self.update is None else self.update
        decay = "sqrt" if self.decay == "auto" and self.step is None else self.decay
        output = "random" if self.output == "random" else "last"
        average = "polynomial" if self.output == "average" else False
        descend(context, Settings(update, self._estimator(), self.step, average, decay == "sqrt", output))

    def _estimator(self) -> Estimator:
        if self.inner == "mlmc":
            return _Levels(int(self.batch), self.draws)
        return _Nested(
            int(self.batch), self.draws, self.inner, int(self.inner_steps), self.inner_step, self.inner_start
        )


@dataclass(frozen=True)
class _Levels(Estimator):
    """:class:`RTMLMC` from the problem's draws on, where no other number is given."""

    batch: int
    draws: int | None

    @property
    def staged(self) -> bool:
        return True

    @property
    def noisy(self) -> bool:
        return True

    def of(self, problem: Robust) -> RTMLMC:
        assert isinstance(problem, Sinkhorn)
        least = problem.draws if self.draws is None else int(self.draws)
        return RTMLMC(self.batch, least, max(_POINTS, 2 * least))

    def start(self, problem: Robust, seed: int) -> Any:
        return self.of(problem).start(problem, seed)

    def cost(self, problem: Robust) -> float:
        return self.of(problem).cost(problem)

    def prober(self, problem: Robust, seed: int) -> Any:
        return self.of(problem).prober(problem, seed)


@dataclass(frozen=True)
class _Nested(Estimator):
    """The estimator of one run: settings of the native one."""

    batch: int
    draws: int | None
    inner: str
    inner_steps: int
    inner_step: float | None
    inner_start: float | None

    def start(self, problem: Robust, seed: int) -> Any:
        assert isinstance(problem, Sinkhorn)
        draws = problem.draws if self.draws is None else int(self.draws)
        if self.inner == "sgd":
            inner = (self.inner_steps, self.inner_step, self.inner_start)
            return problem.inexact(self.batch, seed, draws, *inner)
        return problem.nested(self.batch, True, seed, draws, bisection=self.inner == "bisection")

    def cost(self, problem: Robust) -> float:
        return float(self.batch)

    @property
    def remembers(self) -> bool:
        return self.inner == "sgd"

    def prober(self, problem: Robust, seed: int) -> Any:
        return replace(self, inner="exact").start(problem, seed)
