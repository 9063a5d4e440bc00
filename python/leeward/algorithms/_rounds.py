"""Rounds of L-BFGS on one level (a subsample or the full data): a curvature model, a segment, a smaller smoothing strength.

A round ends when the optimisation error is small against the smoothing error, when a fresh curvature model promises to be
cheaper than going on, or when nothing falls any more.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from leeward._precondition import Factor, Identity, curvature_diagonal, curvature_factor
from leeward._risk_curvature import chord_curvature, strength_pull
from leeward._smoothing import first_strength, has_kink_at_ties, next_strength, smoothed_problem
from leeward.algorithms._descent import Point, descend, polish
from leeward.algorithms._newton import newton_step, path_step
from leeward.oracles import LinearModel
from leeward.problems import Robust

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from leeward._precondition import Scaling
    from leeward.problems import Evaluation

    Vector = NDArray[np.float64]
    Observe = Callable[[Robust, Vector, Scaling], "Seen"]

__all__ = ["SPLIT", "Measure", "Plan", "Rounds", "Seen"]

_CHECK_EVERY = 4  # evaluations between looks at the speed
SPLIT = 0.3  # optimisation error over smoothing error at which the strength is cut
_CUT, _GENTLE_CUT = 0.1, 0.3  # largest cut of the strength, and after a cut that was too large
_BACK, _BACKS = 10.0, 5  # growth of the strength after such a cut, and how often
_POLISH = 8  # steps below the noise of the objective
_PATIENCE = 5  # rounds after which a radius form is suspected to be at a kink
_STALE = 2  # rounds without any progress that end a level
_EASY, _LONG = (
    8,
    40,
)  # evaluations after which Newton's method along the path takes over: where losses tie, and elsewhere
_NEWTON = 100  # its steps at most
_NEWTON_WORK = 1e10  # multiplications of one of its curvature models at most
_ENTRIES = 1 << 23  # the rows of a model are a copy of about so many entries of X
_ON_PATH = 0.02  # excess in units of the strength from which the path's tangent is good
_OFF_PATH = 0.3  # excess in units of the strength above which a cut was too large
_POOR, _GOOD = 0.5, 0.8  # decrease over the model's at which its damping grows, and falls
_FIRST_DAMPING = 1e-3  # of Newton's method
_TIED = 0.4  # standard deviation of the losses over their mean below which they are taken to tie


@dataclass(frozen=True)
class Measure:
    """How far a point is: ``error`` of the optimisation against what is ``allowed``, and the ``smoothing`` error."""

    error: float
    allowed: float
    smoothing: float = 0.0

    @property
    def done(self) -> bool:
        return self.error + self.smoothing <= self.allowed

    @property
    def coarse(self) -> bool:
        """Whether the smoothing takes too much of what is allowed."""
        return self.smoothing > 0.5 * self.allowed


@dataclass(frozen=True)
class Seen:
    """A point of the (smoothed) problem; the evaluation is missing when the point comes from a checkpoint."""

    value: float
    gradient: Vector
    measure: Measure
    evaluation: Evaluation | None = None


@dataclass(frozen=True)
class Plan:
    """Settings of a level."""

    memory: int
    iterations: int
    rounds: int
    factored: bool
    threads: int
    diagonal: bool = False  # only the diagonal of the curvature, where it is too wide to be factored


class Rounds:
    """State of one level. ``observe(problem, w, scaling)`` evaluates a (smoothed) problem, and may end the run by raising."""

    def __init__(self, problem: Robust, observe: Observe, plan: Plan) -> None:
        self._true = self._current = problem
        self._observe, self._plan = observe, plan
        self._scaling: Scaling = Identity()
        self._history: list[float] = []
        self._damping = 0.0
        self._backs = 0
        self._model_cost = math.inf  # of a new curvature model, in evaluations
        self._visits = 0
        self._followed = False
        self._first_trial: Evaluation | None = None  # of a Newton step
        self._chord: Vector | None = None  # least curvature of the risk, from a step that went wrong
        self.strength: float | None = None
        self._seen: Seen

    def run(self, w: Vector, strength: float | None = None) -> Point:
        """Works from w until the level is done or nothing falls any more; the best point."""
        self._begin(w, strength)
        point = self._visit(w)
        stale = 0
        for number in range(self._plan.rounds):
            if self._seen.measure.done:
                break
            if self._hard(point.w):
                point = self._follow(self._visit(point.w))
                continue
            self._scaling = self._model(point.w)
            self._history = []
            start = point
            segment = descend(self._f, point, self._scaling, self._plan.memory, self._plan.iterations)
            point = segment.point
            self._adapt(segment.overshot)
            if segment.ended and not self._seen.measure.done:
                point = polish(self._f, point, self._scaling, _POLISH)
            if self._seen.measure.done:
                break
            changed = self._cut() or self._ease()
            stale = stale + 1 if point.w is start.w and not changed else 0
            if (stale >= _STALE or number == _PATIENCE) and self._doubt(point.w):
                stale = 0
            elif stale >= _STALE:
                break
            point = self._visit(point.w)
        return point

    def _begin(self, w: Vector, strength: float | None) -> None:
        if self._true.smooth and strength is None:
            return
        if strength is None:
            strength = first_strength(self._true.evaluate(w, threads=self._plan.threads))
        self._smooth(strength)

    def _doubt(self, w: Vector) -> bool:
        """Begins to smooth a radius form that nothing reduces any more: the point may be the kink of equal losses."""
        if self.strength is not None or not has_kink_at_ties(self._true.risk):
            return False
        self._smooth(first_strength(self._true.evaluate(w, threads=self._plan.threads)))
        return True

    def _hard(self, w: Vector) -> bool:
        """Whether to go on by Newton's method: once a level, after many evaluations or where the losses nearly tie."""
        if self._followed or self._visits < _EASY or not self._plan.factored:
            return False
        if not isinstance(self._true.oracle, LinearModel):
            return False
        if self.strength is None and not has_kink_at_ties(self._true.risk):
            return False
        losses = self._true.oracle.losses(w, threads=self._plan.threads)
        size = float(np.max(np.abs(losses))) or 1.0  # so that squares stay in range
        tied = float((losses / size).std()) <= _TIED * abs(float((losses / size).mean()))
        if self.strength is None:
            if not tied or not self._doubt(w):
                return False
        elif not tied and self._visits < _LONG:
            return False
        self._followed = True
        return True

    def _follow(self, point: Point) -> Point:
        """Newton's method along the path of strengths, until the level is done or no step is good."""
        self._damping = _FIRST_DAMPING
        largest_cut, arrived = _CUT, False
        for _ in range(_NEWTON):
            m = self._seen.measure
            if m.done or self.strength is None:
                break
            here = self._evaluation(point.w)
            self._scaling = self._model(point.w, whole=True, least=self._chord)
            pulled = self._scaling.pull(point.gradient)
            self._excess = min(m.error, 0.5 * float(pulled @ pulled))
            if arrived:
                far = self._excess > _OFF_PATH * self.strength
                largest_cut = min(largest_cut * 2.0, 0.5) if far else max(largest_cut * 0.7, 0.03)
                arrived = False
            if m.coarse and self._excess <= min(SPLIT * m.smoothing, _ON_PATH * self.strength):
                evaluation = self._evaluation(point.w)
                model = self._current.oracle
                assert isinstance(model, LinearModel)
                pull = strength_pull(self._current, model, point.w, evaluation, self._plan.threads)
                before = self.strength
                self._smooth(next_strength(before, m.smoothing, m.allowed, largest_cut))
                point = self._visit(path_step(point.w, point.gradient, pull, self._scaling, self.strength / before))
                arrived, self._chord = True, None
                continue
            self._first_trial = None
            found = newton_step(self._plain, point.w, point.value, point.gradient, self._scaling, self.strength)
            if found is None:
                break
            w, value, gradient, kept = found
            point = Point(w, value, gradient)
            self._learn(kept, here)
        return point

    def _learn(self, kept: float, start: Evaluation) -> None:
        """Adapts the next curvature model to the decrease that a step has kept, over its promise."""
        if kept > _GOOD:
            self._damping = max(0.1 * self._damping, 1e-9)
            self._chord = None if self._chord is None else 0.1 * self._chord
        elif kept < _POOR:
            trial = self._first_trial
            new = None if trial is None else chord_curvature(self._current, start, trial)
            if new is not None:
                self._chord = new if self._chord is None else np.maximum(0.3 * self._chord, new)
            else:
                self._damping = min(10.0 * self._damping, 1.0)

    def _plain(self, w: Vector) -> tuple[float, Vector]:
        point = self._visit(w)
        if self._first_trial is None:
            self._first_trial = self._evaluation(w)
        return point.value, point.gradient

    @property
    def current(self) -> Robust:
        """The problem being minimised: smoothed or not."""
        return self._current

    def _smooth(self, strength: float) -> None:
        self.strength = strength
        self._current = smoothed_problem(self._true, strength)

    def _visit(self, w: Vector) -> Point:
        self._visits += 1
        if self._visits > 1:
            self._seen = replace(self._seen, evaluation=None)  # two at a time are too many where samples are many
        self._seen = self._observe(self._current, w, self._scaling)
        self._excess = self._seen.measure.error
        if isinstance(
            self._scaling, Factor
        ):  # the decrement: about the excess over the smoothed optimum, where the certificate may be far above
            pulled = self._scaling.pull(self._seen.gradient)
            self._excess = min(self._excess, 0.5 * float(pulled @ pulled))
        return Point(w, self._seen.value, self._seen.gradient)

    def _cut(self) -> bool:
        """Less smoothing, once the smoothed problem is solved to the accuracy that its error deserves."""
        m = self._seen.measure
        if self.strength is None or not m.coarse or self._excess > SPLIT * m.smoothing:
            return False
        self._smooth(next_strength(self.strength, m.smoothing, m.allowed, _GENTLE_CUT if self._backs else _CUT))
        return True

    def _ease(self) -> bool:
        """More smoothing, when the error stays far above everything that is asked for."""
        m = self._seen.measure
        if self.strength is None or self._backs >= _BACKS or self._excess <= 10.0 * max(m.smoothing, m.allowed):
            return False
        self._backs += 1
        self._smooth(_BACK * self.strength)
        return True

    def _f(self, w: Vector) -> tuple[float, Vector, bool]:
        self._visit(w)
        m = self._seen.measure
        enough = m.done or (m.coarse and self._excess <= SPLIT * m.smoothing) or self._slow()
        return self._seen.value, self._seen.gradient, enough

    def _adapt(self, overshot: bool) -> None:
        """More damping of the next curvature model after a first step that went too far, less after one that did not."""
        if overshot:
            self._damping = max(30.0 * self._damping, 1e-4)
        else:
            self._damping = self._damping / 10.0 if self._damping > 1e-6 else 0.0

    def _slow(self) -> bool:
        """Whether going on takes longer than a new model of the curvature, judged by the fall of the error so far."""
        m = self._seen.measure
        aim = max(m.allowed - m.smoothing, SPLIT * m.smoothing, 1e-300)
        self._history.append(math.log(max(m.error, 1e-300) / aim))
        k = len(self._history)
        if k < 6 or k % _CHECK_EVERY:
            return False
        best = min(self._history)
        rate = (self._history[0] - best) / (k - 1)
        return best > 0 and best > rate * (self._model_cost + 6.0)

    def _evaluation(self, w: Vector) -> Evaluation:
        """The evaluation at the point just seen; made again when that came from a checkpoint."""
        evaluation = self._seen.evaluation
        return self._current.evaluate(w, threads=self._plan.threads) if evaluation is None else evaluation

    def _model(self, w: Vector, whole: bool = False, least: Vector | None = None) -> Scaling:
        """The curvature at w, from so many rows that it costs about as much as one or two evaluations, or from all."""
        if not (self._plan.diagonal or self._plan.factored):
            return Identity()
        problem, model, evaluation = self._modelled(w)
        if self._plan.diagonal:
            return curvature_diagonal(problem, model, w, evaluation, self._plan.threads)
        block = model.n_features + (1 if model.intercept else 0)
        n = model.size
        work = 2e-9 * n * model.n_features + 6e-5  # seconds of an evaluation, about
        rows = min(n, max(int(1.5 * work * 3e10 / block**2), 8 * block), max(n // 8, 20 * block))
        if whole:
            rows = min(n, max(rows, int(_NEWTON_WORK / block**2)))
        rows = min(rows, max(_ENTRIES // block, 20 * block))
        if 2 * rows > n:  # drawing rows saves little
            rows = n
        self._model_cost = (rows * block**2 / 3e10 + block**3 / 1e10 + 2e-4) / work
        factor = curvature_factor(problem, model, w, evaluation, rows, self._damping, self._plan.threads, least)
        return Identity() if factor is None else factor

    def _modelled(self, w: Vector) -> tuple[Robust, LinearModel, Evaluation]:
        """The problem whose curvature is modelled: this one, or where its losses are made of a linear model's at points about the
        rows, the mean of the model's own, with what the points' spread adds as l2."""
        problem, model = self._current, self._current.linear
        assert model is not None
        if model is problem.oracle:
            return problem, model, self._evaluation(w)
        bare = Robust(model)
        evaluation = bare.evaluate(w, threads=self._plan.threads)
        if not model.smooth:  # a loss with a kink, which the points' spread smooths: curved on the scale of the losses
            model = model.smoothed(max(2.0 * evaluation.value, 1e-300))
        curvatures = model.curvatures(w, threads=self._plan.threads)
        mean = float(np.sum(evaluation.weights * (curvatures if curvatures.ndim == 1 else curvatures.mean(axis=1))))
        twin = copy.copy(model)
        twin.l2 = model.l2 + problem.spread * mean
        return Robust(twin), twin, evaluation
