"""Sinkhorn problems whose expectation over a Gaussian kernel is exact: when that is so, gradients, certificates, words."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import leeward as lw
from leeward._certificate import certify
from leeward.divergences import CressieRead, SmoothedCVaR

RNG = np.random.default_rng(14)
N, D = 40, 4
X = RNG.normal(size=(N, D))
SIGNS = np.sign(X @ [1.0, -1.0, 0.5, 0.0] + RNG.normal(size=N))
DIVERGENCES = ["kl", "chi2", "pearson", SmoothedCVaR(0.3)]


def model(loss: str = "logistic", **settings: Any) -> lw.LinearModel:
    return lw.LinearModel(X, SIGNS, loss, **({"l2": 0.05} | settings))


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
@pytest.mark.parametrize("loss", ["logistic", "squared", "huber"])
def test_the_exact_value_is_the_limit_of_sampled_ones(divergence: Any, loss: str) -> None:
    """Within 5 standard errors of independent samples of 2000 draws, beside a bias of order 1/2000."""
    weight = np.linspace(0.5, 2.0, N)
    settings: dict[str, Any] = {"noise": 0.3, "lam": 2.0, "entropy": 0.5, "cost_scale": 1.5}
    problem = lw.Sinkhorn(model(loss, sample_weight=weight), divergence, **settings)
    assert problem.exact
    w = 0.4 * RNG.normal(size=D + 1)
    values = [
        lw.Sinkhorn(problem.model, divergence, draws=2000, common=True, seed=seed, **settings).value(w)
        for seed in range(8)
    ]
    error = np.std(values, ddof=1) / np.sqrt(8)
    assert problem.value(w) == pytest.approx(np.mean(values), abs=5 * error + 2e-4)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
@pytest.mark.parametrize("intercept", [True, False])
def test_gradients_and_oracle_agree_with_the_value(divergence: Any, intercept: bool) -> None:
    problem = lw.Sinkhorn(model(intercept=intercept, sample_weight=np.arange(N, dtype=float)), divergence, noise=0.3)
    w, h = 0.5 * RNG.normal(size=problem.dim), 1e-5
    made = problem.evaluate(w)
    difference = [(problem.value(w + h * e) - problem.value(w - h * e)) / (2 * h) for e in np.eye(problem.dim)]
    np.testing.assert_allclose(made.gradient, difference, rtol=1e-6, atol=1e-8)
    bare = made.gradient.copy()
    bare[:D] -= 0.05 * w[:D]
    np.testing.assert_allclose(problem.oracle.gradient(w, made.weights), bare, rtol=1e-10, atol=1e-12)
    half = np.arange(0, N, 2)
    np.testing.assert_array_equal(problem.oracle.losses(w, half), made.losses[half])
    assert made.inner_eta is None
    assert made.effective_draws is None


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
@pytest.mark.parametrize("intercept", [True, False])
def test_lbfgs_is_the_default_and_certifies_the_expectation(divergence: Any, intercept: bool) -> None:
    problem = lw.Sinkhorn(model(intercept=intercept), divergence, noise=0.3)
    result = lw.minimize(problem)
    assert type(result.algorithm).__name__ == "LBFGS"
    assert result.success
    assert result.gap is not None
    assert result.gap <= 1e-6 * abs(result.fun)
    w = result.x + 1e-3 * RNG.normal(size=problem.dim)
    gap = certify(problem, w).gap
    assert gap is not None
    assert problem.value(w) - result.fun <= gap * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("loss", ["hinge", "absolute", lw.losses.Quantile(0.8)], ids=str)
@pytest.mark.parametrize("divergence", ["kl", "chi2"])
def test_losses_with_a_kink_are_smooth_under_the_noise_and_solved_to_a_certificate(divergence: str, loss: Any) -> None:
    """Features of any scale, from w = 0, where the objective itself has a kink."""
    scales = np.array([1.0, 100.0, 0.01, 10.0])
    y = SIGNS if loss == "hinge" else X @ [1.0, -1.0, 0.5, 0.0] + RNG.standard_t(3, size=N)
    problem = lw.Sinkhorn(lw.LinearModel(X * scales, y, loss, l2=0.05), divergence, noise=0.01, lam=2.0, entropy=0.5)
    assert problem.smooth
    assert not lw.Sinkhorn(problem.model, divergence, exact=False).smooth
    result = lw.minimize(problem)
    assert type(result.algorithm).__name__ == "LBFGS"
    assert result.success
    assert result.gap is not None
    assert result.gap <= 1e-6 * abs(result.fun)
    assert result.passes < 100


def test_stochastic_runs_draw_and_are_judged_exactly() -> None:
    problem = lw.Sinkhorn(model(), "kl", noise=0.3)
    best = lw.minimize(problem).fun
    result = lw.minimize(problem, algorithm=lw.NestedSGD(16, draws=64), max_passes=150)
    assert best <= result.fun < best + 2e-3
    assert result.fun == pytest.approx(problem.value(result.x), rel=1e-12)
    for other in (
        lw.minimize(problem, domain=lw.L2Ball(0.2), max_passes=20),
        lw.minimize(lw.Sinkhorn(model("hinge"), exact=False), max_passes=9),
    ):
        assert type(other.algorithm).__name__ == "NestedSGD"


def test_a_fit_stays_where_the_expectation_is_finite() -> None:
    """KL with a quadratic loss is infinite from a radius of w on; the fit ends inside, without a warning."""
    problem = lw.Sinkhorn(lw.LinearModel(X, 3.0 * X[:, 0], "squared", l2=1e-3), "kl", lam=0.5, entropy=0.2, noise=0.3)
    result = lw.minimize(problem)
    assert result.success
    assert np.linalg.norm(result.x[:D]) < np.sqrt(0.5 * (2 + 0.2 / 0.09))
    assert problem.evaluate_if_finite(np.full(D + 1, 3.0)) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"noise": np.full(D, 0.2)},
        {"reference": "laplace"},
        {"cost": "l1"},
        {"bounds": (-1, 1)},
        {"divergence": CressieRead(3.0)},
        {"common": True},
        {"exact": False},
        {"divergence": "chi2", "noise": 1.0, "entropy": 1e-11},
    ],
    ids=str,
)
def test_other_problems_are_sampled(arguments: dict[str, Any]) -> None:
    assert lw.Sinkhorn(model()).exact
    assert not lw.Sinkhorn(model(), **arguments).exact
    if "exact" not in arguments:
        with pytest.raises(ValueError, match=r"exact=True|entropy"):
            lw.Sinkhorn(model(), **arguments, exact=True)


def test_words_and_copies() -> None:
    with pytest.raises(ValueError, match="exact must be 'auto', True or False, got 'yes'"):
        lw.Sinkhorn(model(), exact="yes")
    for algorithm in (lw.SVRG(), lw.STORM(), lw.SGD(lw.MLMC(2, 8))):
        with pytest.raises(ValueError, match="needs common draws"):
            lw.minimize(lw.Sinkhorn(model()), algorithm=algorithm)
    problem = lw.Sinkhorn(model(), "chi2", noise=0.3)
    w = RNG.normal(size=D + 1)
    twin = pickle.loads(pickle.dumps(problem))
    first = twin.evaluate(w, threads=1)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(problem.evaluate(w, threads=threads).gradient, first.gradient)
