"""Steps of SMVR on a mean-deviation portfolio beside the straightforward NumPy loop, and what a Python level costs.

    python bench/bench_composition.py            # d = 30, T = 25105, batches 1 and 32, on simulated returns

The NumPy loop makes the same steps on draws made before the clock starts, with the identity blocks of the levels as they are written in
the paper, or without them; its iterates are compared with leeward's before either is timed. Medians of rounds that take turns; the
times of leeward leave out the trace.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from numpy.typing import NDArray

import leeward as lw
from leeward import _core

Vector = NDArray[np.float64]
T, D, LAM, STEP, BETA = 25105, 30, 0.2, 0.02, 0.1


def returns(seed: int = 0) -> Vector:
    """Returns of assets with one common factor."""
    rng = np.random.default_rng(seed)
    market = 0.8 * rng.normal(size=(T, 1))
    return market + rng.normal(size=(T, D)) * rng.uniform(0.3, 1.2, D) + rng.normal(0.04, 0.01, D)


def draws(seed: int, steps: int, batch: int) -> list[NDArray[np.int64]]:
    """Samples of the two random levels, (steps, batch) each: the draws of the core."""
    return [np.array([_core.draws.below(seed, 256 + 2 * i, t, T, batch) for t in range(steps)]) for i in range(2)]


def project(v: Vector) -> Vector:
    """The nearest point of the simplex."""
    u = np.sort(v)[::-1]
    excess = np.cumsum(u) - 1.0
    k = np.nonzero(u * np.arange(1, len(u) + 1) > excess)[0][-1]
    return np.maximum(v - excess[k] / (k + 1), 0.0)


def numpy_steps(R: Vector, first: NDArray[np.int64], second: NDArray[np.int64], x: Vector) -> Vector:
    """SMVR as it stands in the paper, with Jacobians of the three levels as matrices."""
    eye, keep, before = np.eye(D), 1.0 - BETA, x

    def f1(x: Vector, r: Vector) -> tuple[Vector, Vector]:
        mean = r.mean(axis=0)
        return np.concatenate([[mean @ x], x]), np.vstack([mean, eye])

    def f2(u: Vector, r: Vector) -> tuple[Vector, Vector]:
        e = r @ u[1:] - u[0]
        J = np.zeros((2, D + 1))
        J[0, 0], J[0, 1:], J[1, 0] = -2.0 * e.mean(), (2.0 / len(e)) * (e @ r), 1.0
        return np.array([e @ e / len(e), u[0]]), J

    def f3(z: Vector) -> tuple[Vector, Vector]:
        root = np.sqrt(z[0])
        return np.array([LAM * root - z[1]]), np.array([[LAM / (2.0 * root), -1.0]])

    for t in range(len(first)):
        r1, r2 = R[first[t]], R[second[t]]
        if t == 0:
            u1, V1 = f1(x, r1)
            u2, V2 = f2(u1, r2)
            u3, V3 = f3(u2)
        else:
            a, J = f1(x, r1)
            b, Jb = f1(before, r1)
            n1, V1 = a + keep * (u1 - b), J + keep * (V1 - Jb)
            a, J = f2(n1, r2)
            b, Jb = f2(u1, r2)
            n2, V2 = a + keep * (u2 - b), J + keep * (V2 - Jb)
            n2[0] = max(n2[0], 0.1 * u2[0])
            a, J = f3(n2)
            b, Jb = f3(u2)
            u3, V3 = a + keep * (u3 - b), J + keep * (V3 - Jb)
            u1, u2 = n1, n2
        before = x
        x = project(x - STEP * (V1.T @ (V2.T @ V3[0])))
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
            begin = time.perf_counter()
            answer = function(*arguments)
            busy[0] += time.perf_counter() - begin
            busy[1] += 1
            return answer

        return call

    def square(u: Vector, index: NDArray[np.int64]) -> Vector:
        e = R[index] @ u[1:] - u[0]
        return np.array([e @ e / len(e)])

    def slope(u: Vector, index: NDArray[np.int64]) -> Vector:
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
    begin = time.perf_counter()
    descent.advance(steps, 1e9, 1)
    return (time.perf_counter() - begin) / steps


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--steps", type=int, default=1000, help="of NumPy in a round; leeward makes twenty times as many"
    )
    options = parser.parse_args()
    R = returns()
    problem = lw.MeanDeviation(R, LAM)
    print("SMVR on mean-deviation, d = 30, T = 25105, over the simplex: microseconds a step")
    print(f"{'batch':>6} {'NumPy':>8} {'leeward':>8} {'ratio':>7}")
    for batch in (1, 32):
        first, second = draws(0, options.steps, batch)
        descent = Native(problem, batch).descent()
        descent.advance(options.steps, 1e9, 1)
        expected = numpy_steps(R, first, second, np.full(D, 1.0 / D))
        assert np.abs(descent.iterate - expected).max() < 1e-10, "the two loops part"
        theirs, ours = [], []
        for _ in range(options.rounds):
            begin = time.perf_counter()
            numpy_steps(R, first, second, np.full(D, 1.0 / D))
            theirs.append((time.perf_counter() - begin) / options.steps)
            ours.append(seconds_a_step(descent, 20 * options.steps))
        a, b = 1e6 * median(theirs), 1e6 * median(ours)
        print(f"{batch:>6} {a:>8.1f} {b:>8.3f} {a / b:>7.0f}")

    print("Python levels: microseconds a level-call, on top of the function's own time")
    print(f"{'batch':>6} {'function':>9} {'on top':>7}")
    for batch in (1, 32):
        busy = [0.0, 0.0]
        descent = Native(python_levels(R, busy), batch).descent()
        descent.advance(100, 1e9, 1)
        own, top = [], []
        for _ in range(options.rounds):
            busy[:] = [0.0, 0.0]
            whole = options.steps * seconds_a_step(descent, options.steps)
            own.append(1e6 * busy[0] / busy[1])
            top.append(1e6 * (whole - busy[0]) / busy[1])
        print(f"{batch:>6} {median(own):>9.2f} {median(top):>7.2f}")


if __name__ == "__main__":
    main()
