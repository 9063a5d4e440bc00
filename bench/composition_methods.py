"""Every method for compositions on two portfolio problems, with native and with Python levels: for bench_composition.py.

Mean-deviation has three levels, mean-CVaR two, so that NASA and ASC-PG, which are for two, are compared as well. Samples to a gap: each
method gets the step of a grid with which it reaches the gap in the fewest samples on one seed, and the table shows the median of other
seeds with it. Microseconds a step are the thread's own time that more steps add to a run: medians over rounds.
A method's run with Python levels must come to the native run's point before either is timed.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import leeward as lw

Vector = NDArray[np.float64]
Index = NDArray[np.int64]
LEFT = 0.01  # of the first gap


@dataclass(frozen=True)
class Effort:
    """How much work the tables take."""

    native: int  # steps timed
    python: int
    rounds: int
    seeds: int
    passes: float  # most of a run to the gap
    records: int  # of a run that spends its budget
    steps: tuple[float, ...]
    batches: tuple[int, int] = (1, 32)


WHOLE = Effort(
    native=20_000, python=600, rounds=3, seeds=5, passes=20.0, records=400, steps=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
)
SHORT = Effort(native=200, python=5, rounds=1, seeds=1, passes=40.0, records=40, steps=(0.1,))


def methods(depth: int) -> dict[str, Any]:
    """name -> algorithm, those for any depth and, for two levels, the others."""
    found: dict[str, Any] = {
        "SMVR": lw.SMVR(decay="cbrt"),
        "SMVR, stages": lw.SMVR(stages="doubling"),
        "SMVR, AdaGrad": lw.SMVR(decay="cbrt", update=lw.AdaGrad(mean=True)),
        "SMVR, AMSGrad": lw.SMVR(decay="cbrt", update=lw.AMSGrad(momentum=0.0)),
        "PMVR": lw.PMVR(decay="cbrt"),
        "PMVR, average": lw.PMVR(decay="cbrt", direction="average"),
        "SCSC": lw.SCSC(decay="sqrt"),
        "NestedSPIDER": lw.NestedSPIDER(),
        "NLASG": lw.NLASG(tau=0.02),
        "ATSCGD": lw.ATSCGD(),
        "SCGD": lw.SCGD(),
    }
    if depth <= 2:
        found |= {"NASA": lw.NASA(tau=0.02), "ASCPG": lw.ASCPG()}
    return found


def mean_deviation(R: Vector, lam: float) -> lw.Composition:
    """The levels of MeanDeviation as Python functions."""

    def deviation(u: Vector, index: Index) -> Vector:
        e: Vector = R[index] @ u[1:] - u[0]
        return e

    def slope(u: Vector, index: Index) -> Vector:
        e = deviation(u, index)
        return np.concatenate([[-2.0 * e.mean()], (2.0 / len(e)) * (e @ R[index])])

    T, d = R.shape
    first = lw.FunctionLevel(
        lambda u, index: np.array([R[index].mean(axis=0) @ u]),
        lambda u, index: R[index].mean(axis=0),
        inputs=d, outputs=1, size=T, keep=slice(0, d),
    )  # fmt: skip
    second = lw.FunctionLevel(
        lambda u, index: np.array([np.mean(deviation(u, index) ** 2)]), slope,
        inputs=d + 1, outputs=1, size=T, keep=slice(0, 1),
    )  # fmt: skip
    third = lw.FunctionLevel(
        lambda z: np.array([lam * math.sqrt(z[0]) - z[1]]), lambda z: np.array([lam / (2.0 * math.sqrt(z[0])), -1.0]),
        inputs=2, outputs=1, positive=slice(0, 1), floor=1e-16,
    )  # fmt: skip
    return lw.Composition([first, second, third], convex=True, domain=lw.Simplex())


class _Tail(lw.Composition):
    """The levels of a MeanCVaR as Python functions; what is known of its last variable is taken from there."""

    def __init__(self, native: lw.MeanCVaR) -> None:
        self.own, R, d, h = native, native.returns, native.returns.shape[1], native.smoothing

        def excess(w: Vector, index: Index) -> Vector:
            u: Vector = -(R[index] @ w[:-1]) - native.unit * w[-1]
            return u

        def value(w: Vector, index: Index) -> Vector:
            u = excess(w, index)
            share = np.clip((u + h) / (2 * h), 0.0, 1.0)
            return np.array([np.mean(h * share**2 + np.maximum(u - h, 0.0)), np.mean(R[index] @ w[:-1])])

        def jacobian(w: Vector, index: Index) -> Vector:
            share, r = np.clip((excess(w, index) + h) / (2 * h), 0.0, 1.0), R[index]
            out = np.zeros((2, d + 1))
            out[0, :-1], out[0, -1], out[1, :-1] = -(share @ r) / len(r), -native.unit * share.mean(), r.mean(axis=0)
            return out

        outer = np.array([[native.lam / native.alpha, -1.0, native.lam * native.unit]])
        first = lw.FunctionLevel(value, jacobian, inputs=d + 1, outputs=2, size=len(R), keep=slice(d, d + 1))
        second = lw.FunctionLevel(lambda u: outer @ u, lambda u: outer, inputs=3, outputs=1)
        super().__init__([first, second], domain=lw.Simplex())

    @property
    def penalised(self) -> int:
        return self.own.penalised

    def start(self) -> Vector:
        return self.own.start()


def problems(R: Vector, lam: float) -> list[tuple[str, lw.Composition, lw.Composition]]:
    """(name, native, with Python levels)."""
    tail = lw.MeanCVaR(R, 1.0, 0.1, smoothing=0.1)
    return [("mean-deviation", lw.MeanDeviation(R, lam), mean_deviation(R, lam)), ("mean-CVaR", tail, _Tail(tail))]


def run(problem: lw.Composition, algorithm: Any, steps: int) -> tuple[float, Vector]:
    """The thread's own time of a run of some steps, with its two or three full evaluations, and where it leads."""
    begin = time.thread_time()
    result = lw.minimize(
        problem,
        algorithm=algorithm,
        max_passes=1e9,
        trace=steps,
        callback=lambda state: state.step >= steps,
        threads=1,
    )
    return time.thread_time() - begin, result.x


def microseconds(problem: lw.Composition, algorithm: Any, steps: int) -> float:
    """Time of one step: what as many steps again add to a run."""
    return 1e6 * (run(problem, algorithm, 2 * steps)[0] - run(problem, algorithm, steps)[0]) / steps


def timed(native: lw.Composition, python: lw.Composition, algorithm: Any, effort: Effort) -> list[float]:
    """Microseconds a step: native at both batches, Python levels at the larger one."""
    small, large = (replace(algorithm, batch=batch, step=1e-3) for batch in effort.batches)
    gap = np.abs(run(native, large, 20)[1] - run(python, large, 20)[1]).max()
    if not gap < 1e-9:
        raise AssertionError(f"native and Python levels part by {gap:.2g} under {algorithm!r}")
    runs = []
    for _ in range(effort.rounds):
        cases = ((native, small, effort.native), (native, large, effort.native), (python, large, effort.python))
        runs.append([microseconds(case, method, steps) for case, method, steps in cases])
    return [median(column) for column in zip(*runs, strict=True)]


def samples_to(problem: lw.Composition, algorithm: Any, goal: float, effort: Effort, seed: int) -> float:
    """Samples drawn until the objective is at the goal; infinite where it is not within the budget."""
    budget = effort.passes * problem.size

    def stop(state: lw.State) -> bool:
        return state.objective <= goal or state.trace.samples[-1] >= budget

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = lw.minimize(
            problem,
            algorithm=algorithm,
            max_passes=10.0 * effort.passes,
            tol=0.0,
            seed=seed,
            callback=stop,
            trace=max(1, round(budget / (2.0 * algorithm.batch) / effort.records)),
            threads=1,
        )
    below = np.flatnonzero(np.array(result.trace.objective) <= goal)
    return float(result.trace.samples[below[0]]) if len(below) else math.inf


def optimum(problem: lw.Composition) -> float:
    """The least objective, to a fifth of what runs have to reach."""
    first = problem.value(problem.start())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = lw.minimize(
            problem, algorithm=lw.SMVR(problem.levels[0].size, decay="constant"), tol=1e-5, max_passes=3000
        )
    if result.gap is None or not result.gap <= 0.2 * LEFT * (first - result.fun):
        raise AssertionError(f"the optimum is not known well enough: {result.message}")
    return float(result.fun)


def table(R: Vector, lam: float, effort: Effort, show: Callable[[str], object]) -> None:
    """Shows a row a method for each problem."""
    small, large = effort.batches
    for name, native, python in problems(R, lam):
        best = optimum(native)
        goal = best + LEFT * (native.value(native.start()) - best)
        size = f"{native.depth} levels, d = {R.shape[1]}, T = {len(R)}"
        show(f"{name}, {size}: microseconds a step, and samples to {LEFT:.0%} of the first gap")
        heads = (f"batch {small}", f"batch {large}", "Python", "step", "samples", "at least", "at most")
        show(f"{'method':<14}" + "".join(f"{head:>10}" for head in heads))
        for method, algorithm in methods(native.depth).items():
            times = timed(native, python, algorithm, effort)
            tried = {
                step: samples_to(native, replace(algorithm, batch=large, step=step), goal, effort, 1000)
                for step in effort.steps
            }
            step = min(tried, key=lambda s: tried[s])
            found = sorted(
                samples_to(native, replace(algorithm, batch=large, step=step), goal, effort, seed)
                for seed in range(effort.seeds)
            )
            reached = "".join(
                f"{v:>10.3g}" if math.isfinite(v) else f"{'never':>10}" for v in (median(found), found[0], found[-1])
            )
            show(f"{method:<14}{times[0]:>10.3f}{times[1]:>10.3f}{times[2]:>10.1f}{step:>10g}{reached}")
