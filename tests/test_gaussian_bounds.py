"""The lower bound of the Gaussian objective, its bits, and its answers where inputs are extreme."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.optimize import minimize

import leeward as lw
from leeward.problems._gaussian import GaussianSmoothing

KL, CHI, CVAR = lw.divergences.KL(), lw.divergences.ChiSquare(), lw.divergences.SmoothedCVaR(0.2)
DIVERGENCES = pytest.mark.parametrize("divergence", [KL, CHI, CVAR], ids=["kl", "chi2", "cvar"])


def problem(loss="logistic", n=60, d=6, seed=0, **settings):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0.5, 1.0, -1.0)
    return lw.LinearModel(X, y, loss, **settings)


def regularised(smoothing, w):
    model = smoothing.model
    value, gradient, _ = smoothing.evaluate(w)
    coef = w[: model.penalised]
    gradient[: model.penalised] += model.l2 * coef
    return value + 0.5 * model.l2 * (coef @ coef), gradient


def fit(smoothing):
    start = np.zeros(smoothing.model.dim)
    return minimize(
        lambda w: regularised(smoothing, w), start, jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-8}
    )


@DIVERGENCES
@pytest.mark.parametrize("loss", ["logistic", "hinge", "absolute", "squared"])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_bound_is_below_the_minimum_everywhere_and_meets_it_at_the_minimiser(divergence, loss, intercept):
    lam = 8.0 if loss == "squared" else 0.8
    smoothing = GaussianSmoothing(problem(loss, l2=0.05, intercept=intercept), divergence, lam, 0.1, 0.3)
    found = fit(smoothing)
    assert 0 <= found.fun - smoothing.bound(found.x) < 1e-9 * (1 + lam)
    rng = np.random.default_rng(1)
    for size in (1e-3, 0.1, 1.0):
        w = found.x + size * rng.normal(size=len(found.x))
        gap = regularised(smoothing, w)[0] - smoothing.bound(w)
        assert smoothing.bound(w) <= found.fun
        if size == 1e-3:
            assert gap < 1e-3


def test_without_an_l2_term_or_two_signs_of_the_slope_the_bound_is_that_of_no_loss():
    assert GaussianSmoothing(problem(), KL, 1.0, 0.1, 0.3).bound(np.ones(7)) == pytest.approx(
        -3 * 0.1 * math.log1p(2 * 0.09 / 0.1), rel=1e-14
    )
    one_class = lw.LinearModel(np.ones((5, 2)), np.ones(5), l2=0.1)
    smoothing = GaussianSmoothing(one_class, KL, 1.0, 0.1, 0.3)
    assert smoothing.bound(np.array([0.2, 0.1, 0.0])) == smoothing.constant


@DIVERGENCES
@pytest.mark.parametrize("n", [100, 5000])
def test_bits_do_not_depend_on_threads(divergence, n):
    smoothing = GaussianSmoothing(problem(n=n, d=12), divergence, 0.5, 0.2, 0.3)
    w = np.linspace(-0.5, 0.7, 13)
    value, gradient, values = smoothing.evaluate(w, threads=1)
    for threads in (2, 3):
        other = smoothing.evaluate(w, threads=threads)
        assert other[0] == value
        np.testing.assert_array_equal(other[1], gradient)
        np.testing.assert_array_equal(other[2], values)


@DIVERGENCES
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
def test_without_coefficients_psi_is_the_loss_and_the_constant(divergence, loss):
    model = problem(loss, n=700)
    smoothing = GaussianSmoothing(model, divergence, 0.5, 0.2, 0.3)
    w = np.zeros(7)
    w[-1] = 0.3
    value, gradient, values = smoothing.evaluate(w)
    np.testing.assert_allclose(values, model.losses(w) + smoothing.constant, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(gradient, model.gradient(w, np.full(700, 1 / 700)), rtol=1e-12, atol=1e-14)
    assert value == pytest.approx(values.mean(), rel=1e-13)


@DIVERGENCES
def test_psi_lies_between_the_mean_of_the_shifted_losses_and_the_least_favourable_one(divergence):
    """r = 1 is feasible, so Psi >= E l - lam noise^2 d; and l - lam c <= l(u) + tau'^2/(4 lam), l having slopes in [-1, 1]."""
    lam, entropy, noise, d = 0.7, 0.2, 0.3, 6
    model = problem(n=500, d=d)
    smoothing = GaussianSmoothing(model, divergence, lam, entropy, noise)
    w = np.linspace(-2, 2, d + 1)
    _, _, values = smoothing.evaluate(w)
    losses = model.losses(w)
    assert np.all(values >= losses - lam * noise**2 * d)
    assert np.all(values <= losses + w[:-1] @ w[:-1] / (4 * lam))


@DIVERGENCES
@pytest.mark.parametrize("size", [1e3, 1e8, 1e100])
def test_huge_scores_give_the_loss_of_a_line(divergence, size):
    """Far from the bend the loss is a line or 0, and a shift of the score shifts Psi by as much."""
    model = lw.LinearModel(np.zeros((600, 3)), np.tile([1.0, -1.0], 300), intercept=True)
    smoothing = GaussianSmoothing(model, divergence, 0.5, 0.2, 0.3)
    value, slope, spread = smoothing._solve(np.full(600, size), 0.4, 2)
    np.testing.assert_allclose(value[1::2] / size, 1.0, rtol=1e-3)
    np.testing.assert_array_equal(np.abs(value[0::2]) < 1e-12, True)
    np.testing.assert_allclose(slope[1::2], 1.0, rtol=1e-12)
    np.testing.assert_allclose(slope[0::2], 0.0, atol=1e-12)
    assert np.isfinite(spread).all()


@DIVERGENCES
def test_equal_rows_have_equal_answers(divergence):
    model = lw.LinearModel(np.ones((400, 4)), np.ones(400))
    value, gradient, values = GaussianSmoothing(model, divergence, 0.5, 0.2, 0.3).evaluate(np.full(5, 0.2))
    assert len(set(values)) == 1
    assert value == pytest.approx(values[0], rel=1e-12)
    np.testing.assert_allclose(gradient[:4], gradient[0], rtol=1e-12)


@DIVERGENCES
@pytest.mark.parametrize("lam", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("entropy", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("noise", [1e-12, 1.0, 1e12])
def test_extreme_parameters_give_numbers_within_their_bounds(divergence, lam, entropy, noise):
    """Psi is between E l - lam noise^2 d and the largest shifted loss, to 1e-9 of its terms; what is too extreme is refused."""
    model = problem(n=20, d=3)
    if noise**2 / entropy > 1e10 and divergence != KL:
        with pytest.raises(ValueError, match=r"noise\^2 / entropy must be at most 1e10"):
            GaussianSmoothing(model, divergence, lam, entropy, noise)
        return
    smoothing = GaussianSmoothing(model, divergence, lam, entropy, noise)
    w = np.array([0.5, -0.2, 0.1, 0.3])
    value, gradient, values = smoothing.evaluate(w)
    assert math.isfinite(value)
    assert np.isfinite(gradient).all()
    losses, steepest = model.losses(w), math.sqrt(w[:3] @ w[:3])
    slack = 1e-9 * (np.abs(losses) + np.abs(values) + lam * entropy)
    assert np.all(values >= losses - lam * noise**2 * 3 - slack)
    assert np.all(values <= losses + steepest**2 / (4 * lam) + slack)


def test_the_infinite_region_of_kl_with_a_quadratic_loss_is_reported():
    for loss in ("squared", "squared_hinge"):
        model = problem(loss, n=500, intercept=False)
        smoothing = GaussianSmoothing(model, KL, 0.5, 0.1, 0.3)
        assert smoothing.radius == pytest.approx(math.sqrt(1.0 * (1 + 0.1 / 0.18)))
        direction = np.ones(6) / math.sqrt(6)
        assert math.isfinite(smoothing.evaluate(0.999 * smoothing.radius * direction)[0])
        value, gradient, values = smoothing.evaluate(1.001 * smoothing.radius * direction)
        assert value == math.inf
        assert np.isnan(gradient).all()
        assert np.all(values == math.inf)
        assert math.isfinite(GaussianSmoothing(model, CHI, 0.5, 0.1, 0.3).evaluate(2 * smoothing.radius * direction)[0])


def test_what_is_not_covered_is_refused():
    poisson = lw.LinearModel(np.ones((3, 1)), np.ones(3), "poisson")
    assert not GaussianSmoothing.supported(poisson, KL)
    assert not GaussianSmoothing.supported(problem(), lw.divergences.CVaR(0.1))
    assert not GaussianSmoothing.supported(problem(), lw.divergences.SmoothedCVaR(1.0))
    with pytest.raises(ValueError, match="no exact Gaussian objective"):
        GaussianSmoothing(poisson, KL, 1.0, 1.0, 1.0)
    for place in range(3):
        parameters = [1.0, 1.0, 1.0]
        parameters[place] = 0.0
        name = ("lam", "entropy", "noise")[place]
        with pytest.raises(ValueError, match=f"{name} must be positive and finite, got 0"):
            GaussianSmoothing(problem(), KL, *parameters)
    with pytest.raises(ValueError, match="must be positive and finite"):
        GaussianSmoothing(problem(), KL, 1.0, 1e-300, 1e10)


@pytest.mark.parametrize("noise", [1e-5, 1e-8, 1e-12])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "hinge"])
def test_little_noise_adds_the_second_order_term_in_few_panels(noise: float, loss: str) -> None:
    # Psi = l + (t^2/2) (l'' + l'^2/T) + O(t^3), t = rho tau. Panels that cannot tell the loss's change from rounding are not halved:
    # they made an evaluation of 40 rows take a second.
    model = problem(loss, n=40, d=3)
    w = np.array([1.0, -2.0, 0.5, 0.1])
    smoothing = GaussianSmoothing(model, KL, 1.0, 0.1, noise)
    start = time.process_time()
    _, gradient, values = smoothing.evaluate(w)
    assert time.process_time() - start < 0.1
    slope, bend = model.slopes(w), np.zeros(40) if loss == "hinge" else model.curvatures(w)
    t2 = (noise * np.linalg.norm(w[:3])) ** 2 / (1.0 + 20.0 * noise**2)
    expected = model.losses(w) + 0.5 * t2 * (bend + slope**2 / 0.1)
    np.testing.assert_allclose(values - smoothing.constant, expected, rtol=0.0, atol=1e-10 * noise + 2e-14)
    np.testing.assert_allclose(gradient, model.gradient(w, np.full(40, 1 / 40)), rtol=0.0, atol=1e3 * noise**2 + 1e-10)
