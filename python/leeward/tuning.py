"""``tune``: the step size of an algorithm by the coarse-to-fine search of Levy, Carmon, Duchi and Sidford (2020), appendix F:

one run for each power of ten, then half and double of the best two, then the best step with several seeds.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward.algorithms.base import Algorithm
from leeward.errors import ConvergenceWarning, LeewardError, OracleError
from leeward.minimize import minimize, workers
from leeward.oracles import LinearModel, Oracle
from leeward.problems import Composition, Robust
from leeward.result import Status
from leeward.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from leeward._context import State
    from leeward.domains import Domain

__all__ = ["Trial", "Tuning", "tune"]

_DECADES = tuple(10.0**k for k in range(-5, 1))
_FURTHER = 6  # decades that are added at an end at most, while the best step is the last one there
_WRONG = (Status.NON_FINITE, Status.DIVERGED)


@dataclass(frozen=True)
class Trial:
    """One run of a search.

    Attributes
    ----------
    stage : str
        "coarse", "fine" or "repeat".
    step : float
        Its step size.
    seed : int
        Its seed.
    objective : float
        ``P`` at the end of its budget, infinite when the run diverged.
    status : Status
        Why it ended: ``BUDGET`` as a rule; ``DIVERGED`` and ``NON_FINITE`` for steps that are too large.
    passes : float
        What it has used.
    trace : Trace
        Its history.
    """

    stage: str
    step: float
    seed: int
    objective: float
    status: Status
    passes: float
    trace: Trace


@dataclass(frozen=True)
class Tuning:
    """What :func:`tune` has found and everything it has tried.

    Attributes
    ----------
    best : Algorithm
        The algorithm with the chosen step.
    step : float
        That step.
    objectives : ndarray (s,)
        ``P`` at the end of the runs with the chosen step, one a seed; infinite for a run that diverged.
    trials : tuple of Trial
        All runs, in order.
    """

    best: Algorithm
    step: float
    objectives: NDArray[np.float64]
    trials: tuple[Trial, ...]

    @property
    def repeats(self) -> tuple[Trial, ...]:
        """The runs of the chosen step, one a seed."""
        return tuple(t for t in self.trials if t.stage == "repeat")

    def table(self) -> str:
        """The runs as text, one line each in the order of their steps, the chosen step marked by a star."""
        lines = [f"  {'step':>10}  {'stage':<6}  {'seed':>5}  {'objective':>14}  {'passes':>7}  status"]
        for t in sorted(self.trials, key=lambda t: t.step):
            mark = "*" if t.step == self.step else " "
            value = f"{t.objective:14.8g}" if math.isfinite(t.objective) else f"{'-':>14}"
            lines.append(f"{mark} {t.step:10.4g}  {t.stage:<6}  {t.seed:>5}  {value}  {t.passes:7.4g}  {t.status.name}")
        low, high = float(self.objectives.min()), float(self.objectives.max())
        lines.append(f"best step {self.step:.6g}: objective {low:.8g} to {high:.8g} over {len(self.objectives)} seeds")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Columns stage, step, seed, objective, status and passes, ready for ``pandas.DataFrame``."""
        columns = ("stage", "step", "seed", "objective", "passes")
        table = {name: np.array([getattr(t, name) for t in self.trials]) for name in columns}
        return table | {"status": np.array([t.status.name for t in self.trials])}

    def plot(self, ax: Any = None) -> Any:
        """Draws objectives against steps (needs matplotlib); returns the axes."""
        from leeward.plot import plot_tuning

        return plot_tuning(self, ax=ax)

    def __repr__(self) -> str:
        return f"Tuning(step={self.step:.6g}, {len(self.trials)} runs, best={self.best!r})"


def tune(
    problem: Robust | Composition | Oracle,
    algorithm: Algorithm,
    *,
    steps: Sequence[float] | None = None,
    passes: float = 10.0,
    seeds: int | Sequence[int] = 5,
    w0: ArrayLike | None = None,
    domain: Domain | None = None,
    trace: str | int | None = "pass",
    threads: int | None = None,
) -> Tuning:
    """Finds a constant step size for an algorithm on a problem.

    First one run for each of ``steps``. Then, for the best two by their final objective, half and double. Then the best of all
    with each seed. A run that diverges is worse than any that does not.

    Parameters
    ----------
    problem : Robust, Composition or Oracle
        The problem.
    algorithm : Algorithm
        One with a field ``step``, such as ``SGD()`` or ``SCSG()``; its own step is not looked at.
    steps : sequence of float, optional
        Steps of the first round, each taken once. By default 1e-5, 1e-4, ..., 1, with further decades as long as the best one is
        the last at its end (at most six more).
    passes : float, default 10.0
        Budget of each run (``max_passes`` of :func:`minimize`, with ``tol=0``).
    seeds : int or sequence of int, default 5
        Seeds of the last round; a number means 0, 1, .... The first one is the seed of the search.
    w0 : (d,) array, optional
        Starting point of all runs.
    domain : Domain, optional
        As for :func:`minimize`.
    trace : "pass", "step", int or None, default "pass"
        As for :func:`minimize`. None saves an evaluation of all samples a pass, and a run that diverges is found out later.
    threads : int, optional
        Runs at a time. The result does not depend on it. Oracles of Python functions are run one after another, since
        nothing is known about calling them from two threads at once.

    Returns
    -------
    Tuning

    Raises
    ------
    TypeError, ValueError
        For arguments that make no sense.
    LeewardError
        When every run diverged.

    References
    ----------
    Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020, appendix F.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3)); y = X @ [1.0, -2.0, 0.5] + rng.normal(size=300)
    >>> found = lw.tune(lw.LinearModel(X, y, loss="squared"), lw.SGD(lw.Minibatch(8)), passes=5, seeds=3)
    >>> found.step, found.best.step == found.step, len(found.objectives)
    (0.1, True, 3)
    """
    given = None if steps is None else _steps(steps)
    chosen_seeds = _seeds(seeds)
    if not isinstance(algorithm, Algorithm):
        raise TypeError(f"algorithm must be an algorithm such as SGD(), got {algorithm!r}")
    if "step" not in {f.name for f in dataclasses.fields(algorithm)}:  # type: ignore[arg-type]
        raise TypeError(f"algorithm must have a step to tune, such as SGD(), got {algorithm!r}")
    if isinstance(passes, bool) or not isinstance(passes, numbers.Real) or not 0 < passes < math.inf:
        raise ValueError(f"passes must be positive and finite, got {passes!r}")
    problem = Robust(problem) if isinstance(problem, Oracle) else problem
    if not isinstance(problem, Robust | Composition):
        raise TypeError(f"problem must be a Robust problem, a Composition or an oracle, got {type(problem).__name__}")
    start = problem.start() if isinstance(problem, Composition) else np.zeros(problem.dim)
    problem.value(start if w0 is None else w0)  # an oracle that is wrong says so here, not in a run
    shared = {"w0": w0, "domain": domain, "max_passes": float(passes), "trace": trace}
    search = _Search(problem, algorithm, shared, chosen_seeds, workers(threads))
    step = search.run(given)
    objectives = np.array([t.objective for t in search.trials if t.stage == "repeat"])
    return Tuning(dataclasses.replace(algorithm, step=step), step, objectives, tuple(search.trials))


class _Search:
    """The runs of one search; those of a round do not depend on each other."""

    def __init__(
        self,
        problem: Robust | Composition,
        algorithm: Algorithm,
        shared: dict[str, Any],
        seeds: tuple[int, ...],
        threads: int,
    ) -> None:
        self.problem, self.algorithm, self.shared, self.seeds = problem, algorithm, shared, seeds
        native = isinstance(problem.oracle, LinearModel) or (isinstance(problem, Composition) and problem.native)
        self.together = threads if native else 1
        self.threads = 1 if self.together > 1 else threads
        self.trials: list[Trial] = []
        self._stopped = threading.Event()

    def run(self, given: tuple[float, ...] | None) -> float:
        """The chosen step."""
        self._round("coarse", _DECADES if given is None else given)
        if given is None:
            self._go_on()
        two = sorted(self.trials, key=_rank)[:2]
        tried = {t.step for t in self.trials}
        near = [t.step * factor for t in two if math.isfinite(t.objective) for factor in (0.5, 2.0)]
        self._round("fine", [step for step in dict.fromkeys(near) if step not in tried])
        best = min(self.trials, key=_rank)
        if not math.isfinite(best.objective):
            tried_text = ", ".join(f"{t.step:g}" for t in self.trials)
            raise LeewardError(f"no step can be recommended: the runs with steps {tried_text} all diverged")
        self.trials.append(dataclasses.replace(best, stage="repeat"))
        self._round("repeat", [best.step], self.seeds[1:])
        return best.step

    def _go_on(self) -> None:
        """More decades while the best step is the last one at its end."""
        for _ in range(_FURTHER):
            ordered = sorted(self.trials, key=lambda t: t.step)
            best = min(ordered, key=_rank)
            if not math.isfinite(best.objective) or best is ordered[0]:
                self._round("coarse", [ordered[0].step / 10.0])
            elif best is ordered[-1]:
                self._round("coarse", [ordered[-1].step * 10.0])
            else:
                break

    def _round(self, stage: str, steps: Sequence[float], seeds: Sequence[int] | None = None) -> None:
        jobs = [(stage, step, seed) for step in steps for seed in (self.seeds[:1] if seeds is None else seeds)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            if self.together == 1 or len(jobs) < 2:
                self.trials += [self._trial(*job) for job in jobs]
                return
            with ThreadPoolExecutor(min(self.together, len(jobs))) as pool:
                waiting = [pool.submit(self._trial, *job) for job in jobs]
                try:
                    self.trials += [job.result() for job in waiting]
                except BaseException:
                    self._stopped.set()
                    for job in waiting:
                        job.cancel()
                    raise

    def _trial(self, stage: str, step: float, seed: int) -> Trial:
        algorithm = dataclasses.replace(self.algorithm, step=step)  # type: ignore[type-var]
        try:
            with np.errstate(all="ignore"):
                result = minimize(
                    self.problem,
                    algorithm=algorithm,
                    tol=0.0,
                    seed=seed,
                    callback=self._stop,
                    threads=self.threads,
                    **self.shared,
                )
        except OracleError as error:  # losses of one's own that left the range of doubles
            if "finite" not in str(error):
                raise
            return Trial(stage, step, seed, math.inf, Status.NON_FINITE, math.nan, Trace())
        good = result.status not in _WRONG and math.isfinite(result.fun)
        return Trial(stage, step, seed, result.fun if good else math.inf, result.status, result.passes, result.trace)

    def _stop(self, state: State) -> bool:
        return self._stopped.is_set()


def _rank(trial: Trial) -> tuple[float, float]:
    """Lower is better; of equal runs the one with the smaller step."""
    return (trial.objective, trial.step)


def _steps(steps: Sequence[float]) -> tuple[float, ...]:
    try:
        values = tuple(float(step) for step in steps)
    except (TypeError, ValueError):
        raise TypeError(f"steps must be a sequence of numbers, got {steps!r}") from None
    if not values:
        raise ValueError("steps must hold at least one step, got none")
    for step in values:
        if not 0 < step < math.inf:
            raise ValueError(f"steps must be positive and finite, got {step}")
    return tuple(dict.fromkeys(values))


def _seeds(seeds: Any) -> tuple[int, ...]:
    if isinstance(seeds, numbers.Integral) and not isinstance(seeds, bool):
        if seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {seeds}")
        return tuple(range(int(seeds)))
    try:
        values = tuple(seeds)
    except TypeError:
        raise TypeError(f"seeds must be a number of seeds or a sequence of them, got {seeds!r}") from None
    if not values or not all(isinstance(s, numbers.Integral) and not isinstance(s, bool) for s in values):
        raise TypeError(f"seeds must hold integers, got {seeds!r}")
    return tuple(dict.fromkeys(int(s) for s in values))
