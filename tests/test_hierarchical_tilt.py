"""HierarchicalTilt against its NumPy twin, special cases, extremes, minimisation, and its composition."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.typing import NDArray

import leeward as lw
from leeward.testing import check_level
from reference import compositions, tilts
from reference import updates as moves

Vector = NDArray[np.float64]
RNG = np.random.default_rng(5)
N, D = 60, 3
X = RNG.normal(size=(N, D))
Y = np.sign(X @ [1.0, -1.0, 0.5] + 0.7 * RNG.normal(size=N))
GROUPS = RNG.integers(0, 4, size=N)
P = RNG.uniform(0.1, 1.0, size=N) * (RNG.random(N) > 0.1)
TILTS = [(10.0, -2.0), (1.0, 1.0), (-1.0, 3.0), (0.0, -2.0), (10.0, 0.0), (0.0, 0.0), (2.0, 1e-9), (1e-9, -2.0)]


def model(weighted: bool = False, l2: float = 0.0, loss: str = "logistic", **settings: bool) -> lw.LinearModel:
    return lw.LinearModel(X, Y, loss, l2=l2, sample_weight=P if weighted else None, **settings)


@pytest.mark.parametrize(("t", "tau"), TILTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_value_gradient_and_weights_are_those_of_the_twin(t: float, tau: float, weighted: bool) -> None:
    oracle = model(weighted, l2=0.1)
    problem = lw.HierarchicalTilt(oracle, GROUPS, t, tau)
    p = P / P.sum() if weighted else np.full(N, 1 / N)
    for w in RNG.normal(size=(3, D + 1)):
        value, slopes = tilts.hierarchical(oracle.losses(w), p, GROUPS, t, tau)
        tolerance = 1e-12 if min(abs(t), abs(tau)) > 1e-3 or t == 0 or tau == 0 else 1e-6  # the twin divides by 1e-9
        coef = np.append(w[:-1], 0.0)
        found = problem.evaluate(w)
        assert found.value == pytest.approx(value + 0.05 * coef @ coef, abs=tolerance)
        assert problem.value(w) == pytest.approx(found.value, abs=1e-14)
        np.testing.assert_allclose(found.gradient, oracle.gradient(w, slopes) + 0.1 * coef, atol=10 * tolerance)
        np.testing.assert_allclose(problem.sample_weights(w), slopes, atol=tolerance)
        assert problem.sample_weights(w).sum() == pytest.approx(1.0, abs=1e-13)


@pytest.mark.parametrize(("t", "tau"), [(10.0, -2.0), (1.0, 3.0), (-1.0, 1e-9)])
def test_the_gradient_is_the_derivative_of_the_value(t: float, tau: float) -> None:
    problem = lw.HierarchicalTilt(model(l2=0.1), GROUPS, t, tau)
    w, h = RNG.normal(size=D + 1), 1e-6
    slopes = [(problem.value(w + h * e) - problem.value(w - h * e)) / (2 * h) for e in np.eye(D + 1)]
    np.testing.assert_allclose(problem.evaluate(w).gradient, slopes, atol=1e-8)


def test_special_cases_are_the_risks_that_they_are() -> None:
    oracle, w = model(True), RNG.normal(size=D + 1)
    equal = lw.HierarchicalTilt(oracle, GROUPS, 1.7, 1.7)  # the same tilt on both levels is one tilt
    assert equal.value(w) == pytest.approx(lw.Robust(oracle, lw.Tilted(1.7)).value(w), abs=1e-13)
    alone = lw.HierarchicalTilt(oracle, np.arange(N), -3.0, 5.0)  # groups of one row: tau has nothing to do
    assert alone.value(w) == pytest.approx(lw.Robust(oracle, lw.Tilted(-3.0)).value(w), abs=1e-13)
    one = lw.HierarchicalTilt(oracle, np.zeros(N, int), 5.0, -3.0)  # one group: t has nothing to do
    assert one.value(w) == pytest.approx(lw.Robust(oracle, lw.Tilted(-3.0)).value(w), abs=1e-13)
    plain = lw.HierarchicalTilt(oracle, GROUPS, 0.0, 0.0)
    assert plain.value(w) == pytest.approx(lw.Robust(oracle).value(w), abs=1e-14)


@pytest.mark.parametrize("tau", [-2.0, -1e-3, 0.0, 2.0])
@pytest.mark.parametrize("groups", [np.arange(N) % 3, np.arange(N)])
def test_losses_to_ten_thousand_overflow_nowhere(tau: float, groups: NDArray[np.int64]) -> None:
    oracle = lw.LinearModel(X, 100.0 * Y, "squared")
    losses = oracle.losses(np.append(30 * np.ones(D), 0.0))
    assert losses.max() > 1e4
    problem = lw.HierarchicalTilt(oracle, groups, 10.0, tau)
    found = problem.evaluate(np.append(30 * np.ones(D), 0.0))
    assert np.isfinite(found.gradient).all()
    assert losses.min() <= found.value <= losses.max()
    result = lw.minimize(problem, max_passes=30, tol=0.0)
    assert result.fun <= found.value


def test_separable_data_under_a_negative_tilt_end_near_zero() -> None:
    apart = X + 2.0 * np.outer(np.sign(X[:, 0]), [1.0, 0.0, 0.0])
    separable = lw.LinearModel(apart, np.sign(X[:, 0]), "logistic", intercept=False)
    result = lw.minimize(lw.HierarchicalTilt(separable, X[:, 0] > 0, 10.0, -2.0), tol=1e-6)
    assert np.isfinite(result.x).all()
    assert 0 <= result.fun < 1e-4
    one_wrong = lw.HierarchicalTilt(separable, X[:, 0] > 0, 10.0, -2.0).value([1e4, 1e6, 0.0])
    assert np.isfinite(one_wrong)  # along a ray that leaves some wrong, P stays bounded
    assert one_wrong < 2.0


def test_a_tilt_near_zero_loses_no_digits() -> None:
    oracle, w = model(), RNG.normal(size=D + 1)
    losses = oracle.losses(w)
    variance = sum(np.mean(g == GROUPS) * losses[g == GROUPS].var() for g in range(4))
    value = lw.HierarchicalTilt(oracle, GROUPS, 0.0, 1e-8).value(w)
    assert value - losses.mean() == pytest.approx(0.5e-8 * variance, abs=3e-16)


@pytest.mark.parametrize("t", [0.0, 3.0])
def test_convex_tilts_are_solved_to_a_certificate(t: float) -> None:
    problem = lw.HierarchicalTilt(model(l2=0.1, intercept=False), GROUPS, t, 1.0)
    result = lw.minimize(problem)
    assert isinstance(result.algorithm, lw.LBFGS)
    assert result.success
    assert result.gap is not None
    assert 0 <= result.gap <= 1e-6 * result.fun
    rough = problem.value(np.zeros(D))
    assert result.fun < rough
    assert not lw.HierarchicalTilt(model(), GROUPS, t, -1.0).convex


def test_a_stationary_point_is_found_where_p_is_not_convex() -> None:
    result = lw.minimize(lw.HierarchicalTilt(model(l2=1e-3), GROUPS, 10.0, -2.0))
    assert result.success
    assert result.gap is None
    assert np.abs(result.jac).max() <= 1e-5
    skewed = lw.LinearModel(X * [1.0, 1e4, 1e-3], Y, "logistic", l2=0.0)
    again = lw.minimize(lw.HierarchicalTilt(skewed, GROUPS, 10.0, -2.0), tol=1e-8)
    assert again.nit < 100  # scales of columns do not matter


def test_threads_and_copies_change_no_bit() -> None:
    problem = lw.HierarchicalTilt(model(True), GROUPS, 10.0, -2.0)
    w = RNG.normal(size=D + 1)
    first = problem.evaluate(w, threads=1)
    for other in (problem.evaluate(w, threads=2), pickle.loads(pickle.dumps(problem)).evaluate(w)):
        assert other.value == first.value
        assert np.array_equal(other.gradient, first.gradient)


def test_batches_of_groups_have_the_values_of_all() -> None:
    problem = lw.HierarchicalTilt(model(True), GROUPS, 10.0, -2.0)
    w = RNG.normal(size=D + 1)
    every = problem.oracle.losses(w)
    assert np.array_equal(problem.oracle.losses(w, [2, 0, 2]), every[[2, 0, 2]])
    weights = np.array([0.5, -1.0, 0.25])
    expected = problem.oracle.gradient(w, [-1.0, 0.0, 0.75, 0.0])
    np.testing.assert_allclose(problem.oracle.gradient(w, weights, [2, 0, 2]), expected, atol=1e-13)
    result = lw.minimize(problem, algorithm=lw.SGD(lw.Minibatch(2), step=0.1), max_passes=50)
    assert result.fun < problem.value(np.zeros(D + 1))


def test_refusals_name_what_is_wrong() -> None:
    for arguments, message in (
        ((GROUPS, np.nan, 1.0), "t must be in"),
        ((GROUPS, 1.0, np.inf), "tau must be finite, got inf"),
        ((GROUPS[:-1], 1.0, 1.0), r"groups must have shape \(60,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            lw.HierarchicalTilt(model(), *arguments)
    with pytest.raises(TypeError, match="groups must be integers"):
        lw.HierarchicalTilt(model(), GROUPS + 0.5, 1.0, 1.0)
    with pytest.raises(TypeError, match="oracle must be a leeward oracle"):
        lw.HierarchicalTilt(lw.Robust(model()), GROUPS, 1.0, 1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="take intercept=False or l2=0"):
        lw.HierarchicalTilt(model(l2=0.1), GROUPS, 1.0, 1.0).composition()


@pytest.mark.parametrize(("t", "tau"), [(10.0, -2.0), (1.0, 3.0), (0.0, -2.0), (10.0, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_composition_is_the_same_objective(t: float, tau: float, weighted: bool) -> None:
    problem = lw.HierarchicalTilt(model(weighted, l2=0.1, intercept=False), GROUPS, t, tau)
    made = problem.composition(at=0.1 * np.ones(D))
    for w in RNG.normal(size=(3, D)):
        one, other = problem.evaluate(w), made.evaluate(w)
        assert other.value == pytest.approx(one.value, abs=1e-12)
        np.testing.assert_allclose(other.gradient, one.gradient, atol=1e-12)
    for level in made.levels:
        check_level(level, u=np.full(level.inputs, 0.7))


def test_smvr_on_the_composition_has_the_iterates_of_the_twin() -> None:
    t, tau, start = 10.0, -2.0, np.zeros(D + 1)
    oracle = model()
    problem = lw.HierarchicalTilt(oracle, GROUPS, t, tau).composition()
    points: list[Vector] = []

    def note(state: lw.State) -> bool:
        points.append(state.w.copy())
        return state.step >= 30

    algorithm = lw.SMVR(batch=8, beta=0.4, step=0.1)
    lw.minimize(problem, start, algorithm, trace="step", max_passes=1e9, callback=note, seed=11)
    design = np.column_stack([X, np.ones(N)])

    def gradients(w: Vector, index: NDArray[np.int64]) -> Vector:
        margin = Y[index] * (design[index] @ w)
        return np.asarray((-Y[index] / (1 + np.exp(margin)))[:, None] * design[index])

    at_start = oracle.losses(start)
    parts = [at_start[np.equal(GROUPS, g)] for g in range(4)]
    shift = np.array([tilts.tilt(part, np.full(part.size, 1 / part.size), tau) for part in parts])
    levels = tilts.levels(
        lambda w, index: np.logaddexp(0, -Y[index] * (design[index] @ w)), gradients, GROUPS, shift, t, tau
    )
    settings = compositions.Settings(8, 8, 11, compositions.power(1.0), [compositions.power(0.4)])
    expected = compositions.run(compositions.SMVR(levels, settings), moves.Plain(), start, 0.1, 30)
    assert len(points) == len(expected)
    np.testing.assert_allclose(points, expected, atol=1e-11)


def test_smvr_and_pmvr_come_near_the_full_batch() -> None:
    problem = lw.HierarchicalTilt(model(l2=0.05, intercept=False), GROUPS, 1.0, -1.0)
    best = lw.minimize(problem)
    start = problem.value(np.zeros(D))
    for algorithm in (lw.SMVR(batch=16, step=0.3), lw.PMVR(batch=16, step=0.3)):
        result = lw.minimize(problem.composition(), algorithm=algorithm, max_passes=100)
        assert problem.value(result.x) - best.fun <= 0.05 * (start - best.fun)


@pytest.mark.parametrize("weighted", [False, True])
def test_stochastic_algorithms_draw_groups_and_know_the_features_units(weighted: bool) -> None:
    units = np.array([1.0, 300.0, 0.01])
    oracle = lw.LinearModel(X * units, Y, l2=1e-6, sample_weight=P if weighted else None)
    problem = lw.HierarchicalTilt(oracle, np.arange(N) % 6, 2.0, 1.0)
    start, best = problem.value(np.zeros(D + 1)), lw.minimize(problem).fun
    found = lw.minimize(problem, algorithm=lw.SGD(lw.Minibatch(4)), max_passes=30)
    assert found.fun <= best + 0.2 * (start - best)
