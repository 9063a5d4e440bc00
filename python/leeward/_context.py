"""RunContext: what minimize lends to an algorithm, and where trace, counts, stopping rules and the result stand once.

An algorithm calls ``count_losses`` / ``count_gradients`` as it works, ``record`` at points worth keeping, and ``finish`` at
its end. ``record`` raises StopRun when the run is over; algorithms let it pass.
"""

from __future__ import annotations

import gc
import math
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward._checkpoint import CheckpointStore
from leeward._once import once
from leeward._points import Point, State, StopRun, best_gap, certified_gap, pack, unpack
from leeward._progress import Clock
from leeward._sums import norm
from leeward._work import Work
from leeward.result import Result, Status
from leeward.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from leeward._checkpoint import Arrays, Checkpoint
    from leeward._progress import Paused, Progress
    from leeward.domains import Domain
    from leeward.problems import Evaluation, Robust

    Vector = NDArray[np.float64]

__all__ = ["RunContext", "State", "StopRun"]

# An objective this many times max(|P(w0)|, 1) above its start has exploded.
_EXPLODED = 1e4
_MANY = 1 << 20  # samples beyond which points keep no losses and weights
_LONG = 30.0  # passes after which an optimum of 0 is looked for
_UNIT, _VANISHED = 2.0**-52, 1e-8


class RunContext(Work):
    """One run of :func:`leeward.minimize`, as its algorithm sees it.

    Attributes
    ----------
    problem : Robust
    w0 : (d,) float64, a private copy; inside the domain when there is one
    domain : Domain or None
    max_passes : float or None (no limit)
    tol : float, 0 when no tolerance is in force
    seed, threads : int
    trace_every : "pass", "step", a number of steps, or None
    checkpoint : CheckpointStore (``load``, ``due``, ``save``)
    """

    def __init__(
        self,
        problem: Robust,
        w0: Vector,
        algorithm: Any,
        *,
        domain: Domain | None,
        max_passes: float | None,
        tol: float,
        seed: int,
        threads: int,
        trace_every: str | int | None,
        callback: Callable[[State], object] | None,
        checkpoint: Checkpoint | None,
        progress: Progress,
    ) -> None:
        super().__init__(problem.size)
        self.problem, self.w0, self.algorithm = problem, w0, algorithm
        self.domain, self.max_passes, self.tol = domain, max_passes, tol
        self.seed, self.threads, self.trace_every = seed, threads, trace_every
        self._callback, self._progress = callback, progress
        self.trace = Trace()
        self._clock = Clock()
        self._first: float | None = None
        self._last: Point | None = None
        self._best: Point | None = None
        self._bound = -math.inf  # the largest lower bound of the optimum so far
        self._kept = -math.inf  # passes at the last kept row
        self._calls = 0
        self._stop: tuple[Status, str] | None = None
        self._end: Point | None = None
        self.counts: dict[str, int] = {}  # of algorithms on compositions, kind by kind
        self.remark = ""  # a clause that the message ends with
        identity = {} if checkpoint is None else self._identity()
        self.checkpoint = CheckpointStore(checkpoint, identity, self._own_state)

    @property
    def last_step(self) -> int:
        """Step of the last recorded point, -1 before the first."""
        return -1 if self._last is None else self._last.step

    @property
    def seconds(self) -> float:
        """Wall time of the algorithm so far, without recording and callbacks."""
        return self._clock.seconds

    def pause(self) -> Paused:
        """A context manager that stops the clock: for evaluations made only to be recorded."""
        return self._clock.pause()

    # Objective and stopping measures.

    @once
    def initial(self) -> Evaluation:
        """The problem at w0, evaluated once when first asked for (not counted, clock stopped)."""
        with self.pause():
            return self.problem.evaluate(self.w0, threads=self.threads)

    def begun(self) -> None:
        """Says that ``initial`` is not needed any more; where samples are many it is let go."""
        if self.problem.size > _MANY:
            self.__dict__.pop("initial", None)

    @property
    def start(self) -> float:
        """The objective at the first recorded point."""
        return math.nan if self._first is None else self._first

    def objective(self, w: Vector, value: float) -> float:
        """value (of the problem) plus the prox term at w."""
        return value if self.domain is None else value + self.domain.value(w[: self.problem.penalised])

    @np.errstate(over="ignore")
    def gradient_norm(self, w: Vector, gradient: Vector) -> float:
        """Norm of the gradient, or of the gradient mapping ``w - prox(w - gradient)`` when there is a domain."""
        if self.domain is None:
            return norm(gradient)
        k = self.problem.penalised
        move = gradient.copy()
        move[:k] = w[:k] - self.domain.prox(w[:k] - gradient[:k], 1.0)
        return norm(move)

    def certified_gap(self, w: Vector, evaluation: Evaluation) -> float | None:
        """The certificate at w, or None where none exists."""
        return certified_gap(self.problem, w, evaluation, self.domain, self.threads)

    @np.errstate(over="ignore")
    def within_tolerance(self, w: Vector, objective: float, gradient_norm: float, gap: float | None) -> bool:
        """The documented rule: ``gap <= tol |P|`` with a certificate, else ``|g| max(1, |w|) <= tol max(1, |P|)``."""
        if self.tol <= 0 or not math.isfinite(objective):
            return False
        if gap is not None and not math.isnan(gap):
            return gap <= self.allowed(objective)
        return gradient_norm * max(1.0, norm(w)) <= self.tol * max(1.0, abs(objective))

    def allowed(self, objective: float) -> float:
        """The certified gap that counts as converged: ``tol |P|``; where P has all but vanished, a rounding unit of ``|P(0)|``.

        The latter ends long fits whose optimum is 0, where no relative gap can be reached.
        """
        if self.passes > _LONG and self.tol > 0 and abs(objective) <= _VANISHED * self._scale:
            return max(self.tol * abs(objective), _UNIT * self._scale)
        return self.tol * abs(objective)

    @once
    def _scale(self) -> float:
        """``|P(0)|``: the size of the objective where nothing is fitted (not counted, clock stopped)."""
        with self.pause():
            return self.problem.unfitted(self.threads)

    def _tightened(self, objective: float, gap: float | None) -> float | None:
        """The gap at a point by the largest lower bound that any point of the run has given."""
        if gap is None or math.isnan(gap):
            return gap
        if math.isfinite(gap):
            self._bound = max(self._bound, objective - gap)
        return min(gap, max(objective - self._bound, _UNIT * abs(objective)))

    # Recording and ending.

    def record(
        self,
        w: Vector,
        value: float,
        gradient_norm: float,
        gap: float | None = None,
        *,
        step: int | None = None,
        evaluation: Evaluation | None = None,
        final: bool = False,
    ) -> None:
        """Takes note of a point.

        Parameters
        ----------
        w : (d,)
            The point; copied.
        value : float
            The problem's value there, without the prox term.
        gradient_norm : float
            As :meth:`gradient_norm` gives it.
        gap : float or None
            The certificate; infinity where there is one that was not worth computing here.
        step : int, optional
            Steps or iterations so far; the number of earlier records when left out.
        evaluation : Evaluation, optional
            The full evaluation at w, if there is one: saves evaluating it again for the result.
        final : bool
            Keep the row in the trace whatever ``trace`` says.

        Raises
        ------
        StopRun
            When the run is over: tolerance reached, budget used up, objective not finite or exploded, callback.
        """
        with self.pause():
            step = self._calls if step is None else step
            self._calls += 1
            objective = self.objective(w, value)
            self._tightened(objective, gap)  # keeps the bound; a point is judged by its own certificate
            kept = evaluation if self.problem.size <= _MANY else None  # made again for the result
            point = Point(w.copy(), objective, gap, gradient_norm, kept, step)
            point.w.flags.writeable = False
            stop = self._judge(point)
            if self._wanted(step) or final or stop is not None:
                self._append(point)
            known = point.known_gap
            self._progress.show(step, self.passes, objective, known, force=stop is not None)
            if math.isfinite(objective):
                self._last = point
                if self._best is None or objective <= self._best.objective:
                    self._best = point
            if self._callback is not None and stop is None:
                state = State(step, self.passes, point.w, objective, known, gradient_norm, self.trace)
                if self._callback(state):
                    stop = (Status.STOPPED_BY_CALLBACK, "the callback asked to stop")
            if stop is not None:
                raise StopRun(*stop)

    def raise_if_done(self) -> None:
        """Raises StopRun when the last recorded point already ends the run (after a resume)."""
        if self._last is not None and (stop := self._judge(self._last)) is not None:
            raise StopRun(*stop)

    def finish(
        self, w: Vector, status: Status, reason: str, *, evaluation: Evaluation | None = None, gap: float | None = None
    ) -> None:
        """Ends the run at w. ``reason`` is a clause; the distance from the optimum is added to it."""
        norm = math.nan if evaluation is None else self.gradient_norm(w, evaluation.gradient)
        value = math.nan if evaluation is None else self.objective(w, evaluation.value)
        step = self._calls if self._last is None else self._last.step
        self._end = Point(w.copy(), value, self._tightened(value, gap), norm, evaluation, step)
        if status is Status.STALLED:
            self._end = self._lowest(self._end)
        self._stop = (status, reason)

    def _lowest(self, end: Point) -> Point:
        """The best of the last point, the best recorded one and the start."""
        if self._best is not None and self._best.objective < end.objective:
            end = self._best
        objective = self.objective(self.w0, self.initial.value)
        if objective < end.objective:
            norm = self.gradient_norm(self.w0, self.initial.gradient)
            end = Point(self.w0.copy(), objective, self._tightened(objective, end.gap), norm, self.initial, 0)
        return end

    def stopped(self, stop: StopRun) -> None:
        """Ends the run as ``record`` asked: at the last point, or at the best one when the run went wrong."""
        wrong = stop.status in (Status.NON_FINITE, Status.DIVERGED, Status.STALLED)
        self._end = self._best if wrong else self._last
        self._stop = (stop.status, stop.reason)

    def result(self, preface: str = "") -> Result:
        """The outcome, after ``finish`` or ``stopped``."""
        if self._stop is None:
            raise RuntimeError(f"{self.algorithm!r} ended without finish()")
        status, reason = self._stop
        with self.pause():
            w = (self.w0 if self._end is None else self._end.w).copy()
            evaluation = None if self._end is None else self._end.evaluation
            if evaluation is None:
                if self.problem.size > _MANY:
                    gc.collect()  # what the algorithm has left in cycles
                evaluation = self.problem.evaluate(w, threads=self.threads)
            gap = None if self._end is None else self._end.known_gap
            if gap is None or (status is not Status.CONVERGED and not self.problem.smooth):
                gap = best_gap(self.problem, w, evaluation, self.domain, self.threads)
        fun = self.objective(w, evaluation.value)
        gap = self._tightened(fun, gap)
        norm = self.gradient_norm(w, evaluation.gradient)
        if status is Status.CONVERGED and not math.isfinite(fun):
            status, reason = Status.NON_FINITE, "the objective is not finite"
        clause = "; ".join(part for part in (preface, reason, self.remark) if part)
        message = f"{clause[0].upper()}{clause[1:]}; {self._distance(fun, gap, norm)}."
        self._progress.close(message)
        return Result(
            x=w,
            fun=fun,
            jac=evaluation.gradient,
            gap=gap,
            status=status,
            message=message,
            nit=0 if self._last is None else self._last.step,
            nfev=self.losses,
            njev=self.gradients,
            passes=self.passes,
            eta=evaluation.eta,
            weights=evaluation.weights,
            trace=self.trace,
            algorithm=self.algorithm,
            samples=self.samples,
            counts=dict(self.counts),
        )

    def restore(self) -> bool:
        """Takes trace, counts and clock from the checkpoint; False when there is none."""
        own = self.checkpoint.load_run()
        if own is None:
            return False
        self.trace = Trace.from_array(own["trace"])
        self.losses, self.gradients, self._calls, self._paired = (int(v) for v in own["counts"])
        self._clock = Clock(float(own["clock"][0]))
        self._kept, first = float(own["clock"][1]), float(own["clock"][2])
        self._first = None if math.isnan(first) else first
        self._bound = float(own["clock"][3])
        self._last, self._best = unpack("last", own), unpack("best", own)
        return True

    # Inside.

    def _judge(self, point: Point) -> tuple[Status, str] | None:
        if not (math.isfinite(point.objective) and math.isfinite(point.gradient_norm)):
            return Status.NON_FINITE, f"the objective or its gradient is not finite at step {point.step}"
        if self._first is None:
            self._first = point.objective
        if point.objective - self._first > _EXPLODED * max(abs(self._first), 1.0):
            return (
                Status.DIVERGED,
                f"the objective exploded from {self._first:.3g} to {point.objective:.3g}: the step is too large",
            )
        if self.within_tolerance(point.w, point.objective, point.gradient_norm, point.gap):
            if point.gap is not None and point.gap > self.tol * abs(point.objective):
                return Status.CONVERGED, "converged: the certified gap is within the rounding of the objective at w = 0"
            measure = "relative certified gap" if point.gap is not None else "scaled gradient norm"
            return Status.CONVERGED, f"converged: the {measure} is within tol={self.tol:g}"
        if self.max_passes is not None and self.passes >= self.max_passes:
            return Status.BUDGET, f"the budget of {self.max_passes:g} passes is used up"
        return None

    def _wanted(self, step: int) -> bool:
        if len(self.trace) == 0:
            return True
        if self.trace_every is None:
            return False
        if self.trace_every == "pass":
            return self.passes - self._kept >= 1.0 - 1e-9
        return step % (1 if self.trace_every == "step" else int(self.trace_every)) == 0

    def _append(self, point: Point) -> None:
        self._kept = self.passes
        self.trace.append(
            steps=point.step,
            passes=self.passes,
            seconds=self.seconds,
            objective=point.objective,
            gap=math.nan if point.known_gap is None else point.known_gap,
            gradient_norm=point.gradient_norm,
            losses=self.losses,
            gradients=self.gradients,
            samples=self.samples,
        )

    def _distance(self, fun: float, gap: float | None, norm: float) -> str:
        if gap is not None:
            relative = f" ({gap / abs(fun):.2g} of it)" if fun else ""
            return f"the objective {fun:.9g} is certified to be within {gap:.3g}{relative} of the optimum"
        return f"no certificate exists for this problem, and the gradient norm at the objective {fun:.9g} is {norm:.3g}"

    def _identity(self) -> dict[str, str]:
        e = self.initial
        data = sha256(np.float64(e.value).tobytes() + e.gradient.tobytes() + e.weights.tobytes()).hexdigest()[:16]
        return {
            "problem": repr(self.problem),
            "data and starting point": f"{data}-{sha256(self.w0.tobytes()).hexdigest()[:16]}",
            "algorithm": repr(self.algorithm),
            "domain": repr(self.domain),
            "seed": str(self.seed),
            "trace": str(self.trace_every),
        }

    def _own_state(self) -> Arrays:
        return {
            "trace": self.trace.to_array(),
            "counts": np.array([self.losses, self.gradients, self._calls, self._paired]),
            "clock": np.array(
                [self.seconds, self._kept, math.nan if self._first is None else self._first, self._bound]
            ),
            **pack("last", self._last),
            **pack("best", self._best),
        }
