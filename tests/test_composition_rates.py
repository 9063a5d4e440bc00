"""Rates of SMVR over four decades of steps: what its theorems promise is what runs show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import leeward as lw

SAMPLES = 2000


def slope(budgets: NDArray[np.int64], measure: Callable[[int, int], float], seeds: int) -> float:
    """Log-log slope of the mean of ``measure(steps, seed)`` over the seeds."""
    means = [np.mean([measure(int(steps), seed) for seed in range(seeds)]) for steps in budgets]
    return float(np.polyfit(np.log(budgets), np.log(means), 1)[0])


def test_the_gradient_falls_as_the_cube_root_of_the_samples() -> None:
    rng = np.random.default_rng(0)
    R = rng.normal(size=(SAMPLES, 4)) + rng.normal(0.1, 0.1, 4)
    levels = [
        *lw.MeanDeviation(R).levels[:2],
        lw.LinearLevel([[0.5, -1.0]]),
    ]  # -mean + variance/2: smooth, three levels
    problem, w0 = lw.Composition(levels), np.full(4, 0.25)
    algorithm = lw.SMVR(1, step=0.3, beta=1.0, period=3.0, output="random")
    evaluations = 6  # a step: two values of each level

    def norm(steps: int, seed: int) -> float:
        passes = steps * evaluations / problem.size
        x = lw.minimize(problem, w0, algorithm, max_passes=passes, tol=0, seed=seed, trace=None).x
        return float(np.linalg.norm(problem.evaluate(x).gradient))

    budgets = np.geomspace(100, 1e6, 5).astype(int)
    assert slope(budgets, norm, 12) == pytest.approx(-1 / 3, abs=0.05)


def test_stages_bring_the_gap_down_as_one_over_the_samples() -> None:
    rng = np.random.default_rng(0)
    market = 0.8 * rng.normal(size=(SAMPLES, 1))
    R = market + rng.normal(size=(SAMPLES, 5)) * rng.uniform(0.3, 1.2, 5) + rng.normal(0.1, 0.1, 5)
    problem = lw.MeanDeviation(R, 0.5, l2=0.5)  # strongly convex on the simplex
    best = lw.minimize(problem, algorithm=lw.SMVR(SAMPLES, step=0.3, beta=1.0), tol=1e-12)
    assert best.success

    def gap(steps: int, seed: int) -> float:
        passes = steps * 6 / problem.size
        algorithm = lw.SMVR(1, step=0.5, stages="doubling")
        return lw.minimize(problem, algorithm=algorithm, max_passes=passes, tol=0, seed=seed, trace=None).fun - best.fun

    budgets = 2 ** np.arange(8, 19, 2)
    assert slope(budgets, gap, 8) == pytest.approx(-1.0, abs=0.1)
