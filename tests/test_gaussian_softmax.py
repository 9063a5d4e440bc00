"""The exact Sinkhorn objective of softmax under Gaussian noise: its kernel, its truth, its gradient, bound, bits and edges."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import leeward as lw
from leeward.problems._gaussian import GaussianSmoothing
from leeward.problems._gaussian_binary import BinarySmoothing
from leeward.problems._gaussian_rules import lattice, product, spherical
from leeward.problems._gaussian_softmax import SoftmaxSmoothing
from reference import gaussian_sinkhorn as one_score
from reference import softmax_sinkhorn as twin

KL, CHI, CVAR = lw.divergences.KL(), lw.divergences.ChiSquare(), lw.divergences.SmoothedCVaR(0.2)
DIVERGENCES = pytest.mark.parametrize("divergence", [KL, CHI, CVAR], ids=["kl", "chi2", "cvar"])


def problem(C: int = 3, n: int = 16, d: int = 6, seed: int = 0, **settings: Any) -> lw.LinearModel:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.argmax(X @ rng.normal(size=(d, C)) + rng.normal(size=(n, C)), axis=1)
    y[:C] = range(C)
    return lw.LinearModel(X, y, "softmax", **settings)


def point(model: lw.LinearModel, size: float = 0.5, seed: int = 1) -> Any:
    return size * np.random.default_rng(seed).normal(size=model.dim)


def solved(smoothing: SoftmaxSmoothing, w: Any) -> tuple[Any, Any, Any, Any]:
    """Answers, derivatives in L, L in units of the scores, and the nodes."""
    factor = smoothing._factor(w)
    nodes = smoothing._nodes(factor)
    factor.pulled = lambda slope: slope  # type: ignore[method-assign]
    n = smoothing.model.size
    made = smoothing._solve(factor, nodes, smoothing.model.scores(w), smoothing._y, np.full(n, 1 / n), 1)
    return made, made.spread, smoothing._scale * factor.L, nodes


@pytest.mark.parametrize(("C", "d"), [(3, 7), (4, 2), (6, 9)])
@DIVERGENCES
def test_the_kernel_agrees_with_sums_over_nodes(divergence: Any, C: int, d: int) -> None:
    model = problem(C, n=C if divergence == CVAR else 8, d=d)
    lam, entropy, noise = 1.0, 0.4, 0.2
    smoothing, w, T, beta = SoftmaxSmoothing(model, divergence, lam, entropy, noise), point(model, 0.3), 0.4, 0.1
    made, slope_L, L, nodes = solved(smoothing, w)
    assert nodes.shift.size == 0
    parts = {
        KL: None,
        CHI: tuple(one_score.chi_square_parts(d - min(d, C - 1), beta)),
        CVAR: one_score.smoothed_cvar_parts(d - min(d, C - 1), beta, 0.2),
    }[divergence]
    if divergence == CHI:
        first, second = parts
        parts = (lambda a: first(a + 1.0), lambda a: 0.5 * (second(a + 1.0) - 1.0))
    total = 0.0
    for i, (z, y) in enumerate(zip(model.scores(w), model.targets().astype(int), strict=True)):
        if parts is None:
            value, slope, spread = twin.kl(z, y, L, nodes.u, nodes.weight, T)
        else:
            value, slope, spread = twin.penalised(parts, z, y, L, nodes.u, nodes.weight, T, beta)
        assert made.value[i] == pytest.approx(value, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(made.slope[i], slope, atol=2e-12)
        total = total + spread / model.size
    np.testing.assert_allclose(slope_L, smoothing._scale * total, atol=1e-12)


@pytest.mark.parametrize("C", [3, 6])
def test_shifted_nodes_agree_with_sums_over_nodes_and_with_nodes_around_zero(C: int) -> None:
    model = problem(C, n=6, d=8)
    smoothing, w = SoftmaxSmoothing(model, KL, 1.0, 0.05, 0.4), point(model, 4.0)
    made, _, L, nodes = solved(smoothing, w)
    assert nodes.shift.size > 0
    for i, (z, y) in enumerate(zip(model.scores(w), model.targets().astype(int), strict=True)):
        value = twin.shifted_kl(z, y, L, nodes.u, nodes.weight, 0.05)
        assert made.value[i] == pytest.approx(value, rel=1e-12, abs=1e-12)
    if C == 3:
        middle = SoftmaxSmoothing(model, KL, 1.0, 0.5, 0.3)
        factor = middle._factor(w / 4)
        plain = middle._nodes(factor)
        assert plain.shift.size == 0
        L = middle._scale * factor.L
        shifts = middle._shifts(L[:, None, :] - L[None, :, :])
        other = type(plain)(plain.u, plain.weight, *shifts)
        scores, y, p = model.scores(w / 4), middle._y, np.full(6, 1 / 6)
        first, second = (middle._solve(factor, nodes, scores, y, p, 1) for nodes in (plain, other))
        np.testing.assert_allclose(first.value, second.value, atol=1e-8)
        np.testing.assert_allclose(first.slope, second.slope, atol=1e-7)
        np.testing.assert_allclose(first.spread, second.spread, atol=1e-7)


@pytest.mark.parametrize("C", [3, 10])
@DIVERGENCES
def test_values_are_those_of_many_draws(divergence: Any, C: int) -> None:
    """One sample, within 4 standard errors (of the weights' influence) and the estimated error of the rule."""
    model = lw.LinearModel(np.tile(np.linspace(-1, 1, 40), (C, 1)), np.arange(C), "softmax")
    smoothing, w = SoftmaxSmoothing(model, divergence, 1.0, 0.5, 0.1), point(model, 0.2)
    _, _, values = smoothing.evaluate(w)
    W, m, rng = w[: C * 40].reshape(C, 40), 150_000, np.random.default_rng(2)
    L = np.linalg.cholesky(W @ W.T)
    z = rng.normal(size=(m, C))
    cost = 0.01 * (np.sum(z * z, axis=1) + rng.chisquare(40 - C, size=m))
    loss, _ = twin.losses(model.scores(w)[0], 0, 0.1 * L, z)
    risk = {KL: lw.KL(penalty=0.5), CHI: lw.ChiSquare(penalty=0.5), CVAR: lw.SmoothedCVaR(0.2, 0.5)}[divergence]
    shifted = loss - cost
    made = risk.solve(shifted)
    f = {KL: lambda r: r * np.log(r) - r + 1, CHI: lambda r: (r - 1) ** 2 / 2}.get(divergence)
    r = m * made.weights
    terms = r * shifted - 0.5 * f(r) if f else 0.5 * divergence.conjugate((shifted - made.eta) / 0.5)
    error = float(np.std(terms)) / math.sqrt(m)
    assert values[0] == pytest.approx(made.value, abs=4 * error + 2 * smoothing.error(w))
    assert error < 5e-3


@DIVERGENCES
@pytest.mark.parametrize("intercept", [True, False])
def test_two_classes_are_the_logistic_loss_of_the_difference(divergence: Any, intercept: bool) -> None:
    model = problem(2, n=40, d=5, l2=0.1, intercept=intercept)
    y = 2.0 * model.targets() - 1.0
    one = GaussianSmoothing(lw.LinearModel(model._X, y, l2=0.1, intercept=intercept), divergence, 0.8, 0.2, 0.3)
    smoothing, w = BinarySmoothing(model, divergence, 0.8, 0.2, 0.3), point(model)
    value, gradient, _ = smoothing.evaluate(w)
    difference = smoothing._difference(w)
    expected = one.evaluate(difference)
    assert value == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(gradient[5:10], expected[1][:5], rtol=1e-12)
    np.testing.assert_allclose(gradient[:5], -expected[1][:5], rtol=1e-12)
    np.testing.assert_array_equal(smoothing.weighted(w, np.full(40, 1 / 40)), gradient)
    result = lw.minimize(lw.Sinkhorn(model, divergence, lam=0.8, entropy=0.2, noise=0.3))
    assert result.success
    assert 0 <= result.gap <= 1e-6 * abs(result.fun)
    assert smoothing.bound(w) <= result.fun


@pytest.mark.parametrize("entropy", [0.5, 0.05])
@pytest.mark.parametrize(("C", "d", "intercept"), [(3, 5, True), (3, 2, True), (4, 1, False), (5, 9, True)])
@DIVERGENCES
def test_gradients_are_those_of_the_values(divergence: Any, C: int, d: int, intercept: bool, entropy: float) -> None:
    model = problem(C, n=12, d=d, intercept=intercept, sample_weight=np.arange(12.0))
    smoothing, w = SoftmaxSmoothing(model, divergence, 1.0, entropy, 0.3), point(model)
    _, gradient, _ = smoothing.evaluate(w)
    h = 1e-5
    for step in np.random.default_rng(3).normal(size=(2, model.dim)):
        difference = (smoothing.evaluate(w + h * step)[0] - smoothing.evaluate(w - h * step)[0]) / (2 * h)
        assert step @ gradient == pytest.approx(difference, rel=1e-6, abs=1e-7)


@DIVERGENCES
def test_a_rotation_of_the_features_changes_nothing(divergence: Any) -> None:
    model = problem(4, n=10, d=5)
    turn = np.linalg.qr(np.random.default_rng(4).normal(size=(5, 5)))[0]
    turned = lw.LinearModel(model._X @ turn, model.targets(), "softmax")
    w = point(model)
    v = np.concatenate([(w[:20].reshape(4, 5) @ turn).ravel(), w[20:]])
    first, second = (SoftmaxSmoothing(m, divergence, 1.0, 0.3, 0.3).evaluate(x) for m, x in ((model, w), (turned, v)))
    np.testing.assert_allclose(first[2], second[2], rtol=1e-11)
    np.testing.assert_allclose((first[1][:20].reshape(4, 5) @ turn).ravel(), second[1][:20], atol=1e-11)


@DIVERGENCES
def test_bits_do_not_depend_on_threads(divergence: Any) -> None:
    for C, entropy in ((3, 0.3), (6, 0.02)):
        model = problem(C, n=90, d=8)
        smoothing, w = SoftmaxSmoothing(model, divergence, 1.0, entropy, 0.3), point(model)
        first = smoothing.evaluate(w, threads=1)
        for threads in (2, 3):
            other = smoothing.evaluate(w, threads=threads)
            assert other[0] == first[0]
            np.testing.assert_array_equal(other[1], first[1])
            np.testing.assert_array_equal(other[2], first[2])


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("C", "d"), [(3, 4), (3, 2)])
@DIVERGENCES
def test_lbfgs_certifies_the_optimum_and_bounds_stay_below_it(divergence: Any, C: int, d: int, intercept: bool) -> None:
    settings: dict[str, Any] = {"lam": 1.0, "entropy": 0.5, "noise": 0.2}
    sinkhorn = lw.Sinkhorn(problem(C, d=d, l2=0.1, intercept=intercept), divergence, **settings)
    assert sinkhorn.exact
    result = lw.minimize(sinkhorn)
    assert type(result.algorithm).__name__ == "LBFGS"
    assert result.success
    error = sinkhorn.evaluate(result.x).quadrature_error
    assert 0 <= result.gap - 2 * error <= 1e-6 * abs(result.fun)
    smoothing = SoftmaxSmoothing(sinkhorn.model, divergence, *settings.values())
    rng = np.random.default_rng(5)
    for size in (0.0, 1e-3, 0.3, 3.0):
        w = result.x + size * rng.normal(size=sinkhorn.dim)
        assert smoothing.bound(w) <= result.fun + 2 * error + 1e-12
        gap = lw._certificate.certify(sinkhorn, w).gap
        assert gap is None or sinkhorn.value(w) - result.fun <= gap + 2 * error + 1e-12


@DIVERGENCES
def test_without_coefficients_psi_is_the_loss_and_the_constant(divergence: Any) -> None:
    model = problem(4, n=50, d=5)
    one = GaussianSmoothing(lw.LinearModel(model._X, np.ones(50)), divergence, 0.5, 0.2, 0.3)
    smoothing, w = SoftmaxSmoothing(model, divergence, 0.5, 0.2, 0.3), np.zeros(24)
    assert smoothing.constant == pytest.approx(one.constant, rel=1e-14)
    w[-4:] = [0.3, -0.2, 0.0, 1.0]
    value, gradient, values = smoothing.evaluate(w)
    np.testing.assert_allclose(values, model.losses(w) + smoothing.constant, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient, model.gradient(w, np.full(50, 0.02)), atol=1e-12)
    assert value == pytest.approx(values.mean(), rel=1e-13)


@DIVERGENCES
@pytest.mark.parametrize("size", [1e3, 1e8, 1e120])
def test_huge_scores_give_finite_numbers_near_the_loss(divergence: Any, size: float) -> None:
    model = problem(3, n=5, d=4)
    w = point(model)
    w[-3:] += size * np.array([0.0, 1.0, -1.0])
    value, gradient, values = SoftmaxSmoothing(model, divergence, 0.5, 0.2, 0.3).evaluate(w)
    assert math.isfinite(value)
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(values, model.losses(w), atol=2.0, rtol=1e-9)


@DIVERGENCES
def test_psi_lies_between_the_mean_shifted_loss_and_the_least_favourable_one(divergence: Any) -> None:
    """l(x + delta) <= l(x) + max (delta_c - delta_y), so l - lam c <= l(z) + max |w_c - w_y|^2/(4 lam); at any w, for any spread."""
    for lam, entropy, noise, size in (
        (0.7, 0.2, 0.3, 0.3),
        (0.7, 0.02, 0.3, 3.0),
        (1e6, 1e-3, 1e-3, 1.0),
        (1.0, 1e6, 1e-3, 1.0),
    ):
        model = problem(4, n=20, d=6)
        w = point(model, size)
        values = SoftmaxSmoothing(model, divergence, lam, entropy, noise).evaluate(w)[2]
        losses, W = model.losses(w), w[:24].reshape(4, 6)
        steepest = max(np.sum((a - b) ** 2) for a in W for b in W)
        slack = 1e-9 * lam * entropy + 1e-9
        assert np.all(values >= losses - lam * noise**2 * 6 - slack)
        assert np.all(values <= losses + steepest / (4 * lam) + slack)


def test_weights_of_zero_leave_samples_out_and_single_precision_is_read() -> None:
    model = problem(3, n=20, d=5)
    weight = np.where(np.arange(20) < 12, 1.0, 0.0)
    rows = np.asarray(model._X, dtype=np.float32)
    full = SoftmaxSmoothing(lw.LinearModel(rows, model.targets(), "softmax", sample_weight=weight), CHI, 1.0, 0.3, 0.2)
    part = SoftmaxSmoothing(lw.LinearModel(rows[:12], model.targets()[:12], "softmax"), CHI, 1.0, 0.3, 0.2)
    w = point(model)
    assert full.evaluate(w)[0] == pytest.approx(part.evaluate(w)[0], rel=1e-14)
    np.testing.assert_allclose(full.evaluate(w)[1], part.evaluate(w)[1], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(
        full.weighted(w, np.full(12, 1 / 12), np.arange(12)), part.evaluate(w)[1], rtol=1e-12, atol=1e-15
    )


def test_the_estimated_error_covers_that_of_a_coarse_rule() -> None:
    model = problem(3, n=32, d=3)
    smoothing, w = SoftmaxSmoothing(model, CHI, 1.0, 0.05, 0.2), point(model, 1.0)
    factor = smoothing._factor(w)
    fine = lattice(2, 0.06, 8.0)
    weight = np.exp(-0.5 * np.sum(fine * fine, axis=1))
    nodes = type(smoothing._nodes(factor))(fine, weight / weight.sum(), np.empty(0), np.empty(0))
    scores, p = model.scores(w), np.full(32, 1 / 32)
    true = smoothing._solve(factor, nodes, scores, smoothing._y, p, None).value
    ours = smoothing._solve(factor, smoothing._nodes(factor), scores, smoothing._y, p, None).value
    assert 0 < abs(np.mean(true - ours)) <= 2 * smoothing.error(w)


@pytest.mark.parametrize("q", [4, 5, 9])
def test_the_spherical_rule_is_positive_and_of_degree_five(q: int) -> None:
    for nodes, weight in (spherical(q), spherical(q, 2, 6), product(4, 6)):
        v = np.random.default_rng(6).normal(size=(3, nodes.shape[1]))
        assert np.all(weight > 0)
        s = nodes @ v.T
        moments = [1.0, 0.0, v[0] @ v[0], 0.0, 3 * (v[0] @ v[0]) ** 2, 0.0]
        np.testing.assert_allclose([weight @ s[:, 0] ** k for k in range(6)], moments, rtol=1e-12, atol=1e-9 * q**3)
        mixed = (v[0] @ v[0]) * (v[1] @ v[2]) + 2 * (v[0] @ v[1]) * (v[0] @ v[2])
        assert weight @ (s[:, 0] ** 2 * s[:, 1] * s[:, 2]) == pytest.approx(mixed, rel=1e-9, abs=1e-9)


def test_when_it_applies_and_what_is_refused() -> None:
    assert lw.Sinkhorn(problem(4)).exact
    assert lw.Sinkhorn(problem(7, d=3), "pearson").exact
    five = problem(5, d=8, l2=0.2)
    assert not lw.Sinkhorn(five).exact
    assert not lw.Sinkhorn(problem(4), "kl", exact=False).exact
    asked = lw.Sinkhorn(five, "chi2", exact=True, noise=0.1, entropy=1.0)
    result = lw.minimize(asked)
    assert result.success
    assert "estimated error of quadrature" in result.message
    assert asked.evaluate(result.x).quadrature_error < 1e-4
    assert lw.Sinkhorn(five).evaluate(np.zeros(five.dim)).quadrature_error is None
    coarse = lw.Sinkhorn(five, "chi2", exact=True, noise=1.0, entropy=0.01)
    assert any("the rule of nodes has an error of about" in remark for remark in coarse.remarks(3.0 * point(five)))
    with pytest.raises(ValueError, match="softmax of up to 25 classes"):
        lw.Sinkhorn(lw.LinearModel(np.eye(26), np.arange(26), "softmax"), exact=True)
    with pytest.raises(ValueError, match="no exact Gaussian objective"):
        SoftmaxSmoothing(lw.LinearModel(np.eye(2), [0, 1]), KL, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="noise must be positive and finite, got 0"):
        SoftmaxSmoothing(problem(), KL, 1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match=r"noise\^2 / entropy must be at most 1e10"):
        SoftmaxSmoothing(problem(), CHI, 1.0, 1e-12, 1.0)


@pytest.mark.parametrize("scale", [20.0, 28.0, 40.0, 80.0])
def test_one_feature_under_a_tilt_of_many_standard_deviations(scale: float) -> None:
    X, W, T, noise = np.array([[0.3], [-0.2], [1.0]]), scale * np.array([1.0, 0.0, -0.5]), 0.3, 0.4
    problem = lw.Sinkhorn(lw.LinearModel(X, [0, 1, 2], loss="softmax"), "kl", lam=1.0, entropy=T, noise=noise)
    u, beta = np.linspace(-400.0, 400.0, 200_001), noise**2 / T
    expected = -0.5 * T * np.log1p(2.0 * beta)
    for i in range(3):
        z = W[:, None] * (X[i, 0] + noise / np.sqrt(1.0 + 2.0 * beta) * u)
        losses = np.logaddexp.reduce(z, axis=0) - z[i]
        total = np.logaddexp.reduce(losses / T - 0.5 * u * u) + np.log((u[1] - u[0]) / np.sqrt(2.0 * np.pi))
        expected += T * total / 3.0
    assert problem.value(np.r_[W, 0.0, 0.0, 0.0]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("divergence", ["kl", "chi2"])
def test_a_class_without_samples_leaves_the_certificate(divergence: str) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 3
    four, three = (
        lw.minimize(
            lw.Sinkhorn(lw.LinearModel(X, y, loss=lw.losses.Softmax(C), l2=0.01), divergence, entropy=0.3, noise=0.4)
        )
        for C in (4, 3)
    )
    assert four.success
    assert four.gap is not None
    assert three.gap is not None
    assert four.fun == pytest.approx(three.fun, abs=four.gap + three.gap)


@pytest.mark.parametrize("divergence", ["kl", "chi2"])
@pytest.mark.parametrize("size", [1e12, 1e160])
def test_scores_that_lose_the_digits_of_the_objective_count_as_infinite(divergence: str, size: float) -> None:
    X, w = np.array([[0.3, 1.0], [-0.2, 0.0], [1.0, 0.5]]), np.arange(9.0)
    problem = lw.Sinkhorn(lw.LinearModel(X, [0, 1, 2], loss="softmax"), divergence, entropy=0.3, noise=0.4)
    assert np.isfinite(problem.value(w))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="is inf"):
            problem.value(size * w)
