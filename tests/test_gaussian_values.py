"""The exact Gaussian Sinkhorn objective against closed forms, an independent quadrature, and published optima."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import leeward as lw
from leeward.problems._gaussian import GaussianSmoothing
from reference import gaussian_sinkhorn as twin

KL, CHI, CVAR = lw.divergences.KL(), lw.divergences.ChiSquare(), lw.divergences.SmoothedCVaR(0.1)
LOSSES = {
    "logistic": (lw.losses.Logistic(), 0.0),
    "squared": (lw.losses.Squared(), 0.0),
    "huber": (lw.losses.Huber(0.7), 0.7),
    "absolute": (lw.losses.Absolute(), 0.0),
    "quantile": (lw.losses.Quantile(0.3), 0.3),
    "hinge": (lw.losses.Hinge(), 0.0),
    "squared_hinge": (lw.losses.SquaredHinge(), 0.0),
}
SETTINGS = [
    # lam, entropy, noise, tau
    (2.0, 0.3, 0.4, 0.5),
    (1.0, 1.0, 0.05, 0.3),
    (0.5, 0.1, 0.6, 0.2),
]


def model_of(loss, dim, labels, **settings):
    return lw.LinearModel(np.zeros((len(labels), dim)), labels, loss, **settings)


def at_scores(smoothing, scores, tau):
    """Psi, dPsi/du and dPsi/dtau for given scores: what evaluate reduces to sums."""
    value, slope, spread = smoothing._solve(np.asarray(scores, dtype=float), tau, 1)
    return value + smoothing.constant, slope, spread


@pytest.mark.parametrize("dim", [1, 2, 5, 500])
@pytest.mark.parametrize("setting", SETTINGS)
def test_squared_loss_under_kl_is_its_closed_form(dim, setting):
    lam, entropy, noise, tau = setting
    scores, labels = np.array([-3.0, 0.0, 0.2, 5.0]), np.array([1.0, 0.0, -2.0, 5.0])
    got = at_scores(GaussianSmoothing(model_of("squared", dim, labels), KL, lam, entropy, noise), scores, tau)
    for i in range(4):
        expected = twin.kl_squared(scores[i], labels[i], tau, lam=lam, entropy=entropy, noise=noise, dim=dim)
        np.testing.assert_allclose([g[i] for g in got], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_kl_agrees_with_brute_force_quadrature(name, setting):
    lam, entropy, noise, tau = setting
    loss, parameter = LOSSES[name]
    tau = 0.5 * tau if "squared" in name else tau
    scores, labels = np.array([-2.5, 0.4, 1.1, 6.0]), np.array([1.0, -1.0, 1.0, 1.0])
    got = at_scores(GaussianSmoothing(model_of(loss, 3, labels), KL, lam, entropy, noise), scores, tau)
    for i in range(4):
        parts = twin.loss_parts(name, parameter)
        expected = twin.kl(parts, scores[i], labels[i], tau, lam=lam, entropy=entropy, noise=noise, dim=3)
        np.testing.assert_allclose([g[i] for g in got], expected, rtol=1e-10, atol=1e-10)


# The brute force takes long for the smoothed CVaR, and the part of the features is the same for all losses.
BRUTE = [("chi_square", dim, name) for dim in (1, 2, 5, 50, 500) for name in ("logistic", "squared", "hinge")]
BRUTE += [("smoothed_cvar", dim, "logistic") for dim in (1, 2, 5, 50, 500)]
BRUTE += [("smoothed_cvar", 5, "squared"), ("smoothed_cvar", 5, "hinge")]


@pytest.mark.parametrize(("divergence", "dim", "name"), BRUTE)
def test_other_divergences_agree_with_brute_force_quadrature(divergence, dim, name):
    loss, parameter = LOSSES[name]
    lam, entropy, noise, tau = SETTINGS[dim % 2]
    scores, labels = np.array([-2.5, 1.1]), np.array([1.0, 1.0])
    kind = CHI if divergence == "chi_square" else CVAR
    got = at_scores(GaussianSmoothing(model_of(loss, dim, labels), kind, lam, entropy, noise), scores, tau)
    parts, setting = twin.loss_parts(name, parameter), {"lam": lam, "entropy": entropy, "noise": noise, "dim": dim}
    for i in range(2):
        expected = twin.penalised(divergence, parts, scores[i], labels[i], tau, **setting)
        np.testing.assert_allclose([g[i] for g in got], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["huber", "absolute", "quantile", "squared_hinge"])
@pytest.mark.parametrize("divergence", ["chi_square", "smoothed_cvar"])
def test_every_loss_agrees_under_the_other_divergences(divergence, name):
    loss, parameter = LOSSES[name]
    lam, entropy, noise, tau = SETTINGS[0]
    kind = CHI if divergence == "chi_square" else CVAR
    got = at_scores(GaussianSmoothing(model_of(loss, 9, np.ones(1)), kind, lam, entropy, noise), [0.8], tau)
    setting = {"lam": lam, "entropy": entropy, "noise": noise, "dim": 9}
    expected = twin.penalised(divergence, twin.loss_parts(name, parameter), 0.8, 1.0, tau, **setting)
    np.testing.assert_allclose([g[0] for g in got], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("divergence", [KL, CHI, CVAR], ids=["kl", "chi2", "cvar"])
@pytest.mark.parametrize("dim", [1, 2, 30])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "absolute"])
def test_the_table_over_many_samples_agrees_with_single_solves(divergence, dim, loss):
    rng = np.random.default_rng(3)
    labels = np.where(rng.random(1500) < 0.4, -1.0, 1.0)
    scores = 3.0 * rng.normal(size=1500)
    whole = at_scores(GaussianSmoothing(model_of(loss, dim, labels), divergence, 0.5, 0.2, 0.3), scores, 0.7)
    few = GaussianSmoothing(model_of(loss, dim, labels[:40]), divergence, 0.5, 0.2, 0.3)
    for got, expected in zip(whole, at_scores(few, scores[:40], 0.7), strict=True):
        np.testing.assert_allclose(got[:40], expected, rtol=0, atol=1e-8 if divergence == CHI and dim < 6 else 1e-11)


@pytest.mark.parametrize("divergence", [KL, CHI, CVAR], ids=["kl", "chi2", "cvar"])
@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge", lw.losses.Huber(0.5)])
@pytest.mark.parametrize("intercept", [True, False])
def test_gradients_are_finite_differences_of_the_value(divergence, loss, intercept):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 4)), np.where(rng.random(60) < 0.5, -1.0, 1.0)
    model = lw.LinearModel(X, y, loss, intercept=intercept, sample_weight=rng.random(60))
    smoothing = GaussianSmoothing(model, divergence, 1.5, 0.2, 0.3)
    w, direction = 0.4 * rng.normal(size=model.dim), rng.normal(size=model.dim)
    value, gradient, values = smoothing.evaluate(w)
    assert value == pytest.approx(np.average(values, weights=model.sample_weight), rel=1e-12)
    h = 1e-4
    ends = [smoothing.evaluate(w + k * h * direction)[0] for k in (-2, -1, 1, 2)]
    slope = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)
    assert gradient @ direction == pytest.approx(slope, rel=1e-8, abs=1e-8)


def test_weighted_gradients_add_up_to_the_gradient():
    rng = np.random.default_rng(6)
    model = lw.LinearModel(rng.normal(size=(30, 3)), np.where(rng.random(30) < 0.5, -1.0, 1.0))
    smoothing, w = GaussianSmoothing(model, CHI, 1.5, 0.2, 0.3), 0.4 * rng.normal(size=4)
    index = np.array([4, 4, 7])
    single = [smoothing.weighted(w, np.eye(30)[i]) for i in range(30)]
    np.testing.assert_allclose(np.mean(single, axis=0), smoothing.evaluate(w)[1], rtol=1e-12, atol=1e-14)
    expected = 1.0 * single[4] + 2.0 * single[4] - 0.5 * single[7]
    np.testing.assert_allclose(smoothing.weighted(w, [1.0, 2.0, -0.5], index), expected, rtol=1e-12, atol=1e-14)


def least_squares_optimum(X, y, lam, entropy):
    """min_w lam/(lam - 2 |w|^2) mean (x.w - y)^2 - (lam entropy/2) log(1 - 2 |w|^2/lam) over the ridge path."""
    S, c, square = X.T @ X / len(y), X.T @ y / len(y), y @ y / len(y)

    def value(log_mu):
        w = np.linalg.solve(S + np.exp(log_mu) * np.eye(len(c)), c)
        q = w @ w
        if 2 * q >= lam:
            return np.inf
        return lam / (lam - 2 * q) * (w @ S @ w - 2 * c @ w + square) - lam * entropy / 2 * np.log1p(-2 * q / lam)

    grid = np.linspace(-14, 7, 400)
    i = int(np.argmin([value(g) for g in grid]))
    return minimize_scalar(value, bounds=(grid[i - 1], grid[i + 1]), method="bounded", options={"xatol": 1e-10}).fun


@pytest.mark.parametrize(
    ("name", "published"),
    [("housing", 77.13617003563812), ("mg", 0.10018029826978514), ("mpg", 113.62498924210644)],
)
def test_least_squares_optima_of_wang_gao_and_xie(data_folder, name, published):
    """Their loss is (x.w - y)^2, their cost |xi - x|^2/2, their reference Lebesgue's measure, lam 1000 and epsilon 0.1: a Gaussian
    of variance 0.1 at temperature 100. With half their loss that is variance 0.1 = 1/(1/noise^2 + 2/entropy) at lam entropy = 50,
    whatever the noise, and the constant is left out."""
    data = np.load(data_folder / "libsvm_regression" / "libsvm_regression.npz")
    y = data[f"y_{name}"].astype(np.float64)
    X = np.column_stack([data[f"X_{name}"].astype(np.float64), np.ones(len(y))])
    noise = 2.0
    entropy = 2.0 / (10.0 - 1.0 / noise**2)
    model = lw.LinearModel(X, y, "squared", intercept=False)
    smoothing = GaussianSmoothing(model, KL, 50.0 / entropy, entropy, noise)
    assert smoothing.radius == pytest.approx(np.sqrt(500.0))

    def objective(w):
        value, gradient, _ = smoothing.evaluate(w)
        return (value - smoothing.constant, gradient) if np.isfinite(value) else (1e9, np.zeros_like(w))

    found = minimize(objective, np.zeros(X.shape[1]), jac=True, options={"gtol": 1e-9, "maxiter": 500})
    assert 2 * found.fun == pytest.approx(published, rel=1e-8)
    assert 2 * found.fun == pytest.approx(least_squares_optimum(X, y, 1000.0, 0.1), rel=1e-12)
