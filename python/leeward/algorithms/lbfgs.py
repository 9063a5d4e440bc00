"""L-BFGS on the full batch: scipy's, in variables chosen so that few iterations are needed, with a certified stop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leeward._certificate import certifiable, certify
from leeward._pilot import level_rows, subproblem
from leeward._precondition import Identity
from leeward._smoothing import true_evaluation
from leeward._sums import dot, norm
from leeward.algorithms._log import Log
from leeward.algorithms._rounds import SPLIT, Measure, Plan, Rounds, Seen
from leeward.algorithms._snapshot_pilot import GAIN, SnapshotPilot
from leeward.algorithms.base import Algorithm
from leeward.losses import Poisson
from leeward.oracles import LinearModel
from leeward.problems import Sinkhorn
from leeward.result import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward._context import RunContext
    from leeward._precondition import Scaling
    from leeward.domains import Domain
    from leeward.problems import Evaluation, Robust

    Vector = NDArray[np.float64]

__all__ = ["LBFGS"]

_LARGEST_BLOCK = 1500  # coordinates of one output up to which curvature is factored
_ROUNDS = 60  # curvature models and strengths of the full data
_PILOT_ROUNDS, _PILOT_ITERATIONS = 12, 60  # of each subsample


@dataclass(frozen=True)
class LBFGS(Algorithm):
    r"""Limited-memory BFGS on all samples.

    Minimises ``P(w) = R(l(w)) + (l2/2)|w_pen|^2`` with the gradient ``sum_i q_i grad l_i + l2 w_pen``, q the worst-case weights.
    Linear models are first solved on growing subsamples, and SciPy's L-BFGS-B then works in variables ``w = w0 + P v`` with
    ``P P^T`` the inverse of a model of the curvature, so that scaling of the features does not matter. Non-smooth risks and losses are
    replaced by smooth lower bounds whose strength is cut until the certified gap of the problem itself is small. Where many losses tie
    at the optimum (a strong risk of a weak signal), Newton's method along the path of strengths takes over.

    Parameters
    ----------
    memory : int, default 10
        Pairs of steps and gradient differences that L-BFGS keeps.
    precondition : bool, default True
        Whether curvature models are used (linear models: a factor up to 1500 features, the diagonal beyond).
    pilot : bool, default True
        Whether subsamples (linear models of some size) or stages of SVRG (small, well-conditioned ones, mean loss) give the
        starting point.
    smoothing : float, optional
        First strength for non-smooth problems, in units of the loss; a tenth of the losses' spread by default.
    max_iterations : int, default 1000
        Iterations with one strength and one curvature model; there are at most 60 such rounds.

    Notes
    -----
    A run ends when the relative certified gap is at most ``tol`` (see :func:`leeward.minimize`), when ``max_passes`` are
    used up, or, with status ``STALLED``, when neither the objective nor the scaled gradient falls any
    more. Bits do not depend on ``threads``, nor on the threads of BLAS up to 10000 coordinates (SciPy's own L-BFGS-B calls
    BLAS on vectors like w).

    References
    ----------
    Byrd, Lu, Nocedal and Zhu, A limited memory algorithm for bound constrained optimization, 1995.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3)); y = np.sign(X @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=200))
    >>> problem = lw.Robust(lw.LinearModel(X, y, l2=0.01), lw.CVaR(0.2))
    >>> result = lw.minimize(problem, algorithm=lw.LBFGS())
    >>> result.success, bool(result.gap <= 1e-4 * result.fun)
    (True, True)
    """

    memory: int = 10
    precondition: bool = True
    pilot: bool = True
    smoothing: float | None = None
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        for name in ("memory", "max_iterations"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an integer, got {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.smoothing is not None and not (math.isfinite(self.smoothing) and self.smoothing > 0):
            raise ValueError(f"smoothing must be positive and finite, got {self.smoothing}")

    def check(self, problem: Robust, domain: Domain | None) -> None:
        if domain is not None:
            raise ValueError(
                f"LBFGS does not support the domain {domain!r}; use ProximalNewton (linear models), or SGD or Nesterov, which project"
            )
        if not problem.smooth:
            try:
                problem.smoothed(1.0)
            except (ValueError, AttributeError) as why:
                raise ValueError(f"LBFGS needs a smooth problem or one that can be smoothed ({why}); use SGD") from why

    def run(self, context: RunContext) -> None:
        _Run(self, context).run()


class _Run:
    """One run: the pilot levels, then the full data, recorded and logged for the checkpoint.

    The log holds every evaluation of the full data. A resumed run repeats the pilot, takes the evaluations of the log instead
    of the data's, and so goes on with the bits of the run that was stopped.
    """

    def __init__(self, settings: LBFGS, context: RunContext) -> None:
        self.settings, self.context, self.problem = settings, context, context.problem
        saved = context.checkpoint.load()
        self.log = Log(self.problem.dim, saved, kept=context.checkpoint.active)
        if saved is not None:
            context.restore()
        self.best = math.inf
        self.current: Robust | None = None

    def run(self) -> None:
        context, settings = self.context, self.settings
        context.raise_if_done()
        w, strength = context.w0, settings.smoothing
        model, linear = self.problem.oracle, self.problem.linear
        factored = settings.precondition and linear is not None and linear.n_features <= _LARGEST_BLOCK
        if settings.pilot and settings.smoothing is None:
            w = self._snapshots(w)
        if factored and settings.pilot and isinstance(model, LinearModel):
            w, strength = self._pilot(model, w, strength)
            if isinstance(model.loss, Poisson) and self.problem.evaluate_if_finite(w, threads=context.threads) is None:
                w = context.w0
        diagonal = settings.precondition and not factored and linear is not None
        plan = Plan(settings.memory, settings.max_iterations, _ROUNDS, factored, context.threads, diagonal)
        rounds = Rounds(self.problem, self._observe, plan)
        point = rounds.run(w, strength)
        self._stall(rounds.current, point.w)

    def _stall(self, current: Robust, w: Vector) -> None:
        """Ends the run at the best point of a level that nothing reduces any more."""
        context, problem = self.context, self.problem
        smoothed = current.evaluate(w, threads=context.threads)
        true, _ = true_evaluation(problem, current, w, smoothed, context.threads)
        gap = self._certified(current, w, smoothed, true) if certifiable(problem) else None
        evaluation = true if current is problem else problem.evaluate(w, threads=context.threads)
        reason = "neither the objective nor its gradient can be reduced further in double precision"
        context.finish(w, Status.STALLED, reason, evaluation=evaluation, gap=gap)

    def _snapshots(self, w: Vector) -> Vector:
        """Stages of SVRG, where the problem suits them, for as long as they gain a lot."""
        context, error = self.context, math.inf
        pilot = SnapshotPilot.of(self.problem, w, context.seed, context.threads)
        while pilot is not None:
            left = (
                math.inf
                if context.max_passes is None
                else (context.max_passes - 1) * self.problem.size - context.evaluations
            )
            made = pilot.go(left)
            if made is None:
                break
            w, gradients, samples = made
            if not self.log.replaying:
                context.count_gradients(gradients)
                context.count_paired(gradients - samples)
            if pilot.once:
                break
            now = self._observe(self.problem, w, Identity()).measure
            if now.done or not GAIN * now.error <= error:
                break
            error = now.error
        return w

    def _pilot(self, model: LinearModel, w: Vector, strength: float | None) -> tuple[Vector, float | None]:
        """Solves subsamples of growing size, each to the excess that its number of rows leaves anyway."""
        plan = Plan(self.settings.memory, _PILOT_ITERATIONS, _PILOT_ROUNDS, True, self.context.threads)
        for rows in level_rows(self.problem, model, self.context.seed):
            share = max(self.context.tol, 0.05 * (model.n_features + 1) / len(rows))
            part = subproblem(self.problem, model, rows)

            def observe(
                current: Robust, w: Vector, scaling: Scaling, part: Robust = part, share: float = share
            ) -> Seen:
                self._count(current.size)
                smoothed = current.evaluate_if_finite(w, threads=self.context.threads)
                if smoothed is None:
                    return _out_of_range(w)
                true, smoothing = true_evaluation(part, current, w, smoothed, self.context.threads)
                pulled = scaling.pull(smoothed.gradient)
                measure = Measure(0.5 * dot(pulled, pulled), share * abs(true.value), smoothing)
                return Seen(smoothed.value, smoothed.gradient, measure, smoothed)

            level = Rounds(part, observe, plan)
            w, strength = level.run(w, strength).w, level.strength
        return w, strength

    def _count(self, samples: int) -> None:
        if not self.log.replaying:
            self.context.count_losses(samples)
            self.context.count_gradients(samples)

    def _observe(self, current: Robust, w: Vector, scaling: Scaling) -> Seen:
        """One evaluation of the full data: counted, measured, recorded, logged."""
        if current is not self.current:
            self.current, self.best = current, math.inf
        known = self.log.next(w)
        if known is not None:
            value, measure, gradient = known
            self.best = min(self.best, value)
            return Seen(value, gradient, measure)
        context = self.context
        self._count(self.problem.size)
        smoothed = current.evaluate_if_finite(w, threads=context.threads)
        if smoothed is None:
            seen = _out_of_range(w)
            self.log.add(w, seen.value, seen.measure, seen.gradient)
            return seen
        true, smoothing = true_evaluation(self.problem, current, w, smoothed, context.threads)
        measure, gap = self._measure(current, w, smoothed, true, smoothing)
        self.log.add(w, smoothed.value, measure, smoothed.gradient)
        if measure.done or smoothed.value <= self.best + 1e-12 * abs(self.best) or not math.isfinite(self.best):
            self.best = min(self.best, smoothed.value)
            norm = _norm(smoothed.gradient)
            if gap is None:
                norm = max(norm, smoothing / max(1.0, _norm(w)))
            context.record(w, true.value, norm, gap, evaluation=true if current is self.problem else None)
        if context.checkpoint.due():
            context.checkpoint.save(self.log.arrays())
        return Seen(smoothed.value, smoothed.gradient, measure, smoothed)

    @np.errstate(over="ignore")
    def _measure(
        self, current: Robust, w: Vector, smoothed: Evaluation, true: Evaluation, smoothing: float
    ) -> tuple[Measure, float | None]:
        """How far w is, and its certified gap: infinite where it is not worth computing, None where there is none.

        Where a certificate exists the error is the gap ``|g|^2/(2 l2)`` of the gradient's own dual point; the full certificate, which
        costs a pass, is computed only when an intercept is left out there and the rest is small enough. Otherwise the error is
        the scaled gradient norm.
        """
        problem, tol = self.problem, self.context.tol
        if not certifiable(problem):
            error = _norm(smoothed.gradient) * max(1.0, _norm(w))
            return Measure(error, tol * max(1.0, abs(true.value)), smoothing), None
        coef = smoothed.gradient[: problem.penalised]
        measure = Measure(dot(coef, coef) / (2.0 * problem.l2), self.context.allowed(true.value), smoothing)
        if problem.penalised == problem.dim:
            return measure, measure.error + smoothing
        if not measure.done:
            # Where the strength is about to be cut the smoothed point gives a bound that later, harder strengths may not.
            ready = measure.coarse and measure.error <= SPLIT * smoothing
            return measure, self._certified(current, w, smoothed, true) if ready else math.inf
        gap = self._certified(current, w, smoothed, true)
        return Measure(max(gap - smoothing, measure.error), measure.allowed, smoothing), gap

    def _certified(self, current: Robust, w: Vector, smoothed: Evaluation, true: Evaluation) -> float:
        """The certificate with a repaired intercept; infinite where w is too far for one."""
        problem, threads = self.problem, self.context.threads
        if current is problem:
            gap = certify(problem, w, true, threads=threads).gap
        elif isinstance(current, Sinkhorn):
            own, energy = current.dual_gap(w, threads)
            gap = max(true.value - smoothed.value + own - energy, 0.0)
        else:
            slopes = current.oracle.slopes(w, threads=threads) if isinstance(current.oracle, LinearModel) else None
            gap = certify(problem, w, true, q=smoothed.weights, slopes=slopes, threads=threads).gap
        return math.inf if gap is None else gap


def _out_of_range(w: Vector) -> Seen:
    """A trial point whose losses leave the range of doubles: infinitely bad."""
    return Seen(math.inf, np.zeros_like(w), Measure(math.inf, 0.0))


@np.errstate(over="ignore")
def _norm(v: Vector) -> float:
    return norm(v)
