"""The Python half of the one driver: it cuts a native run into stretches between recorded points, and does the default
step, the way back from a step that was too large, and the checkpoint. The loop itself is descent/driver.hpp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._context import StopRun
from leeward.algorithms._finite_sum_steps import Prepared
from leeward.algorithms._steps import Choice, Place, choose_step, scaling
from leeward.algorithms.estimators import Estimator
from leeward.algorithms.updates import Update
from leeward.errors import InfiniteError
from leeward.oracles import LinearModel
from leeward.result import Status
from leeward.risks import Mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward._context import RunContext
    from leeward.problems import Evaluation

__all__ = ["Settings", "check_step", "descend"]

_AVERAGING = {False: 0, "uniform": 1, "polynomial": 2, True: 2}
_OUTPUT = {"last": 0, "random": 1, "average": 2}
_UNLIMITED = 2**62
_ROUNDING = 1e-12  # of the objective: what gradient descent may rise by
_RANGE = 30.0  # between the first step and one of Barzilai and Borwein, either way
# A default step is cut this often, to a quarter each time, before the run is given up.
_CUTS = 25
# Seconds of native work between two looks at the checkpoint's clock.
_STRETCH = 0.25


@dataclass(frozen=True)
class Settings:
    """A stochastic algorithm in the driver's terms."""

    update: Update
    estimator: Estimator
    step: float | None
    average: bool | str
    decaying: bool
    output: str = "last"
    ready: Prepared = field(default_factory=Prepared)  # metric and step where they are known before the run
    rule: str | None = None  # "bb" renews the step at each stage, "linesearch" from batches alone


def check_step(estimator: Any, step: Any, momentum: Any, average: Any) -> None:
    """Checks the settings that the stochastic algorithms share."""
    if not isinstance(estimator, Estimator):
        raise TypeError(f"estimator must be an estimator such as Minibatch(64), got {estimator!r}")
    if step is not None and not (isinstance(step, float | int) and math.isfinite(step) and step > 0):
        raise ValueError(f"step must be positive and finite, or None, got {step!r}")
    if not (isinstance(momentum, float | int) and 0 <= momentum < 1):
        raise ValueError(f"momentum must be in [0, 1), got {momentum!r}")
    if not (isinstance(average, bool) or average in ("uniform", "polynomial")):
        raise ValueError(f"average must be True, False, 'uniform' or 'polynomial', got {average!r}")


def check_update(update: Any) -> None:
    """Checks the setting ``update``."""
    if update is not None and not isinstance(update, Update):
        raise TypeError(f"update must be an update such as Plain() or Adam(), got {update!r}")


def descend(context: RunContext, settings: Settings) -> None:
    """Runs the algorithm to its end."""
    _Run(context, settings).go()


class _Run:
    def __init__(self, context: RunContext, settings: Settings) -> None:
        self.context, self.problem = context, context.problem
        self.automatic = settings.step is None
        self.batch = settings.estimator.cost(self.problem)
        self.per_pass = max(1, math.ceil(self.problem.size / self.batch))
        self.settings, self.estimator = settings, settings.estimator.start(self.problem, context.seed)
        self.staged = settings.estimator.staged
        quiet = self.staged and not settings.estimator.noisy
        self.finite_sum = quiet and isinstance(self.problem.risk, Mean | None)  # None: a composition
        self.exact = settings.estimator.exact(self.problem)
        saved = context.checkpoint.load()
        if saved is None:
            self._record(context.w0, context.initial, 0)
        else:
            context.restore()
        if saved is not None:
            step, period = (float(v) for v in saved["schedule"])
            metric = saved["metric"] if saved["metric"].size else None
        elif settings.step is None and settings.ready.step is not None:
            metric, step, period = settings.ready.metric, settings.ready.step, math.inf
        elif settings.step is None:
            metric = scaling(self.problem, context.domain)
            choice = self._chosen(context.w0, context.initial, metric, 0)
            step, period = choice.step, choice.period
        else:
            step, period, metric = float(settings.step), float(self.per_pass), None
        context.begun()
        self.metric, self.first = metric, step if saved is None else float(saved["first"][0])
        if settings.rule == "bb":
            problem = self.problem
            self.estimator.set_barzilai_borwein(self.first, _RANGE, problem.l2, problem.penalised, metric)
        self.cuts, self.pending, self.review, self.lowest = 0, False, 1.0, context.start
        if saved is not None:
            cuts, pending, self.review, self.lowest = (float(v) for v in saved["cuts"])
            self.cuts, self.pending = int(cuts), bool(pending)
        halves = 3 if settings.update.name == "acsa" else 1
        self.descent = self.problem.descent(
            self.estimator,
            settings.update.native(),
            context.w0,
            domain=context.domain,
            schedule=(step, halves if settings.decaying and math.isfinite(period) else 0, period),
            averaging=_AVERAGING[settings.average],
            output=(_OUTPUT[settings.output], context.seed),
            metric=metric,
        )
        self.good: dict[str, NDArray[Any]] = self.descent.state()
        if saved is not None:
            self.descent.restore(**{k: saved[k] for k in self.good})
            if self.automatic:
                self.good = {k: saved[f"good.{k}"] for k in self.good}
        self.counted = (0, 0, 0)

    def go(self) -> None:
        context = self.context
        try:
            if self.pending and context.last_step != self.descent.steps:
                self._look()  # saved between the last step and its record, which may have been the end of the run
            context.raise_if_done()
            if self.pending:  # the record ended the run before what follows a record
                w = self.descent.answer
                self._go_on(w, self.problem.evaluate(w, threads=context.threads))
            while True:
                if self._advance_to(*self._next_point()):
                    self._look()
        except (StopRun, KeyboardInterrupt):
            context.checkpoint.save(self._state())
            raise

    def _next_point(self) -> tuple[int, int]:
        """The next recorded point, as a step number and a number of evaluations, whichever comes first.

        It follows from the step number or the evaluations alone, and the budget.
        """
        every, now = self.context.trace_every, int(self.descent.steps)
        last, goal = now + self._steps_left(), self._evaluations_allowed()
        if every is None and self.staged and self.automatic and not self._safe():
            size, passes = self.problem.size, max(1, math.floor(self.context.passes))
            return last, min(size << passes.bit_length(), goal)  # the step is judged after 2, 4, 8, ... passes
        if every is None:
            return last, goal
        if every == "pass" and self.staged:
            size = self.problem.size
            return last, min((self.context.evaluations // size + 1) * size, goal)
        interval = self.per_pass if every == "pass" else 1 if every == "step" else int(every)
        return min((now // interval + 1) * interval, last), goal

    def _steps_left(self) -> int:
        """Steps that the budget still allows, at least one."""
        c = self.context
        if self.staged or c.max_passes is None or math.isinf(c.max_passes):
            return _UNLIMITED
        return max(1, math.ceil((c.max_passes * self.problem.size - c.losses) / self.batch))

    def _evaluations_allowed(self) -> int:
        """The number of evaluations at which the budget is used up, where steps differ in cost."""
        c = self.context
        if not self.staged or c.max_passes is None or math.isinf(c.max_passes):
            return _UNLIMITED
        return max(c.evaluations + 1, math.ceil(c.max_passes * self.problem.size))

    def _advance_to(self, target: int, goal: int) -> bool:
        """Goes to a step number or a number of evaluations; False when the run had to go back instead."""
        c = self.context
        while not self._reached(target, goal):
            try:
                finite = self.descent.advance(target - self.descent.steps, _STRETCH, c.threads, goal - c.evaluations)
            except InfiniteError:
                finite = False
            finally:
                self._count()
            if not finite:
                what = "the direction" if self.staged else "a loss of the batch"
                self._back(Status.NON_FINITE, f"{what} of step {self.descent.steps} is not finite")
                return False
            # A run taken up from a save at the target itself must still record it.
            self.pending = self._reached(target, goal)
            self._save_if_due()
        return True

    def _reached(self, target: int, goal: int) -> bool:
        return bool(self.descent.steps >= target or self.context.evaluations >= goal)

    def _save_if_due(self) -> None:
        if self.context.checkpoint.due():
            self.context.checkpoint.save(self._state())

    def _count(self) -> None:
        losses, gradients, samples = self.descent.work
        self.context.count_losses(losses - self.counted[0])
        self.context.count_gradients(gradients - self.counted[1])
        self.context.count_paired(max(losses, gradients) - samples - self.counted[2])
        self.counted = (losses, gradients, max(losses, gradients) - samples)

    def _look(self) -> None:
        """Evaluates the answer so far on all samples and records it, or goes back when it is worse than the start."""
        c = self.context
        w = self.descent.answer
        with c.pause():
            evaluation = self.problem.evaluate_if_finite(w, threads=c.threads)
        if evaluation is None:
            self._back(Status.NON_FINITE, f"the objective is not finite at step {self.descent.steps}")
            return
        reached = self._objective_of_iterate(w, evaluation)
        if self.automatic and not reached <= self._ceiling():
            self._back(Status.DIVERGED, "the objective rises")
            return
        if not self.finite_sum or reached <= self.lowest:
            self.good, self.lowest = self.descent.state(), reached
        self._record(w, evaluation, int(self.descent.steps))
        self._go_on(w, evaluation)

    def _go_on(self, w: NDArray[np.float64], evaluation: Evaluation) -> None:
        """What follows a record that did not end the run."""
        c, self.pending = self.context, False
        if self.automatic and self._may_grow() and c.passes >= self.review:
            self._review(w, evaluation)
        self._save_if_due()

    def _safe(self) -> bool:
        """Whether the step comes from bounds that hold everywhere, so that it need not be judged on the way."""
        ready = self.settings.ready
        return ready.step is not None and ready.bounded and self.settings.rule != "bb"

    def _may_grow(self) -> bool:
        """Whether the step may be chosen anew: for a mean with stages, where its curvature can change, and again at
        twice the passes of a cut; else until a first cut."""
        if self.finite_sum and self.problem.risk is not None:
            return self.settings.rule == "linesearch" or not isinstance(self.problem.oracle, LinearModel)
        return self.cuts == 0

    def _objective_of_iterate(self, w: NDArray[np.float64], evaluation: Evaluation) -> float:
        """The objective by which the step is judged: at the answer w, or at the iterate where the answer is a chosen one."""
        c = self.context
        if not self.automatic or self.settings.output == "last":
            return c.objective(w, evaluation.value)
        iterate = self.descent.iterate
        if not np.isfinite(iterate).all():
            return math.inf
        with c.pause():
            return c.objective(iterate, self.problem.value(iterate, threads=c.threads))

    def _review(self, w: NDArray[np.float64], evaluation: Evaluation) -> None:
        """Chooses the step anew after 1, 2, 4, ... passes, and takes it when it is much larger.

        Far from the optimum the curvature of a risk can be far above what it is near it. AC-SA starts anew from the answer
        each time (its damping falls as 1/t, so early noise would be forgotten very slowly), at a step divided by
        ``sqrt(1 + r t/m)``, m the steps a pass and r <= 1 the relative variance of the directions.
        """
        while self.review <= self.context.passes:
            self.review *= 2.0
        now = int(self.descent.steps)
        choice = self._chosen(w, evaluation, self.metric, now)
        state = self.descent.state()
        if self.settings.update.name == "acsa" and choice.noise > 0:
            fall = math.sqrt(1.0 + min(1.0, choice.noise) * now / self.per_pass)
            state["schedule"][:] = choice.step / fall, choice.period
        elif choice.step > 1.5 * state["schedule"][0]:
            state["schedule"][0] = choice.step
        if self.settings.update.name == "acsa":
            state["vectors"] = np.tile(w, len(state["vectors"]) // len(w))
            state["steps"][1] = state["steps"][0]
        self.descent.restore(**state)
        self.good = self.descent.state()

    def _chosen(
        self, w: NDArray[np.float64], evaluation: Evaluation, metric: NDArray[np.float64] | None, draw: int
    ) -> Choice:
        """The default step here."""
        settings = self.settings.estimator
        apart = self.staged or settings.remembers
        estimator = settings.prober(self.problem, self.context.seed) if apart else self.estimator
        place = Place(self.problem, w, evaluation, estimator, self.context.threads, metric, draw)
        choice = choose_step(place, self.settings.update, self.per_pass, search=self.settings.rule == "linesearch")
        self.context.count_losses(choice.cost)
        self.context.count_gradients(choice.cost)
        return choice

    def _ceiling(self) -> float:
        """An objective above this calls for a smaller step."""
        start = self.context.start
        if self.exact:
            return self.lowest + _ROUNDING * max(abs(start), abs(self.lowest))
        if self.finite_sum:
            return self.lowest + 0.2 * max(start - self.lowest, 0.1 * abs(start))
        return start + 0.1 * abs(start)

    def _record(self, w: NDArray[np.float64], evaluation: Evaluation, step: int) -> None:
        c = self.context
        with c.pause():
            gap = c.certified_gap(w, evaluation)
        norm = c.gradient_norm(w, evaluation.gradient)
        c.record(w, evaluation.value, norm, gap, step=step, evaluation=evaluation)

    def _back(self, status: Status, reason: str) -> None:
        """Back to the last good point with a quarter of the step; the end of the run when the step was given."""
        if not self.automatic or self.cuts >= _CUTS:
            if self.automatic:
                raise StopRun(Status.STALLED, "no step size improves on the best point found")
            raise StopRun(status, f"{reason}: the step is too large")
        self.cuts += 1
        if self.staged:
            self.review = max(self.review, 2.0 * self.context.passes)
        state = {name: values.copy() for name, values in self.good.items()}
        now = self.descent.state()
        state["schedule"][0] = float(now["schedule"][0]) / 4.0
        self.settings.estimator.cut(state["memory"], 0.25**self.cuts)
        # What came of the large step must go: momentum, and AC-SA's second sequence. (Squares of gradients may stay.)
        d = self.problem.dim
        if not self.settings.update.adaptive:
            state["vectors"][d:] = 0.0
        if self.settings.update.name == "acsa":
            state["vectors"] = np.tile(state["vectors"][:d], 3)
            state["steps"][1] = state["steps"][0]
        self.descent.restore(**state)
        self.good = self.descent.state()
        self.context.raise_if_done()

    def _state(self) -> dict[str, NDArray[Any]]:
        state = dict(self.descent.state())
        state["first"] = np.array([self.first])
        state["metric"] = np.zeros(0) if self.metric is None else self.metric
        state["cuts"] = np.array([self.cuts, self.pending, self.review, self.lowest])
        if self.automatic:
            state |= {f"good.{k}": v for k, v in self.good.items()}
        return state
