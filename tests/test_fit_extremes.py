"""Full-batch fits at the ends of the range: optima of 0, overflow on the way, unreachable tolerances."""

from __future__ import annotations

import numpy as np
import pytest

import leeward as lw

RNG = np.random.default_rng(0)
X = RNG.normal(size=(100, 3))
Y = np.sign(X @ [1.0, -2.0, 0.5] + RNG.normal(size=100))


@pytest.mark.parametrize(
    ("y", "loss", "risk"),
    [(np.ones(100), "squared", lw.CVaR(0.2)), (np.zeros(100), "poisson", lw.KL(radius=0.2))],
)
def test_a_fit_whose_optimum_is_zero_converges(y: np.ndarray, loss: str, risk: lw.Risk) -> None:
    result = lw.minimize(lw.Robust(lw.LinearModel(X, y, loss, l2=1e-2), risk))
    assert result.success
    assert 0.0 <= result.fun <= 1e-12
    assert result.passes < 100


def test_the_gap_comes_from_the_best_bound_of_the_run() -> None:
    problem = lw.Robust(lw.LinearModel(X, Y, l2=1e-2, intercept=False), lw.CVaR(0.2))
    with pytest.warns(lw.ConvergenceWarning):
        result = lw.minimize(problem, tol=1e-15, trace="step")
    bound = np.nanmax(result.trace.objective - result.trace.gap)
    assert result.fun <= lw.minimize(problem, tol=1e-4).fun
    assert result.gap <= result.fun - bound + 1e-15


def test_a_stalled_run_does_not_end_above_its_start() -> None:
    outlier = np.vstack([X, np.full((1, 3), 1e6)])
    problem = lw.Robust(lw.LinearModel(outlier, np.append(Y, 1.0), l2=1e-2), lw.CVaR(0.2))
    with pytest.warns(lw.ConvergenceWarning):
        result = lw.minimize(problem)
    assert result.fun <= problem.value(np.zeros(4))


def test_a_trial_point_whose_losses_overflow_does_not_end_the_run() -> None:
    y = np.arange(100) * 1e6
    result = lw.minimize(lw.Robust(lw.LinearModel(X, y, "poisson", l2=1e-2), lw.Mean()))
    assert result.success
    assert result.fun < -8e8


def test_targets_of_1e100_are_fitted_without_overflow() -> None:
    y = 1e100 * (X @ [1.0, -2.0, 0.5] + RNG.normal(size=100))
    problem = lw.Robust(lw.LinearModel(X, y, "squared", l2=1e-2), lw.KL(radius=0.2))
    result = lw.minimize(problem)
    assert result.success
    assert result.fun < 0.9 * problem.value(np.zeros(4))
