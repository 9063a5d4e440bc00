"""Estimators compared at a point, and one problem for a grid of parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import leeward as lw
from leeward.profiling import _bias

RNG = np.random.default_rng(4)
X = RNG.normal(size=(600, 4))
Y = np.sign(X @ np.array([1.0, -1.0, 0.5, 0.0]) + RNG.normal(size=600))
T = X @ np.array([1.0, -1.0, 0.5, 0.0]) + RNG.normal(size=600)
W = np.array([0.3, 0.1, -0.2, 0.4, 0.05])
PROBLEM = lw.Robust(lw.LinearModel(X, Y, "logistic", l2=0.1), lw.CVaR(0.2))


def test_the_bias_by_pairs_is_that_of_the_definition() -> None:
    h = RNG.normal(size=(12, 3)) + 0.5
    pairs = [h[j] @ h[k] for j in range(12) for k in range(12) if j != k]
    bias, (low, high) = _bias(h)
    assert bias == pytest.approx(np.sqrt(max(np.mean(pairs), 0.0)), rel=1e-12)
    assert low <= bias <= high


def test_the_interval_of_the_bias_holds_the_truth_as_often_as_it_says() -> None:
    """400 repetitions of 95 per cent: at least 90 per cent (the chance of fewer is below 1e-4)."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(400):
        low, high = _bias(rng.normal(size=(100, 3)) + np.array([0.3, 0.0, 0.4]))[1]
        inside += low <= 0.5 <= high
    assert inside >= 360


def test_the_full_batch_has_neither_bias_nor_variance() -> None:
    row = lw.profile(PROBLEM, W, [lw.Minibatch(600, replace=False)], repeats=10).rows[0]
    assert row.bias <= 1e-12
    assert row.variance <= 1e-24
    assert abs(row.value_bias) <= 1e-12
    assert row.mean_cost == row.largest_cost == 600


def test_multi_level_estimates_have_less_bias_than_batches_of_their_mean_cost() -> None:
    batch, levels = lw.profile(PROBLEM, W, [lw.Minibatch(40), lw.MLMC(8, 512)], repeats=3000).rows
    assert levels.bias < 0.5 * batch.bias
    assert levels.variance > batch.variance
    assert levels.mean_cost == pytest.approx(8 * 7, rel=0.1)
    assert levels.largest_cost <= 512
    assert batch.value_interval[1] < 0.0 < levels.value_interval[1]
    assert batch.work > 0.0


def test_the_best_estimator_depends_on_the_time() -> None:
    """One with a bias of 0.1 and little work against one without bias: they cost the same error at 0.09 seconds."""
    estimators = (lw.Minibatch(4), lw.MLMC(4, 64))
    found = lw.profile(PROBLEM, W, estimators, repeats=50)
    rows = (replace(found.rows[0], bias=0.1, work=1e-4), replace(found.rows[1], bias=0.0, work=1e-3))
    made = replace(found, rows=rows, full_seconds=0.01)
    assert made.best(0.08) == estimators[0]
    assert made.best(0.1) == estimators[1]
    assert made.best() == estimators[1]
    assert "Minibatch(n=4, replace=True)" in found.table()
    assert found.to_dict()["mean_cost"][0] == 4.0
    with pytest.raises(ValueError, match="seconds must be positive, got 0"):
        found.best(0)


def test_a_profile_names_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="estimators must name at least one"):
        lw.profile(PROBLEM, W, [])
    with pytest.raises(TypeError, match="estimators must be estimators such as"):
        lw.profile(PROBLEM, W, [64])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="repeats must be at least 10, got 2"):
        lw.profile(PROBLEM, W, [lw.Minibatch(4)], repeats=2)
    with pytest.raises(TypeError, match="problem must be a Robust problem"):
        lw.profile(PROBLEM.oracle, W, [lw.Minibatch(4)])  # type: ignore[arg-type]


def test_a_profile_is_drawn() -> None:
    pytest.importorskip("matplotlib")
    ax = lw.profile(PROBLEM, W, [lw.Minibatch(8), lw.MLMC(2, 32)], repeats=50).plot()
    assert len(ax.get_legend().get_texts()) == 2


def test_a_path_solves_every_value_and_starts_where_it_was() -> None:
    train = lw.LinearModel(X[::2], T[::2], "squared", l2=0.01)
    held = lw.LinearModel(X[1::2], T[1::2], "squared", l2=0.01)
    grid = [0.01, 0.1, 0.5, 1.0]
    found = lw.path(train, lw.ChiSquare(radius=1.0), grid, validation=held)
    assert found.parameter == "radius"
    for value, result, score in zip(grid, found.results, found.scores.T, strict=True):
        alone = lw.minimize(lw.Robust(train, lw.ChiSquare(radius=value)))
        assert result.fun == pytest.approx(alone.fun, rel=2e-6)
        assert score[0] == pytest.approx(np.mean(held.losses(result.x)), rel=1e-12)
        assert score[1] == pytest.approx(lw.ChiSquare(radius=1.0)(held.losses(result.x)), rel=1e-12)
    assert found.best(1) is found.results[int(np.argmin(found.scores[1]))]
    assert len(found.table().splitlines()) == 5
    assert list(found.to_dict()["radius"]) == grid


def test_radius_and_penalty_convert_into_each_other_at_the_solution() -> None:
    model = lw.LinearModel(X, T, "squared", l2=0.01)
    for radius_form, penalty_form in ((lw.ChiSquare(radius=0.3), lw.ChiSquare), (lw.KL(radius=0.3), lw.KL)):
        by_radius = lw.path(model, radius_form, [0.3], tol=1e-10)
        assert by_radius.divergences[0] == pytest.approx(0.3, rel=1e-6)
        by_penalty = lw.path(model, penalty_form(penalty=1.0), [by_radius.multipliers[0]], tol=1e-10)
        assert by_penalty.parameter == "penalty"
        np.testing.assert_allclose(by_penalty.results[0].x, by_radius.results[0].x, atol=1e-4)
        assert by_penalty.divergences[0] == pytest.approx(0.3, rel=1e-3)


def test_the_statistical_radius_covers_the_mean_as_often_as_it_says() -> None:
    """2000 samples of n = 400 normal losses: 95 per cent within 4 standard errors (and the O(1/n) of the expansion)."""
    rng = np.random.default_rng(1)
    losses = rng.normal(size=(2000, 400))
    bounds = lw.ChiSquare(radius=lw.statistical_radius(400, 0.95))(losses)
    share = float(np.mean(bounds >= 0.0))
    assert abs(share - 0.95) <= 4 * np.sqrt(0.95 * 0.05 / 2000) + 0.01
    assert lw.statistical_radius(400, 0.95) == pytest.approx(stats.norm.ppf(0.95) ** 2 / 800, rel=1e-12)


def test_a_path_names_what_is_wrong() -> None:
    model = lw.LinearModel(X, T, "squared", l2=0.01)
    with pytest.raises(ValueError, match="grid must hold at least one value"):
        lw.path(model, lw.CVaR(0.1), [])
    with pytest.raises(ValueError, match=r"parameter must be one of \['alpha'\] for CVaR"):
        lw.path(model, lw.CVaR(0.1), [0.1], parameter="radius")
    with pytest.raises(ValueError, match=r"Mean\(\) has no parameter to vary"):
        lw.path(model, lw.Mean(), [0.1])
    with pytest.raises(ValueError, match="alpha must be in"):
        lw.path(model, lw.CVaR(0.1), [0.1, 1.5])
    with pytest.raises(ValueError, match="there are no scores"):
        lw.path(model, lw.CVaR(0.5), [0.5]).best()
    with pytest.raises(ValueError, match="score_risks needs a validation oracle"):
        lw.path(model, lw.CVaR(0.5), [0.5], score_risks=[lw.Worst()])
    with pytest.raises(ValueError, match=r"confidence must be in \(0.5, 1\), got 0.2"):
        lw.statistical_radius(10, 0.2)
