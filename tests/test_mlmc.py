"""The multi-level estimator and the growing batch: their draws, their twin, and what their means are."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats

import leeward as lw
from reference import descent as twin

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 4))
Y = np.sign(X @ np.array([1.0, -1.0, 0.5, 0.0]) + RNG.normal(size=40))
W = np.array([0.3, 0.1, -0.2, 0.4, 0.05])
RISKS = [
    lw.Mean(),
    lw.Worst(),
    lw.CVaR(0.3),
    lw.KL(penalty=0.5),
    lw.ChiSquare(penalty=0.5),
    lw.KLCVaR(0.3, 0.2),
    lw.SmoothedCVaR(0.3, 0.2),
    lw.CressieRead(1.5, penalty=0.5),
    lw.TotalVariation(0.3),
    lw.Tilted(1.5),
    lw.Spectral.extremile(2.0),
    lw.ChiSquare(radius=0.5),
    lw.KL(radius=0.3),
]


def model(data: object = X, **settings: object) -> lw.LinearModel:
    return lw.LinearModel(data, Y, "logistic", **settings)  # type: ignore[arg-type]


def start(estimator: lw.algorithms.Estimator, problem: lw.Robust, seed: int) -> Any:
    """The native estimator; risks of unbounded weights warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return estimator.start(problem, seed)


def solved(risk: lw.Risk, losses: np.ndarray) -> tuple[float, np.ndarray]:
    s = risk.solve(losses)
    return float(s.value), s.weights


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize("data", [X, X.astype(np.float32), sparse.csr_array(X)], ids=["float64", "float32", "csr"])
def test_a_draw_equals_its_twin(risk: lw.Risk, data: object) -> None:
    problem = lw.Robust(model(data), risk)
    estimator = lw.MLMC(3, 24)
    native = start(estimator, problem, 5)
    assert isinstance(problem.oracle, lw.LinearModel)
    rows = np.asarray(problem.oracle.rows())  # as they are stored
    Z = np.column_stack([rows, np.ones(40)])
    for step in range(40):
        index = native.draw(step)
        assert len(index) == 3 * 2 ** native.level(step)
        margin = Y[index] * (Z[index] @ W)
        slopes = -Y[index] / (1.0 + np.exp(margin))
        value, direction = twin.mlmc(
            np.logaddexp(0.0, -margin), slopes[:, None] * Z[index], lambda l: solved(risk, l), 3, native.level(step), 3
        )
        g, v, cost, fine = native.direction(W, step)
        np.testing.assert_allclose(g, direction, rtol=1e-10, atol=1e-11)
        assert v == pytest.approx(value, rel=1e-10, abs=1e-11)
        assert cost == len(index)
        assert fine


@pytest.mark.parametrize("levels", [1, 2, 6])
def test_levels_follow_their_law(levels: int) -> None:
    native = lw.MLMC(1, 2**levels).start(lw.Robust(model()), 0)
    draws = np.array([native.level(step) for step in range(20_000)])
    chances = [2.0**-j for j in range(1, levels)] + [2.0 ** -(levels - 1)]
    counts = np.bincount(draws, minlength=levels + 1)[1:]
    assert counts.sum() == len(draws)
    if levels > 1:
        assert stats.chisquare(counts, len(draws) * np.array(chances)).pvalue > 1e-3


def test_the_mean_cost_is_as_stated() -> None:
    estimator = lw.MLMC(8, 256)
    native = estimator.start(lw.Robust(model()), 1)
    mean = np.mean([8 * 2 ** native.level(step) for step in range(200_000)])
    assert estimator.cost(lw.Robust(model())) == 8 * (1 + 5)
    assert mean == pytest.approx(8 * (1 + 5), rel=0.01)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize("data", [X[:3], sparse.csr_array(X[:3])], ids=["dense", "csr"])
def test_the_mean_over_draws_is_the_surrogate_of_the_largest_batch(risk: lw.Risk, data: object) -> None:
    """Three samples, four draws: all 81 batches are enumerated. Within 4 standard errors of 200000 draws, each coordinate."""
    problem = lw.Robust(lw.LinearModel(data, Y[:3], "logistic", sample_weight=[1.0, 2.0, 1.0]), risk)
    p = np.array([0.25, 0.5, 0.25])
    native = start(lw.MLMC(1, 4), problem, 11)
    draws = np.empty((200_000, 6))
    for step in range(len(draws)):
        draws[step, :5], draws[step, 5] = native.direction(W, step)[:2]
    exact = np.zeros(6)
    for batch in itertools.product(range(3), repeat=4):
        index = np.array(batch)
        value, q = solved(risk, problem.oracle.losses(W, index))
        exact += p[index].prod() * np.append(problem.oracle.gradient(W, q, index), value)
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - exact) <= 4.0 * error + 1e-12)


def test_what_is_paid_for_the_divergence_is_unbiased_too() -> None:
    """``paid`` is the penalty times the divergence: minus lam times the derivative of the risk in lam."""
    lam = 0.5
    problem = lw.Robust(lw.LinearModel(X[:3], Y[:3], "logistic"), lw.ChiSquare(penalty=lam))
    native = lw.MLMC(1, 4).start(problem, 2)
    draws = np.array([native.paid(W, step) for step in range(20_000)])
    losses, h = problem.oracle.losses(W), 1e-5

    def surrogate(penalty: float) -> float:
        risk = lw.ChiSquare(penalty=penalty)
        return float(np.mean([risk(losses[np.array(b)]) for b in itertools.product(range(3), repeat=4)]))

    slope = (surrogate(lam + h) - surrogate(lam - h)) / (2 * h)
    error = draws.std(ddof=1) / np.sqrt(len(draws))
    assert abs(draws.mean() + lam * slope) <= 4.0 * error + 1e-8


def test_samples_of_weight_zero_are_never_drawn() -> None:
    weight = np.ones(40)
    weight[::2] = 0.0
    for estimator in (lw.MLMC(4, 64), lw.GrowingBatch(4)):
        problem = lw.Robust(model(sample_weight=weight), lw.CVaR(0.5))
        native = estimator.start(problem, 0)
        other = lw.Robust(lw.LinearModel(X[1::2], Y[1::2], "logistic"), lw.CVaR(0.5))
        same = estimator.start(other, 0)
        for step in range(50):
            assert native.direction(W, step)[1] == pytest.approx(same.direction(W, step)[1], rel=1e-12)


def test_a_growing_batch_ends_with_the_exact_gradient() -> None:
    problem = lw.Robust(model(sample_weight=np.arange(1.0, 41.0)), lw.CVaR(0.3))
    native = lw.GrowingBatch(3, growth=1.5).start(problem, 0)
    assert [native.size(t) for t in range(8)] == [3, 5, 7, 11, 16, 23, 35, 40]
    exact = problem.evaluate(W)
    g, value, cost, _ = native.direction(W, 100)
    assert cost == 40
    assert value == pytest.approx(exact.solution.value, rel=1e-13)
    np.testing.assert_allclose(g, exact.gradient, rtol=1e-12, atol=1e-14)
    assert native.direction(W, 0)[2] == 3


@pytest.mark.parametrize("algorithm", [lw.SGD, lw.Nesterov])
@pytest.mark.parametrize("estimator", [lw.MLMC(8, 32), lw.GrowingBatch(8, growth=1.02)], ids=repr)
def test_default_steps_come_near_the_optimum(algorithm: type, estimator: lw.algorithms.Estimator) -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(2000, 5)) * np.array([1.0, 100.0, 0.01, 1.0, 1.0])
    y = np.sign(data @ np.array([1.0, 0.01, 100.0, 0.0, -1.0]) + 0.3 * rng.normal(size=2000))
    for risk in (lw.CVaR(0.5), lw.ChiSquare(penalty=1.0)):
        problem = lw.Robust(lw.LinearModel(data, y, l2=1e-2), risk)
        best = lw.minimize(problem).fun
        result = lw.minimize(problem, algorithm=algorithm(estimator), max_passes=100)
        assert result.fun <= best + 0.15 * (problem.value(np.zeros(6)) - best)
        assert 100 <= result.passes < 140


def test_bits_do_not_depend_on_threads() -> None:
    problem = lw.Robust(model(l2=0.1), lw.CVaR(0.5))
    for estimator in (lw.MLMC(4, 64), lw.GrowingBatch(4)):
        runs = [lw.minimize(problem, algorithm=lw.SGD(estimator), max_passes=20, threads=t).x for t in (1, 2, 3)]
        assert runs[0].tobytes() == runs[1].tobytes() == runs[2].tobytes()


def test_radius_forms_warn_and_groups_are_refused() -> None:
    for risk in (lw.ChiSquare(radius=1.0), lw.KL(radius=1.0), lw.TotalVariation(0.2), lw.Worst()):
        with pytest.warns(UserWarning, match="no bounded variance: it can put any weight on one sample"):
            lw.MLMC().start(lw.Robust(model(), risk), 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lw.MLMC().start(lw.Robust(model(), lw.ChiSquare(penalty=1.0)), 0)
    grouped = lw.Robust(model(), lw.CVaR(0.5), groups=np.arange(40) % 4)
    for estimator in (lw.MLMC(), lw.GrowingBatch()):
        with pytest.raises(ValueError, match="is not supported with groups; use Minibatch"):
            estimator.start(grouped, 0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lw.MLMC(0), "n0 must be at least 1, got 0"),
        (lambda: lw.MLMC(8, 15), "n_max must be at least 2 n0 = 16, got 15"),
        (lambda: lw.MLMC(8, 2**31), "n_max must be below"),
        (lambda: lw.GrowingBatch(0), "n0 must be at least 1, got 0"),
        (lambda: lw.GrowingBatch(growth=0.9), r"growth must be in \[1, 1e6\], got 0.9"),
        (lambda: lw.GrowingBatch(growth=float("nan")), "growth must be in"),
    ],
)
def test_wrong_settings_are_named(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]
    with pytest.raises(TypeError, match=r"n0 must be an integer, got 2\.5"):
        lw.MLMC(2.5)  # type: ignore[arg-type]
