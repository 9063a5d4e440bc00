"""Runs on Sinkhorn problems: algorithms, certificates, checkpoints, warnings and the words of errors."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest

import leeward as lw
from leeward._certificate import certify

RNG = np.random.default_rng(12)
N, D = 9, 5
X = RNG.normal(size=(N, D))
SIGNS = np.sign(RNG.normal(size=N))
REAL = RNG.normal(size=N)
W = RNG.normal(size=D + 1)
MOVES = RNG.normal(size=(4, D))
sampled = functools.partial(lw.Sinkhorn, exact=False)


def model(data: Any = X, loss: str = "squared", **settings: Any) -> lw.LinearModel:
    y = {"logistic": SIGNS, "softmax": np.arange(N) % 3}.get(loss, REAL)
    return lw.LinearModel(data, y, loss, **settings)


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize("divergence", ["kl", "chi2"])
def test_the_certified_gap_covers_the_distance_from_the_optimum(loss: str, divergence: str) -> None:
    data = RNG.normal(size=(60, 3))
    y = RNG.integers(0, 3 if loss == "softmax" else 2, size=60).astype(float)
    problem = sampled(lw.LinearModel(data, y, loss, l2=0.1), divergence, noise=0.3, lam=2.0, common=True)
    best = lw.minimize(problem, tol=1e-10)
    assert best.success
    assert best.gap is not None
    assert best.gap <= 1e-10 * abs(best.fun)
    for size in (1e-3, 1e-2, 1e-1):
        w = best.x + size * RNG.normal(size=problem.dim)
        gap = certify(problem, w).gap
        excess = problem.value(w) - best.fun
        assert gap is None or excess <= gap * (1 + 1e-9) + 1e-12
        if size < 1e-2:
            assert gap is not None
            assert gap < 30 * excess


def test_every_algorithm_of_means_works_on_it() -> None:
    data = RNG.normal(size=(300, 4))
    y = np.sign(data @ [1.0, -1.0, 0.5, 0.0] + RNG.normal(size=300))
    problem = sampled(lw.LinearModel(data, y, l2=0.05), "chi2", noise=0.3, common=True)
    best = lw.minimize(problem)
    assert type(best.algorithm).__name__ == "LBFGS"
    assert best.success
    algorithms = [
        lw.NestedSGD(), lw.NestedSGD(update=lw.Adam()), lw.NestedSGD(update=lw.NesterovMomentum(), output="last"),
        lw.NestedSGD(output="random", step=0.3), lw.NestedSGD(inner="sgd"), lw.SGD(), lw.Nesterov(), lw.SVRG(), lw.SCSG(), lw.SARAH(),
        lw.STORM(), lw.SGD(lw.GrowingBatch()),
    ]  # fmt: skip
    for algorithm in algorithms:
        result = lw.minimize(problem, algorithm=algorithm, max_passes=40)
        assert result.fun < 1.03 * best.fun, algorithm
    over = lw.minimize(problem, domain=lw.L2Ball(0.3), max_passes=100)
    assert np.linalg.norm(over.x[:4]) <= 0.3 * (1 + 1e-12)
    assert over.fun > best.fun


def test_features_of_any_scale_are_solved_in_few_passes() -> None:
    """L-BFGS works in variables scaled by the curvature of the model on its own rows."""
    scales = np.logspace(-1.5, 1.5, 12)
    data = RNG.normal(size=(400, 12)) * scales
    y = np.sign(data @ (RNG.normal(size=12) / scales) + RNG.normal(size=400))
    for divergence in ("kl", "chi2"):
        problem = sampled(lw.LinearModel(data, y, l2=1e-3), divergence, noise=0.05, common=True)
        result = lw.minimize(problem)
        assert result.success
        assert result.passes < 40


def test_fresh_draws_are_the_default_and_find_the_optimum_of_many_points() -> None:
    data = RNG.normal(size=(300, 4))
    y = np.sign(data @ [1.0, -1.0, 0.5, 0.0] + RNG.normal(size=300))
    linear = lw.LinearModel(data, y, l2=0.05)
    result = lw.minimize(sampled(linear, "kl", noise=0.4, draws=100))
    assert type(result.algorithm).__name__ == "NestedSGD"
    many = sampled(linear, "kl", noise=0.4, draws=500, common=True)
    assert many.value(result.x) < 1.003 * lw.minimize(many).fun


@pytest.mark.parametrize("inner", ["exact", "sgd"])
@pytest.mark.parametrize("common", [True, False])
def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped(inner: str, common: bool, tmp_path: Any) -> None:
    problem = sampled(model(l2=0.1), "chi2", common=common)
    algorithm = lw.NestedSGD(3, inner=inner, output="random")
    whole = lw.minimize(problem, algorithm=algorithm, max_passes=20, threads=1)
    for stop in (3, 9, 10**9):  # at recorded steps
        cut = lw.minimize(
            problem,
            algorithm=algorithm,
            max_passes=20,
            checkpoint=tmp_path / "run",
            threads=2,
            callback=lambda state, stop=stop: state.step >= stop,  # type: ignore[misc]
        )
    np.testing.assert_array_equal(whole.x, cut.x)
    assert whole.fun == cut.fun
    assert whole.nfev == cut.nfev


def test_inner_steps_come_down_from_where_all_ratios_are_zero() -> None:
    """From far above the losses every residual is 1: eta falls by a step at a time, and the run is as good as one from their mean."""
    data = RNG.normal(size=(200, 4))
    y = np.sign(data @ [1.0, -1.0, 0.5, 0.0] + RNG.normal(size=200))
    problem = sampled(lw.LinearModel(data, y, l2=0.05), "chi2", noise=0.3)
    near, far = (
        lw.minimize(problem, algorithm=lw.NestedSGD(20, inner="sgd", inner_start=start), max_passes=60).fun
        for start in (None, 3.0)
    )
    assert far == pytest.approx(near, abs=0.01)


def test_out_of_range_points_end_a_trial_and_not_the_run() -> None:
    problem = sampled(lw.LinearModel(X, np.abs(REAL), "poisson"), "chi2")
    assert problem.evaluate_if_finite(np.full(D + 1, 1e4)) is None
    assert problem.evaluate_if_finite(np.full(D + 1, np.nan)) is None
    assert problem.oracle.losses(np.full(D + 1, 1e4)).max() == np.inf
    assert not problem.minibatch(4, True, 0).direction(np.full(D + 1, 1e4), 0)[3]
    with pytest.raises(ValueError, match="w must be finite"):
        problem.evaluate(np.full(D + 1, np.inf))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"divergence": "tv"}, "divergence must be one of 'kl', 'chi2', 'pearson' or a divergence .*, got 'tv'"),
        ({"lam": 0.0}, "lam must be positive and finite, got 0.0"),
        ({"entropy": float("nan")}, "entropy must be positive and finite, got nan"),
        ({"noise": -1.0}, "noise must be positive, got -1.0"),
        ({"noise": np.ones(3)}, r"noise must be a number, \(5,\) or a covariance \(5, 5\), got shape \(3,\)"),
        ({"noise": np.triu(np.ones((D, D)))}, "noise must be a symmetric covariance matrix"),
        ({"noise": -np.eye(D)}, "noise must be a positive definite covariance matrix"),
        ({"cost": "cosine"}, "cost must be one of 'sqeuclidean', .*, got 'cosine'"),
        ({"cost_scale": 0}, "cost_scale must be positive and finite, got 0"),
        ({"draws": 0}, "draws must be at least 1, got 0"),
        ({"reference": "cauchy"}, "reference must be one of 'gaussian', 'laplace', 'ball' or an array"),
        ({"reference": np.ones((2, 3))}, r"reference must have shape \(k, 5\), one displacement a row, got shape \(2, 3\)"),
        ({"reference": np.full((1, D), np.nan)}, "reference must hold finite numbers"),
        ({"reference": MOVES, "noise": 0.1}, "noise is for named references"),
        ({"bounds": (1, 0)}, "bounds must hold lower <= upper"),
        ({"bounds": (np.zeros(3), 1)}, r"bounds must hold numbers or arrays \(5,\), got shape \(3,\)"),
        ({"recentre": True, "divergence": "chi2"}, "recentre=True needs the divergence KL"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"seed": 2**64}, r"seed must be in \[0, 2\*\*64\)"),
        ({"label_noise": -0.1}, "label_noise must be at least 0 and finite, got -0.1"),
        ({"label_cost": 2.0}, "give label_noise > 0 with it, got 2.0 alone"),
    ],
)  # fmt: skip
def test_errors_say_what_was_expected(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sampled(model(), **arguments)


def test_errors_of_kind_and_of_use() -> None:
    with pytest.raises(TypeError, match="oracle must be a LinearModel or a PointOracle, got ndarray"):
        sampled(X)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"divergence must be 'kl', .* got KL"):
        sampled(model(), lw.KL(penalty=1.0))
    with pytest.raises(TypeError, match="bounds must be a pair"):
        sampled(model(), bounds=3)
    with pytest.raises(TypeError, match="common must be True or False"):
        sampled(model(), common=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="recentre must be True, False or None"):
        sampled(model(), recentre=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="label_noise needs a loss of real labels"):
        sampled(model(loss="logistic"), label_noise=0.1)
    with pytest.raises(ValueError, match="NestedSGD is for Sinkhorn problems, got Robust"):
        lw.minimize(model(), algorithm=lw.NestedSGD())
    with pytest.raises(ValueError, match="the problem has 8 common draws a sample, got draws=4"):
        lw.minimize(sampled(model(), common=True), algorithm=lw.NestedSGD(draws=4))
    with pytest.raises(ValueError, match="GrowingBatch needs common draws"):
        lw.minimize(sampled(model()), algorithm=lw.SGD(lw.GrowingBatch()))
    for arguments, words in [
        ({"inner": "newton"}, "inner must be 'exact', 'bisection', 'sgd' or 'mlmc', got 'newton'"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"draws": 0}, "draws must be at least 1, got 0"),
        ({"inner_step": 1.0}, "inner_step is for inner='sgd', got inner='exact'"),
        ({"inner": "sgd", "inner_step": 0.0}, "inner_step must be positive and finite, got 0.0"),
        ({"inner_start": 1.0}, "inner_start is for inner='sgd', got inner='exact'"),
        ({"inner": "sgd", "inner_start": float("inf")}, "inner_start must be finite, got inf"),
        ({"inner_steps": 0}, "inner_steps must be at least 1, got 0"),
        ({"output": "best"}, "output must be 'average', 'last' or 'random', got 'best'"),
        ({"decay": "never"}, "decay must be"),
    ]:
        with pytest.raises(ValueError, match=words):
            lw.NestedSGD(**arguments)  # type: ignore[arg-type]


def test_warnings_tell_of_one_draw_collapsed_weights_and_infinite_expectations() -> None:
    with pytest.warns(UserWarning, match="with one draw a sample every weight is 1"):
        one = sampled(model(), "chi2", draws=1)
    np.testing.assert_array_equal(one.worst_case(W), np.ones((N, 1)))
    with pytest.warns(UserWarning, match=r"weights have collapsed: 1(\.\d*)? effective of 8 draws"):
        lw.minimize(sampled(model(l2=0.1), "kl", entropy=1e-3, noise=1.0, recentre=False), max_passes=1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        lw.minimize(sampled(model(), "kl"), np.full(D + 1, 3.0), lw.NestedSGD(step=1e-9), max_passes=1)
    assert any("the expectation over the reference is infinite" in str(warning.message) for warning in seen)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lw.minimize(sampled(model(l2=0.1), "chi2", lam=5.0), max_passes=1)
