"""Proximal Newton on the full batch: feasible sets and prox terms to the accuracy of a certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leeward._certificate import certify
from leeward._pilot import level_rows, subproblem
from leeward._precondition import Factor, Hessian, curvature_factor
from leeward._smoothing import first_strength, has_kink_at_ties, next_strength, smoothed_problem, true_evaluation
from leeward._sums import dot, norm
from leeward.algorithms._log import Log
from leeward.algorithms._quadratic import Model
from leeward.algorithms._rounds import SPLIT, Measure, Seen
from leeward.algorithms.base import Algorithm
from leeward.domains import Box
from leeward.oracles import LinearModel
from leeward.result import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from leeward._context import RunContext
    from leeward.domains import Domain
    from leeward.problems import Evaluation, Robust

    Vector = NDArray[np.float64]
    Observe = Callable[[Robust, Vector], Seen]

__all__ = ["ProximalNewton"]

_LARGEST = 1500  # coordinates up to which curvature is kept as a dense matrix
_PILOT_STEPS = 20
_CUT = 0.1  # largest cut of the smoothing strength
_ARMIJO = 1e-4
_HALVES = 30
_STALE = 3  # steps without any progress that end a level
_TIED = 1e-6  # spread of the losses over their size at which they count as equal
_MODEL_ROWS = 60  # rows a coordinate from which the curvature is estimated, at least


@dataclass(frozen=True)
class ProximalNewton(Algorithm):
    r"""Newton's method for ``P(w) + h(w)`` with a feasible set or prox term h, on all samples of a linear model.

    A step minimises ``g.(u - w) + (u - w)^T H (u - w)/2 + h(u)`` with H a model of the curvature of P at w, and is halved until
    the objective falls. Large data are solved on growing subsamples first. Non-smooth risks and losses are replaced by smooth
    lower bounds whose strength is cut until the certified gap of the problem itself is small.

    Parameters
    ----------
    pilot : bool, default True
        Whether subsamples give the starting point.
    smoothing : float, optional
        First strength for non-smooth problems, in units of the loss; a tenth of the losses' spread by default.
    max_iterations : int, default 200
        Newton steps on the full data.

    Notes
    -----
    For convex linear models with at most 1500 coordinates. A run ends as described at :class:`leeward.LBFGS`. Without a domain it is
    Newton's method.

    References
    ----------
    Lee, Sun and Saunders, Proximal Newton-type methods for minimizing composite functions, 2014.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)); y = np.sign(X @ [1.0, -2.0, 0.0] + 0.3 * rng.normal(size=200))
    >>> problem = lw.Robust(lw.LinearModel(X, y, l2=0.01), lw.CVaR(0.2))
    >>> result = lw.minimize(problem, algorithm=lw.ProximalNewton(), domain=lw.Box(0.0, 1.0))
    >>> result.success, bool(result.gap <= 1e-4 * result.fun)
    (True, True)
    """

    pilot: bool = True
    smoothing: float | None = None
    max_iterations: int = 200

    def __post_init__(self) -> None:
        if isinstance(self.max_iterations, bool) or not isinstance(self.max_iterations, int):
            raise TypeError(f"max_iterations must be an integer, got {self.max_iterations!r}")
        if self.max_iterations < 1:
            raise ValueError(f"max_iterations must be at least 1, got {self.max_iterations}")
        if self.smoothing is not None and not (math.isfinite(self.smoothing) and self.smoothing > 0):
            raise ValueError(f"smoothing must be positive and finite, got {self.smoothing}")

    def check(self, problem: Robust, domain: Domain | None) -> None:
        if not isinstance(problem.oracle, LinearModel) or not problem.convex or problem.dim > _LARGEST:
            raise ValueError(
                f"ProximalNewton needs a convex linear model with at most {_LARGEST} coordinates, got {problem!r} with "
                f"{problem.dim}; use SGD or Nesterov"
            )
        if not problem.smooth:
            try:
                problem.smoothed(1.0)
            except (ValueError, AttributeError) as why:
                raise ValueError(
                    f"ProximalNewton needs a problem that is smooth or can be smoothed ({why}); use SGD"
                ) from why

    def run(self, context: RunContext) -> None:
        _Run(self, context).run()


class _Run:
    """One run: the pilot levels, then the full data, recorded and logged for the checkpoint as those of LBFGS are."""

    def __init__(self, settings: ProximalNewton, context: RunContext) -> None:
        self.settings, self.context, self.problem = settings, context, context.problem
        saved = context.checkpoint.load()
        self.log = Log(self.problem.dim, saved)
        if saved is not None:
            context.restore()

    def run(self) -> None:
        context, model = self.context, self.problem.oracle
        assert isinstance(model, LinearModel)
        context.raise_if_done()
        w, strength = context.w0, self.settings.smoothing
        if self.settings.pilot:
            for rows in level_rows(self.problem, model, context.seed):
                part = subproblem(self.problem, model, rows)
                share = max(context.tol, 0.05 * (model.n_features + 1) / len(rows))

                def glance(current: Robust, w: Vector, part: Robust = part, share: float = share) -> Seen:
                    return self._look(part, current, w, share)[0]

                level = _Level(part, context.domain, glance, context.threads)
                w, strength = level.run(w, strength, _PILOT_STEPS), level.strength
        level = _Level(self.problem, context.domain, self._observe, context.threads)
        w = level.run(w, strength, self.settings.max_iterations)
        evaluation = self.problem.evaluate(w, threads=context.threads)
        gap = self._look(self.problem, level.current, w, context.tol)[1]
        if level.stalled:
            reason = "the objective cannot be reduced further in double precision"
            context.finish(w, Status.STALLED, reason, evaluation=evaluation, gap=gap)
        else:
            reason = f"the limit of {self.settings.max_iterations} Newton steps is reached"
            context.finish(w, Status.BUDGET, reason, evaluation=evaluation, gap=gap)

    def _observe(self, current: Robust, w: Vector) -> Seen:
        """One evaluation of the full data: measured, recorded, logged."""
        context = self.context
        known = self.log.next(w)
        if known is not None:
            value, measure, gradient = known
            return Seen(value, gradient, measure)
        seen, gap, true = self._look(self.problem, current, w, context.tol)
        self.log.add(w, seen.value, seen.measure, seen.gradient)
        if true is not None:
            size = context.gradient_norm(w, seen.gradient)
            if gap is None:
                size = max(size, seen.measure.smoothing / max(1.0, norm(w)))
            context.record(w, true.value, size, gap, evaluation=true if current is self.problem else None)
        if context.checkpoint.due():
            context.checkpoint.save(self.log.arrays())
        return seen

    @np.errstate(over="ignore")
    def _look(
        self, problem: Robust, current: Robust, w: Vector, tol: float
    ) -> tuple[Seen, float | None, Evaluation | None]:
        """The smoothed problem at w with its distance from the optimum, the certified gap, and the problem itself."""
        context, domain, threads = self.context, self.context.domain, self.context.threads
        if not self.log.replaying:
            context.count_losses(current.size)
            context.count_gradients(current.size)
        smoothed = current.evaluate_if_finite(w, threads=threads)
        if smoothed is None:
            return Seen(math.inf, np.zeros_like(w), Measure(math.inf, 0.0)), math.inf, None
        true, smoothing = true_evaluation(problem, current, w, smoothed, threads)
        if current is problem:
            gap = certify(problem, w, true, domain, threads=threads).gap
        else:
            slopes = current.oracle.slopes(w, threads=threads) if isinstance(current.oracle, LinearModel) else None
            gap = certify(problem, w, true, domain, smoothed.weights, slopes, threads).gap
        objective = abs(context.objective(w, true.value))
        if gap is None:
            error = context.gradient_norm(w, smoothed.gradient) * max(1.0, norm(w))
            measure = Measure(error, tol * max(1.0, objective), smoothing)
        else:
            allowed = context.allowed(objective) if problem is self.problem else tol * objective
            measure = Measure(max(gap - smoothing, 0.0), allowed, smoothing)
        value = context.objective(w, smoothed.value)
        return Seen(value, smoothed.gradient, measure, smoothed), gap, true


class _Level:
    """Newton steps on one level, with less and less smoothing."""

    def __init__(self, problem: Robust, domain: Domain | None, observe: Observe, threads: int) -> None:
        self._true = self.current = problem
        self._domain, self._observe, self._threads = domain, observe, threads
        self._damping = 0.0
        self.strength: float | None = None
        self.stalled = False

    def run(self, w: Vector, strength: float | None, steps: int) -> Vector:
        """Works from w until the level is done, nothing falls any more, or the steps are used up; the last point."""
        if strength is not None:
            self._smooth(strength)
        elif not self._true.smooth or self._at_kink(w):
            self._smooth(first_strength(self._true.evaluate(w, threads=self._threads)))
        seen, stale = self._observe(self.current, w), 0
        for _ in range(steps):
            if seen.measure.done:
                return w
            after, now = self._step(w, seen)
            stale = 0 if after is not w else stale + 1
            w, seen = after, now
            if self._cut(seen.measure):
                seen, stale = self._observe(self.current, w), 0
            if stale < _STALE:
                continue
            if self.strength is not None or not has_kink_at_ties(self._true.risk):
                self.stalled = True
                return w
            self._smooth(first_strength(self._true.evaluate(w, threads=self._threads)))
            seen, stale = self._observe(self.current, w), 0
        return w

    def _at_kink(self, w: Vector) -> bool:
        """Whether all losses are equal at w and the risk is a radius form, which has a kink there."""
        if not has_kink_at_ties(self._true.risk):
            return False
        losses = self._true.oracle.losses(w, threads=self._threads)
        return float(np.ptp(losses)) <= _TIED * float(np.abs(losses).max())

    def _smooth(self, strength: float) -> None:
        self.strength = strength
        self.current = smoothed_problem(self._true, strength)

    def _cut(self, m: Measure) -> bool:
        """Less smoothing, once the smoothed problem is solved to the accuracy that its error deserves."""
        if self.strength is None or not m.coarse or m.error > SPLIT * m.smoothing:
            return False
        self._smooth(next_strength(self.strength, m.smoothing, m.allowed, _CUT))
        return True

    def _step(self, w: Vector, seen: Seen) -> tuple[Vector, Seen]:
        """A Newton step that lowers the objective; w itself when none does."""
        model = self._model(w, seen)
        k = self._true.penalised
        accuracy = min(0.01, 0.1 * seen.measure.allowed / max(seen.measure.error, 1e-300))
        target = model.minimise(w, seen.gradient, max(accuracy, 1e-9))
        move = target - w
        promise = dot(seen.gradient, move)
        if self._domain is not None:
            promise += self._domain.value(target[:k]) - self._domain.value(w[:k])
        if not promise < 0.0:
            self._damping = max(10.0 * self._damping, 1e-6)
            return w, seen
        t = 1.0
        for _ in range(_HALVES):
            trial = w + t * move if t < 1.0 else target
            found = self._observe(self.current, trial)
            noise = 4e-16 * abs(seen.value)
            if found.measure.done or found.value <= seen.value + _ARMIJO * t * promise + noise:
                self._damping = 0.1 * self._damping if t == 1.0 and self._damping > 1e-9 else self._damping
                fell = found.value < seen.value or found.measure.error < seen.measure.error
                return (trial, found) if fell else (w, seen)
            t *= 0.5
            self._damping = max(3.0 * self._damping, 1e-6)
        return w, seen

    def _model(self, w: Vector, seen: Seen) -> Model:
        model = self.current.oracle
        assert isinstance(model, LinearModel)
        evaluation = seen.evaluation
        if evaluation is None:
            evaluation = self.current.evaluate(w, threads=self._threads)
        rows = min(model.size, max(_MODEL_ROWS * model.dim, model.size // 4))
        factor = curvature_factor(self.current, model, w, evaluation, rows, self._damping, self._threads)
        if factor is None:  # no finite curvature here: a step of the length of the gradient
            every = np.arange(model.dim)
            factor = Factor((np.eye(model.dim),), (every,), np.ones(model.dim))
        return Model.of(Hessian(factor, self._threads), self._domain or Box(), self._true.penalised)
