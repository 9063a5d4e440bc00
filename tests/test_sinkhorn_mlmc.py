"""Multi-level Monte Carlo in the number of draws of a Sinkhorn problem: its twin, its mean, its variance and its runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leeward as lw
from leeward.divergences import SmoothedCVaR
from leeward.problems._sinkhorn_estimators import _mixed
from reference import philox
from reference import sinkhorn as twin
from reference.draws import uniform

RNG = np.random.default_rng(41)
N, D = 30, 3
X = RNG.normal(size=(N, D))
Y = np.sign(X @ [1.0, -1.0, 0.5] + RNG.normal(size=N))
WEIGHT = np.linspace(0.5, 2.0, N)
W = np.array([1.5, -1.0, 0.8, 0.2])
FREE: dict[str, Any] = {"lam": 1.0, "entropy": 0.2, "noise": 0.8, "recentre": False}


def model(**settings: Any) -> lw.LinearModel:
    return lw.LinearModel(X, Y, "logistic", **settings)


def moments(native: Any, count: int) -> tuple[Any, Any]:
    """Mean and standard error of the directions of steps 0..count - 1."""
    made = np.array([native.direction(W, step)[0] for step in range(count)])
    return made.mean(axis=0), made.std(axis=0, ddof=1) / np.sqrt(count)


@pytest.mark.parametrize(
    ("divergence", "recentre"), [("kl", False), ("kl", True), ("chi2", False), (SmoothedCVaR(0.3), False)], ids=str
)
def test_a_draw_equals_its_twin(divergence: Any, recentre: bool) -> None:
    settings = FREE | {"recentre": recentre}
    problem = lw.Sinkhorn(model(sample_weight=WEIGHT), divergence, draws=6, seed=4, **settings)
    native = lw.RTMLMC(5, 3, 50).start(problem, 9)
    points = lw.Sinkhorn(problem.model, divergence, draws=48, seed=_mixed(4, 9), **settings)
    seen = set()
    for step in range(60):
        sets, levels = native.draw(step)
        words = philox.words(9, 2, step, 5)
        wanted = [twin.level_of_draws(u, 4) for u in uniform(words)]
        assert [level for level, _ in wanted] == list(levels)
        seen |= set(levels)
        np.testing.assert_array_equal(sets // N, step)
        rows, gradients = [], []
        for s, level in zip(sets, levels, strict=True):
            numbers = s * 48 + np.arange(3 << level)
            x, y = points.points(numbers)
            margin = y * (x @ W[:D] + W[D])
            cost = 0.0 if recentre else points.costs(numbers)
            rows.append(np.logaddexp(0.0, -margin) - cost)
            slopes = -y / (1.0 + np.exp(margin))
            gradients.append(slopes[:, None] * np.column_stack([x, np.ones(len(x))]))

        def solve(l: Any) -> tuple[float, Any]:
            solved = problem.inner.solve(l)
            return float(solved.value), solved.weights

        value, direction = twin.levels_of_draws(rows, gradients, 3, [r for _, r in wanted], solve)
        g, v, cost_of_step, finite = native.direction(W, step)
        np.testing.assert_allclose(g, direction, rtol=1e-10, atol=1e-12)
        if not recentre:
            assert v == pytest.approx(value, rel=1e-10)
        assert cost_of_step == max(1, (sum(len(l) for l in rows) + 3) // 6)
        assert finite
    assert seen >= {1, 2, 3}


@pytest.mark.parametrize("divergence", ["kl", "chi2", SmoothedCVaR(0.3)], ids=str)
def test_its_mean_is_the_gradient_over_the_kernel(divergence: Any) -> None:
    """Within 4 standard errors of the exact Gaussian gradient, where as many plain draws are far from it."""
    problem = lw.Sinkhorn(model(), divergence, draws=2, exact=True, **FREE)
    assert problem.exact
    wanted = problem.evaluate(W).gradient
    mean, error = moments(lw.RTMLMC(N, 2, 2**14).start(problem, 3), 4000)
    assert (np.abs(mean - wanted) < 4 * error).all()
    plain, its = moments(lw.NestedSGD(N, draws=2)._estimator().start(problem, 3), 4000)
    assert (np.abs(plain - wanted) / its).max() > 12
    assert np.linalg.norm(error) < 2 * np.linalg.norm(its)


def test_its_value_is_unbiased_for_the_log_of_a_mean_exponential() -> None:
    problem = lw.Sinkhorn(model(), "kl", draws=2, exact=True, **FREE)
    native = lw.RTMLMC(N, 2, 2**14).start(problem, 5)
    values = np.array([native.direction(W, step)[1] for step in range(4000)])
    error = values.std(ddof=1) / np.sqrt(len(values))
    # Samples are drawn with replacement, as in the mean over all of them.
    assert abs(values.mean() - problem.value(W)) < 4 * error
    assert error < 0.02


def test_its_mean_is_that_of_the_highest_level() -> None:
    """With one level only: the gradient on 2 m0 points, drawn independently."""
    problem = lw.Sinkhorn(model(), "chi2", draws=4, exact=False, **FREE)
    mean, error = moments(lw.RTMLMC(N, 2, 4).start(problem, 1), 6000)
    plain, its = moments(lw.NestedSGD(N, draws=4)._estimator().start(problem, 8), 6000)
    assert (np.abs(mean - plain) < 4 * np.hypot(error, its)).all()


def test_cost_is_bounded_and_counted_in_evaluations() -> None:
    problem = lw.Sinkhorn(model(), "kl", draws=8, exact=False, **FREE)
    estimator = lw.RTMLMC(50, 4, 2**20)
    native = estimator.start(problem, 0)
    taken = [sum(4 << level for level in native.draw(step)[1]) / 8 for step in range(2000)]
    error = np.std(taken) / np.sqrt(len(taken))
    assert abs(np.mean(taken) - estimator.cost(problem)) < 6 * error
    assert lw.RTMLMC(50, 4, 2**24).cost(problem) < 50 * 4.5 / 2
    result = lw.minimize(problem, algorithm=lw.SGD(lw.RTMLMC(4)), max_passes=10)
    assert 9.9 < result.passes < 40  # the last step may be a long one


@pytest.mark.parametrize(
    "algorithm",
    [lw.SGD(lw.RTMLMC(10, 2)), lw.Nesterov(lw.RTMLMC(10, 2)), lw.NestedSGD(10, draws=2, inner="mlmc")],
    ids=repr,
)
def test_runs_come_near_the_optimum_over_the_kernel(algorithm: lw.Algorithm) -> None:
    problem = lw.Sinkhorn(model(l2=0.05), "chi2", draws=4, exact=True, **FREE)
    best = lw.minimize(problem).fun
    assert best <= lw.minimize(problem, algorithm=algorithm, max_passes=60).fun < best + 0.02


def test_runs_resume_with_the_same_bits_on_any_number_of_threads(tmp_path: Any) -> None:
    problem = lw.Sinkhorn(model(), "kl", draws=4, exact=False, **FREE)
    algorithm = lw.NestedSGD(5, inner="mlmc", output="random")
    whole = lw.minimize(problem, algorithm=algorithm, max_passes=15, threads=1)
    for stop in (4, 10**9):
        cut = lw.minimize(
            problem,
            algorithm=algorithm,
            max_passes=15,
            checkpoint=tmp_path / "run",
            threads=2,
            callback=lambda state, stop=stop: state.step >= stop,  # type: ignore[misc]
        )
    np.testing.assert_array_equal(whole.x, cut.x)


def test_points_of_ones_own_have_levels_too() -> None:
    def losses(w: Any, points: Any, index: Any) -> Any:
        return np.logaddexp(0.0, -Y[index] * (points @ w[:D] + w[D]))

    def gradient(w: Any, weights: Any, points: Any, index: Any) -> Any:
        s = -weights * Y[index] / (1.0 + np.exp(Y[index] * (points @ w[:D] + w[D])))
        return np.append(s @ points, s.sum())

    own = lw.Sinkhorn(lw.PointOracle(losses, gradient, X, D + 1), "chi2", draws=4, **FREE)
    other = lw.Sinkhorn(model(), "chi2", draws=4, exact=False, **FREE)
    for step in range(5):
        one, two = (lw.RTMLMC(6, 2, 64).start(problem, 2).direction(W, step)[0] for problem in (own, other))
        np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-14)


def test_infinite_losses_end_a_step() -> None:
    problem = lw.Sinkhorn(lw.LinearModel(X, np.abs(X[:, 0]), "poisson"), "chi2", draws=4)
    assert not lw.RTMLMC(4).start(problem, 0).direction(np.full(D + 1, 1e4), 0)[3]


def test_errors_say_what_was_expected() -> None:
    for arguments, words in [
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"m0": 0}, "m0 must be at least 1, got 0"),
        ({"m0": 4, "m_max": 7}, "m_max must be at least 2 m0 = 8, got 7"),
        ({"m_max": 2**40}, r"m_max must be at most 2\*\*31 and 2\*\*30 m0, got"),
    ]:
        with pytest.raises(ValueError, match=words):
            lw.RTMLMC(**arguments)
    with pytest.raises(ValueError, match="RTMLMC is for Sinkhorn problems, got Robust; use MLMC"):
        lw.minimize(model(), algorithm=lw.SGD(lw.RTMLMC()))
    common = lw.Sinkhorn(model(), "chi2", common=True)
    with pytest.raises(ValueError, match="RTMLMC draws points anew at each step, and common=True asks for one set"):
        lw.minimize(common, algorithm=lw.NestedSGD(inner="mlmc"))
    ball = lw.SinkhornBall(model(), "chi2", radius=1.0)
    with pytest.raises(ValueError, match="price of a ball depends on all samples"):
        lw.minimize(ball, algorithm=lw.SGD(lw.RTMLMC()))
