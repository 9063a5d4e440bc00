"""Methods for compositions: SMVR's steps beside the straightforward NumPy loop, what a Python level costs, and every method's time a step
and samples to a gap.

    python bench/bench_composition.py            # d = 30, T = 25105, batches 1 and 32, on simulated returns; some minutes
    python bench/bench_composition.py --short    # the same tables from little work, in a second or two

The NumPy loop is algorithm 1 of the paper level by level, with the identity blocks written out, on draws made before the clock starts;
its iterates are compared with leeward's before either is timed. Medians over rounds that take turns, of
the thread's own time: all of it is work of one thread. The times of leeward leave out the trace.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from composition_methods import SHORT, WHOLE, table
from numpy.typing import NDArray

import leeward as lw
from leeward import _core

Vector = NDArray[np.float64]
Index = NDArray[np.int64]
T, D, LAM, STEP, BETA = 25105, 30, 0.2, 0.02, 0.1


def returns(seed: int = 0) -> Vector:
    """Returns of assets with one common factor, to which they are exposed more or less."""
    rng = np.random.default_rng(seed)
    market = 0.8 * rng.normal(size=(T, 1)) * rng.uniform(0.3, 2.0, D)
    return market + rng.normal(size=(T, D)) * rng.uniform(0.3, 1.2, D) + rng.normal(0.04, 0.01, D)


def draws(seed: int, steps: int, batch: int) -> list[Index]:
    """Samples of the two random levels, (steps, batch) each: the draws of the core."""
    return [np.array([_core.draws.below(seed, 256 + 2 * i, t, T, batch) for t in range(steps)]) for i in range(2)]


def project(v: Vector) -> Vector:
    """The nearest point of the simplex."""
    u = np.sort(v)[::-1]
    excess = np.cumsum(u) - 1.0
    k = np.nonzero(u * np.arange(1, len(u) + 1) > excess)[0][-1]
    return np.maximum(v - excess[k] / (k + 1), 0.0)


def numpy_levels(R: Vector) -> list[Callable[[Vector, Index], tuple[Vector, Vector]]]:
    """The three levels as in the paper: value and Jacobian of a batch, identity blocks written out."""
    eye = np.eye(D)

    def f1(x: Vector, index: Index) -> tuple[Vector, Vector]:
        mean = R[index].mean(axis=0)
        return np.concatenate([[mean @ x], x]), np.vstack([mean, eye])

    def f2(u: Vector, index: Index) -> tuple[Vector, Vector]:
        r = R[index]
        e = r @ u[1:] - u[0]
        J = np.zeros((2, D + 1))
        J[0, 0], J[0, 1:], J[1, 0] = -2.0 * e.mean(), 2.0 * (e[:, None] * r).mean(axis=0), 1.0
        return np.array([(e**2).mean(), u[0]]), J

    def f3(z: Vector, index: Index) -> tuple[Vector, Vector]:
        root = np.sqrt(z[0])
        return np.array([LAM * root - z[1]]), np.array([[LAM / (2.0 * root), -1.0]])

    return [f1, f2, f3]


def numpy_steps(R: Vector, first: Index, second: Index, x: Vector) -> Vector:
    """SMVR as it stands in the paper, level by level, with a guard of the variance and a projection."""
    levels, keep = numpy_levels(R), 1.0 - BETA
    u: list[Vector] = []
    V: list[Vector] = []
    for t in range(len(first)):
        before, u = u, [x]
        for i, (f, index) in enumerate(zip(levels, (first[t], second[t], first[t]), strict=True)):
            value, jacobian = f(u[i], index)
            if t == 0:
                V.append(jacobian)
            else:
                old, old_jacobian = f(before[i], index)
                value = value + keep * (before[i + 1] - old)
                V[i] = jacobian + keep * (V[i] - old_jacobian)
                if i == 1:
                    value[0] = max(value[0], 0.1 * before[2][0])
            u.append(value)
        gradient = np.ones(1)
        for J in reversed(V):
            gradient = J.T @ gradient
        x = project(x - STEP * gradient)
    return x


class Native:
    """leeward's own loop, without the trace."""

    def __init__(self, problem: lw.Composition, batch: int) -> None:
        self.problem, self.algorithm = problem, lw.SMVR(batch, beta=BETA, step=STEP)
        self.batch = batch

    def descent(self) -> _core.Descent:
        laws = ((self.batch, self.batch), (1.0, 0.0, 1.0), [(BETA, 0.0, 1.0)])
        estimator = self.problem.tracked(0, laws, (0.0, 0.0), 0.1, (0, 0, [], 0, 0.0))
        made = self.problem.descent(
            estimator,
            ("heavy_ball", [0.0]),
            np.full(D, 1.0 / D),
            domain=lw.Simplex(),
            schedule=(STEP, 0, 1.0),
            averaging=0,
            output=(0, 0),
            metric=None,
        )
        assert isinstance(made, _core.Descent)
        return made


def python_levels(R: Vector, busy: list[float]) -> lw.Composition:
    """The same three levels as Python functions that note the time they take."""

    def timed(function: Callable[..., Vector]) -> Callable[..., Vector]:
        def call(*arguments: Vector) -> Vector:
            begin = time.thread_time()
            answer = function(*arguments)
            busy[0] += time.thread_time() - begin
            busy[1] += 1
            return answer

        return call

    def square(u: Vector, index: Index) -> Vector:
        e = R[index] @ u[1:] - u[0]
        return np.array([e @ e / len(e)])

    def slope(u: Vector, index: Index) -> Vector:
        r = R[index]
        e = r @ u[1:] - u[0]
        return np.concatenate([[-2.0 * e.mean()], (2.0 / len(e)) * (e @ r)])

    levels = [
        lw.FunctionLevel(
            timed(lambda u, index: np.array([R[index].mean(axis=0) @ u])),
            timed(lambda u, index: R[index].mean(axis=0)),
            inputs=D,
            outputs=1,
            size=T,
            keep=slice(0, D),
        ),
        lw.FunctionLevel(timed(square), timed(slope), inputs=D + 1, outputs=1, size=T, keep=slice(0, 1)),
        lw.FunctionLevel(
            timed(lambda z: np.array([LAM * np.sqrt(z[0]) - z[1]])),
            timed(lambda z: np.array([LAM / (2.0 * np.sqrt(z[0])), -1.0])),
            inputs=2,
            outputs=1,
            positive=slice(0, 1),
            floor=1e-16,
        ),
    ]
    return lw.Composition(levels)


def seconds_a_step(descent: _core.Descent, steps: int) -> float:
    begin = time.thread_time()
    descent.advance(steps, 1e9, 1)
    return (time.thread_time() - begin) / steps


def speeds(rounds: int, steps: int) -> None:
    """Print SMVR beside NumPy, and the cost of Python levels."""
    R = returns()
    problem = lw.MeanDeviation(R, LAM)
    print("SMVR on mean-deviation, d = 30, T = 25105, over the simplex: microseconds a step")
    print(f"{'batch':>6} {'NumPy':>8} {'leeward':>8} {'ratio':>7}")
    for batch in (1, 32):
        first, second = draws(0, steps, batch)
        descent = Native(problem, batch).descent()
        descent.advance(steps, 1e9, 1)
        expected = numpy_steps(R, first, second, np.full(D, 1.0 / D))
        assert np.abs(descent.iterate - expected).max() < 1e-10, "the two loops part"
        theirs, ours = [], []
        for _ in range(rounds):
            begin = time.thread_time()
            numpy_steps(R, first, second, np.full(D, 1.0 / D))
            theirs.append((time.thread_time() - begin) / steps)
            ours.append(seconds_a_step(descent, 20 * steps))
        a, b = 1e6 * median(theirs), 1e6 * median(ours)
        print(f"{batch:>6} {a:>8.1f} {b:>8.3f} {a / b:>7.0f}")

    print("Python levels: microseconds a level-call, on top of the function's own time")
    print(f"{'batch':>6} {'function':>9} {'on top':>7}")
    for batch in (1, 32):
        busy = [0.0, 0.0]
        descent = Native(python_levels(R, busy), batch).descent()
        descent.advance(100, 1e9, 1)
        own, top = [], []
        for _ in range(rounds):
            busy[:] = [0.0, 0.0]
            whole = steps * seconds_a_step(descent, steps)
            own.append(1e6 * busy[0] / busy[1])
            top.append(1e6 * (whole - busy[0]) / busy[1])
        print(f"{batch:>6} {median(own):>9.2f} {median(top):>7.2f}")


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--steps", type=int, default=1000, help="of NumPy in a round; leeward makes twenty times as many"
    )
    parser.add_argument("--short", action="store_true", help="little work: shows that all of it runs")
    options = parser.parse_args(arguments)
    speeds(1 if options.short else options.rounds, 50 if options.short else options.steps)
    table(returns()[: 300 if options.short else T], LAM, SHORT if options.short else WHOLE, print)


if __name__ == "__main__":
    main()
