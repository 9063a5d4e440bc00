"""Losses that are not convex: known answers, exact formulas in 50 digits, huge arguments, bounds of curvature, and fits."""

from __future__ import annotations

import copy
import pickle

import mpmath as mp
import numpy as np
import pytest
from scipy import sparse

import leeward as lw

L = lw.losses
BOUNDED = [L.Sigmoid(), L.Cauchy(), L.Cauchy(2.5), L.GemanMcClure(0.7), L.Tukey(), L.Tukey(1.5)]
RESIDUAL = [loss for loss in BOUNDED if loss.name != "sigmoid"]


def of_scores(loss, z, y):
    """A model whose score of sample i is z_i at w = 1."""
    return lw.LinearModel(np.reshape(z, (-1, 1)), np.full(np.size(z), y), loss, intercept=False), np.ones(1)


def label_for(loss):
    return 1.0 if loss.name == "sigmoid" else 0.3


def exact(loss, z, y):
    """Value and slope in mpmath."""
    z, y = mp.mpf(float(z)), mp.mpf(float(y))
    if loss.name == "sigmoid":
        value = 1 / (1 + mp.exp(y * z))
        return value, -y * value / (1 + mp.exp(-y * z))
    c, r = mp.mpf(loss.parameter), z - y
    u = r / c
    if loss.name == "cauchy":
        return c**2 / 2 * mp.log(1 + u**2), r / (1 + u**2)
    if loss.name == "geman_mcclure":
        return c**2 / 2 * u**2 / (1 + u**2), r / (1 + u**2) ** 2
    if abs(u) > 1:
        return c**2 / 6, mp.mpf(0)
    return c**2 / 6 * (1 - (1 - u**2) ** 3), r * (1 - u**2) ** 2


@pytest.mark.parametrize(
    ("loss", "z", "y", "value", "slope", "curvature"),
    [
        (L.Sigmoid(), 0.0, 1.0, 0.5, -0.25, 1 / (6 * np.sqrt(3))),
        (L.Sigmoid(), np.log(9.0), 1.0, 0.1, -0.09, 0.09),
        (L.Sigmoid(), np.log(9.0), -1.0, 0.9, 0.09, 0.09),
        (L.Cauchy(2.0), 3.0, 1.0, 2 * np.log(2), 1.0, 0.5),
        (L.GemanMcClure(2.0), 3.0, 1.0, 1.0, 0.5, 0.25),
        (L.Tukey(2.0), 2.0, 1.0, 37 / 96, 0.5625, 0.5625),
        (L.Tukey(2.0), 4.0, 1.0, 2 / 3, 0.0, 0.0),
    ],
)
def test_known_answers(loss, z, y, value, slope, curvature):
    model, w = of_scores(loss, [z], y)
    np.testing.assert_allclose(
        [model.losses(w)[0], model.slopes(w)[0], model.curvatures(w)[0]], [value, slope, curvature], rtol=1e-14
    )


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_values_and_slopes_are_accurate_from_tiny_to_large_scores(loss):
    size = np.logspace(-12, 12, 97)
    y = label_for(loss)
    z = np.concatenate([-size, [0.0], size]) + (0.0 if loss.name == "sigmoid" else y)
    model, w = of_scores(loss, z, y)
    with mp.workdps(50):
        pairs = [exact(loss, v, y) for v in z]
        value, slope = (np.array([float(p[k]) for p in pairs]) for k in (0, 1))
    # Near |u| = 1 Tukey's slope is (1 - u^2)^2 with a rounding error of u.
    np.testing.assert_allclose(model.losses(w), value, rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(model.slopes(w), slope, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(
    ("loss", "limit"),
    [(L.Cauchy(2.0), None), (L.GemanMcClure(2.0), 2.0), (L.Tukey(3.0), 1.5)],
    ids=repr,
)
@pytest.mark.parametrize("z", [1e140, 1e160, 1e300, np.finfo(float).max])
def test_huge_scores_are_at_the_limit(loss, limit, z):
    model, _ = of_scores(loss, [1.0], 0.5)
    for sign in (-1.0, 1.0):
        w = np.array([sign * z])
        value = 2.0**2 * (np.log(z) - np.log(2.0)) if limit is None else limit
        np.testing.assert_allclose(model.losses(w), [value], rtol=1e-15)
        slope = 4.0 / (sign * z) if limit is None else 0.0
        np.testing.assert_allclose(model.slopes(w), [slope], rtol=1e-15, atol=1e-200 if limit else 0)
        assert 0.0 <= model.curvatures(w)[0] < 1e-270


def test_sigmoid_of_huge_margins_is_0_or_1_without_slope():
    model, _ = of_scores(L.Sigmoid(), [1.0], 1.0)
    for z, value in ((1e300, 0.0), (-1e300, 1.0), (np.inf, 0.0), (-np.inf, 1.0)):
        assert model.losses([z])[0] == value
        assert model.slopes([z])[0] == 0.0
        assert model.curvatures([z])[0] == 0.0
    np.testing.assert_allclose(model.losses([700.0]), [np.exp(-700.0)], rtol=1e-13)
    np.testing.assert_allclose(model.slopes([-700.0]), [-np.exp(-700.0)], rtol=1e-13)


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_nan_scores_stay_nan(loss):
    model, _ = of_scores(loss, [1.0], label_for(loss))
    w = np.array([np.nan])
    assert np.isnan([model.losses(w)[0], model.slopes(w)[0], model.curvatures(w)[0]]).all()


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_slopes_are_derivatives_and_their_constant_is_the_stated_one(loss):
    y = label_for(loss)
    z = np.linspace(-6, 6, 24_001)
    model, w = of_scores(loss, z, y)
    value, slope = model.losses(w), model.slopes(w)
    numeric = (value[2:] - value[:-2]) / (z[2:] - z[:-2])
    np.testing.assert_allclose(slope[1:-1], numeric, rtol=0, atol=1e-6)
    steepest = np.abs(np.diff(slope) / np.diff(z)).max()
    constant = model.smoothness()[0] / z[0] ** 2
    assert steepest <= constant * (1 + 1e-9)
    assert steepest == pytest.approx(constant, rel=1e-4)  # attained


@pytest.mark.parametrize("loss", RESIDUAL, ids=repr)
def test_the_parabola_with_the_stated_curvature_lies_above_everywhere(loss):
    y, z, v = 0.3, np.linspace(-8, 8, 161)[:, None], np.linspace(-9, 9, 181)
    model, w = of_scores(loss, z, y)
    value, s, k = (a[:, None] for a in (model.losses(w), model.slopes(w), model.curvatures(w)))
    above = value + s * (v - z) + k * (v - z) ** 2 / 2
    assert np.all(of_scores(loss, v, y)[0].losses(w) <= above + 1e-12)


def test_the_curvature_of_sigmoid_is_at_least_that_of_the_loss():
    z = np.linspace(-8, 8, 8001)
    model, w = of_scores(L.Sigmoid(), z, 1.0)
    second = np.abs(np.diff(model.slopes(w)) / np.diff(z))
    k = model.curvatures(w)
    assert np.all(second <= np.maximum(k[1:], k[:-1]) + 1e-12)
    assert k.min() > 0


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_the_conjugate_is_finite_at_slope_0_alone(loss):
    model, _ = of_scores(loss, [1.0, 1.0, 1.0], label_for(loss))
    np.testing.assert_array_equal(model.conjugate([0.0, 1e-12, -1.0]), [0.0, np.inf, np.inf])


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_loss_objects_are_values_that_say_they_are_not_convex(loss):
    assert eval(repr(loss), vars(L)) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss == copy.deepcopy(loss)
    assert hash(copy.copy(loss)) == hash(loss)
    assert (loss.convex, loss.smooth, loss.smoothing_gap, loss.smoothed(0.1)) == (False, True, 0.0, loss)
    assert type(L.get_loss(loss.name)) is type(loss)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan, 1e-101])
def test_wrong_scales_are_named(scale):
    for kind in (L.Cauchy, L.GemanMcClure, L.Tukey):
        with pytest.raises(ValueError, match=r"scale must be in \[1e-100, 1e100\], got"):
            kind(scale)


def outliers(seed=0, n=400, d=4):
    """A regression in which every fifth label is wildly wrong, all to one side."""
    rng = np.random.default_rng(seed)
    X, truth = rng.standard_normal((n, d)), np.arange(1.0, d + 1)
    y = X @ truth + 0.1 * rng.standard_normal(n)
    y[::5] += 50.0
    return X, y, truth


@pytest.mark.parametrize("loss", [L.Cauchy(0.5), L.GemanMcClure(2.0), L.Tukey(5.0)], ids=repr)
def test_lbfgs_finds_the_plane_behind_gross_errors_and_certifies_nothing(loss):
    X, y, truth = outliers()
    start = np.append(np.linalg.lstsq(X, y - np.median(y), rcond=None)[0], np.median(y))
    result = lw.minimize(lw.LinearModel(X, y, loss, l2=1e-6), start, tol=1e-8)
    assert result.success
    assert result.gap is None
    assert not lw.Robust(lw.LinearModel(X, y, loss)).convex
    np.testing.assert_allclose(result.x, [*truth, 0.0], atol=0.05)
    assert np.abs(lw.minimize(lw.LinearModel(X, y, "squared", l2=1e-6)).x[-1]) > 5.0


@pytest.mark.parametrize("algorithm", [None, lw.SGD(lw.Minibatch(32)), lw.Nesterov(lw.Minibatch(400, replace=False))])
def test_sigmoid_fits_lower_its_objective_whatever_the_algorithm(algorithm):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 3))
    y = np.where(rng.random(400) < 0.2, -1, 1) * np.sign(X[:, 0] - X[:, 1])
    model = lw.LinearModel(X, y, "sigmoid", l2=1e-3)
    result = lw.minimize(lw.Robust(model, lw.Mean()), algorithm=algorithm, max_passes=60, tol=0)
    assert result.gap is None
    assert result.fun < 0.3 < model.losses(np.zeros(4)).mean()
    assert np.mean(np.sign(model.scores(result.x)) == y) > 0.75


def test_robust_risks_take_bounded_losses_without_a_certificate():
    X, y, _ = outliers()
    result = lw.minimize(lw.Robust(lw.LinearModel(X, y, L.Cauchy(0.5), l2=1e-3), lw.ChiSquare(penalty=1.0)), tol=1e-6)
    assert result.success
    assert result.gap is None


@pytest.mark.parametrize(
    "algorithm",
    [
        lw.SCSG(),
        lw.SCSG(batch=64, inner_batch=4),
        lw.SVRG(),
        lw.SARAH(),
        lw.STORM(),
        lw.SGD(lw.Minibatch(32), update=lw.Adam()),
    ],
    ids=repr,
)
@pytest.mark.parametrize("loss", [L.Sigmoid(), L.Cauchy(), L.GemanMcClure(5.0), L.Tukey(30.0)], ids=repr)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_finite_sum_methods_reach_the_objective_of_lbfgs_with_their_default_steps(algorithm, loss, kind):
    X, y, truth = outliers()
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.7, X, 0.0)
    wrong = np.arange(400) % 7 == 0
    y = (
        np.where((X @ truth > 0) ^ wrong, 1.0, -1.0)
        if loss.name == "sigmoid"
        else X @ truth + 50.0 * (np.arange(400) % 5 == 0)
    )
    model = lw.LinearModel(sparse.csr_array(X) if kind == "csr" else X, y, loss, l2=1e-3)
    reference = lw.minimize(model, algorithm=lw.LBFGS(), tol=1e-8).fun
    start = lw.Robust(model).value(np.zeros(5))
    result = lw.minimize(model, algorithm=algorithm, max_passes=100, tol=0)
    assert result.fun < reference + 0.05 * (start - reference)
    assert result.gap is None
