"""Losses: known answers, large margins, conjugates, smoothing, and what the objects say of themselves."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import leeward as lw

L = lw.losses
SCALAR = [
    L.Squared(),
    L.Huber(0.7),
    L.Absolute(),
    L.Quantile(0.2),
    L.Logistic(),
    L.Hinge(),
    L.SquaredHinge(),
    L.Poisson(),
]
KINKED = [L.Absolute(), L.Quantile(0.2), L.Quantile(0.9), L.Hinge()]


def of_scores(loss, z, y):
    """A model whose score of sample i is z_i at w = 1."""
    return lw.LinearModel(np.reshape(z, (-1, 1)), y, loss, intercept=False), np.ones(1)


def label_for(loss):
    return {"poisson": 2.0, "logistic": -1.0, "hinge": -1.0, "squared_hinge": 1.0}.get(loss.name, 0.3)


@pytest.mark.parametrize(
    ("loss", "z", "y", "value", "slope", "curvature"),
    [
        (L.Squared(), 3.0, 1.0, 2.0, 2.0, 1.0),
        (L.Huber(0.5), 3.0, 1.0, 0.875, 0.5, 0.25),
        (L.Huber(0.5), 1.25, 1.0, 0.03125, 0.25, 1.0),
        (L.Absolute(), 3.0, 1.0, 2.0, 1.0, 0.0),
        (L.Absolute(), 1.0, 1.0, 0.0, 0.0, 0.0),
        (L.Absolute(smoothing=0.5), 3.0, 1.0, 1.75, 1.0, 0.5),
        (L.Quantile(0.2), 3.0, 1.0, 1.6, 0.8, 0.0),
        (L.Quantile(0.2), 0.0, 1.0, 0.2, -0.2, 0.0),
        (L.Logistic(), 0.0, 1.0, np.log(2), -0.5, 0.25),
        (L.Hinge(), 0.25, 1.0, 0.75, -1.0, 0.0),
        (L.Hinge(), -2.0, -1.0, 0.0, 0.0, 0.0),
        (L.Hinge(smoothing=1.0), 0.5, 1.0, 0.125, -0.5, 1.0),
        (L.SquaredHinge(), -1.0, 1.0, 2.0, -2.0, 1.0),
        (L.Poisson(), 0.0, 3.0, 1.0, -2.0, 1.0),
    ],
)
def test_known_answers(loss, z, y, value, slope, curvature):
    model, w = of_scores(loss, [z], [y])
    np.testing.assert_allclose(
        [model.losses(w)[0], model.slopes(w)[0], model.curvatures(w)[0]], [value, slope, curvature], rtol=1e-15
    )


def test_softmax_known_answers():
    model = lw.LinearModel([[1.0]], [1], L.Softmax(3), intercept=False)
    w = np.log([1.0, 2.0, 5.0])
    np.testing.assert_allclose(model.losses(w), [np.log(4)], rtol=1e-15)
    np.testing.assert_allclose(model.slopes(w), [[0.125, -0.75, 0.625]], rtol=1e-15)
    np.testing.assert_allclose(model.curvatures(w), [[0.109375, 0.1875, 0.234375]], rtol=1e-14)


def test_logistic_keeps_its_digits_at_large_margins():
    # Case BL-28. The third margin's loss is the series e^-40 - ..., the last is below the smallest double.
    margins = np.array([-800.0, -40.0, 40.0, 800.0])
    model, w = of_scores("logistic", margins, np.ones(4))
    np.testing.assert_allclose(model.losses(w), [800.0, 40.0, 4.2483542552916e-18, 0.0], rtol=1e-13)
    np.testing.assert_allclose(model.slopes(w), [-1.0, -1.0, -4.2483542552916e-18, 0.0], rtol=1e-13)
    assert np.isfinite(lw.KL(radius=1.0)(model.losses(w)))
    assert np.isfinite(lw.Tilted(1.0)(model.losses(w)))


def test_softmax_keeps_its_digits_at_large_margins():
    model = lw.LinearModel([[1.0]], [0], L.Softmax(3), intercept=False)
    np.testing.assert_allclose(model.losses([40.0, 0.0, 0.0]), [2 * 4.2483542552916e-18], rtol=1e-13)
    np.testing.assert_allclose(model.slopes([40.0, 0.0, 0.0])[0, 0], -2 * 4.2483542552916e-18, rtol=1e-13)
    np.testing.assert_allclose(model.losses([-800.0, 0.0, -900.0]), [800.0], rtol=1e-15)
    np.testing.assert_allclose(model.losses([1e150, 1e150, -1e150]), [np.log(2)], rtol=1e-15)


@pytest.mark.parametrize("loss", [*SCALAR, *(kinked.smoothed(0.3) for kinked in KINKED)], ids=repr)
def test_conjugate_is_the_supremum_of_the_lines(loss):
    # sup_z s z - l(z) over a fine grid, for slopes s inside the domain; the grid's spacing bounds the difference.
    z = np.linspace(-30, 30, 600_001)
    model, w = of_scores(loss, z, np.full(z.size, label_for(loss)))
    value, reached = model.losses(w), model.slopes(w)[200_000:400_001:20_000]
    for s in reached:
        expected = np.max(s * z - value)
        conjugate = model.conjugate(np.full(z.size, s))[0]
        assert conjugate == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("loss", "y", "outside", "border"),
    [
        (L.Huber(0.7), 0.0, 0.71, 0.7),
        (L.Absolute(), 0.0, -1.01, -1.0),
        (L.Quantile(0.2), 0.0, 0.81, 0.8),
        (L.Logistic(), 1.0, 0.01, 0.0),
        (L.Logistic(), -1.0, 1.01, 1.0),
        (L.Hinge(), 1.0, -1.01, -1.0),
        (L.SquaredHinge(), -1.0, -0.01, 0.0),
        (L.Poisson(), 2.0, -2.01, -2.0),
    ],
    ids=repr,
)
def test_conjugate_is_infinite_outside_its_domain_and_forgives_rounding(loss, y, outside, border):
    model, _ = of_scores(loss, [0.0], [y])
    assert model.conjugate([outside])[0] == np.inf
    beyond = border + np.sign(outside - border) * 5e-13
    assert model.conjugate([beyond])[0] == pytest.approx(model.conjugate([border])[0], abs=1e-10)


def test_softmax_conjugate_is_infinite_off_the_simplex():
    model = lw.LinearModel([[1.0]], [0], L.Softmax(3), intercept=False)
    assert model.conjugate([[-0.5, 0.25, 0.25]])[0] == pytest.approx(-1.5 * np.log(2))
    assert model.conjugate([[0.0, 0.0, 0.0]])[0] == 0.0
    assert model.conjugate([[-0.5, 0.25, 0.2]])[0] == np.inf
    assert model.conjugate([[-0.5, 0.75, -0.25]])[0] == np.inf


@pytest.mark.parametrize("loss", KINKED, ids=repr)
@pytest.mark.parametrize("mu", [1e-6, 0.1, 3.0])
def test_smoothing_lies_below_by_at_most_its_gap(loss, mu):
    z = np.linspace(-5, 5, 10_001)
    model, w = of_scores(loss, z, np.full(z.size, label_for(loss)))
    smooth = model.smoothed(mu)
    assert smooth.smooth
    assert not model.smooth
    difference = model.losses(w) - smooth.losses(w)
    assert difference.min() >= -1e-15
    assert difference.max() <= mu * loss.smoothing_gap + 1e-15
    if mu < 1:  # the bound is reached where the loss is steepest
        assert difference.max() == pytest.approx(mu * loss.smoothing_gap, rel=1e-9)
    # Slopes have Lipschitz constant 1/mu, which is what smoothness() reports for x = 1.
    assert smooth.smoothness()[1] == pytest.approx(z[1] ** 2 / mu)
    assert np.abs(np.diff(smooth.slopes(w))).max() <= (z[1] - z[0]) / mu + 1e-12


def test_smoothing_twice_adds_the_parameters_and_smooth_losses_stay():
    assert L.Hinge().smoothed(0.25).smoothed(0.5) == L.Hinge(smoothing=0.75)
    assert L.Logistic().smoothed(0.25) == L.Logistic()
    model, _ = of_scores("squared", [0.0], [1.0])
    assert model.smoothed(0.1) is model


@pytest.mark.parametrize("loss", [loss for loss in SCALAR if loss.smooth], ids=repr)
def test_curvatures_are_second_derivatives(loss):
    # Central differences of the slopes, away from kinks of the slope; Huber's parabola stands in where it is linear.
    z = np.linspace(-0.55, 0.55, 12)
    y = np.full(z.size, label_for(loss))
    model, w = of_scores(loss, z, y)
    h = 1e-6
    numeric = (of_scores(loss, z + h, y)[0].slopes(w) - of_scores(loss, z - h, y)[0].slopes(w)) / (2 * h)
    curved = numeric > 1e-6
    np.testing.assert_allclose(model.curvatures(w)[curved], numeric[curved], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("loss", [L.Huber(0.7), *(kinked.smoothed(0.3) for kinked in KINKED)], ids=repr)
def test_curvatures_of_clipped_losses_majorise(loss):
    # l(v) <= l(z) + s (v - z) + k (v - z)^2 / 2 from z to where the residual is 0.
    y = label_for(loss)
    margin = loss.name == "hinge"
    z = np.linspace(-4, 4, 81)
    model, w = of_scores(loss, z, np.full(z.size, y))
    value, s, k = model.losses(w), model.slopes(w), model.curvatures(w)
    u = 1 - y * z if margin else z - y
    for share in np.linspace(0, 1, 11):
        v = y * (1 - share * u) if margin else y + share * u
        below = of_scores(loss, v, np.full(z.size, y))[0].losses(w)
        assert np.all(below <= value + s * (v - z) + k * (v - z) ** 2 / 2 + 1e-12)


@pytest.mark.parametrize("loss", [*SCALAR, L.Softmax(), L.Softmax(4), L.Hinge(smoothing=0.5)], ids=repr)
def test_loss_objects_are_values(loss):
    assert eval(repr(loss), vars(L)) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert copy.deepcopy(loss) == loss
    assert hash(copy.copy(loss)) == hash(loss)
    assert loss.convex
    with pytest.raises(AttributeError):
        loss.name = "other"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: L.Huber(0.0), "delta must be positive and finite, got 0.0"),
        (lambda: L.Huber(np.nan), "delta must be positive and finite, got nan"),
        (lambda: L.Quantile(1.0), r"tau must be in \(0, 1\), got 1.0"),
        (lambda: L.Softmax(1), "classes must be an integer of at least 2, got 1"),
        (lambda: L.Hinge(smoothing=-1.0), "smoothing must be finite and not negative, got -1.0"),
        (lambda: L.Hinge().smoothed(0.0), "mu must be positive and finite, got 0.0"),
        (lambda: L.get_loss("log"), "loss must be one of absolute, .* or a loss object, got 'log'"),
    ],
)
def test_wrong_parameters_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_smoothness_constants_bound_the_gradients_of_each_sample():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 3)) * 2
    for loss, constant in (
        (L.Squared(), 1.0),
        (L.Logistic(), 0.25),
        (L.Softmax(3), 0.5),
        (L.Hinge(smoothing=0.2), 5.0),
    ):
        y = rng.integers(0, 2, 6)
        for intercept in (True, False):
            model = lw.LinearModel(X, y, loss, intercept=intercept)
            bound = model.smoothness()
            np.testing.assert_allclose(bound, constant * ((X**2).sum(1) + intercept), rtol=1e-14)
            a, b = rng.standard_normal((2, model.dim))
            for i in range(6):
                difference = model.gradient(a, [1.0], [i]) - model.gradient(b, [1.0], [i])
                assert np.linalg.norm(difference) <= bound[i] * np.linalg.norm(a - b) * (1 + 1e-12)
    assert np.all(lw.LinearModel(X, y, "hinge").smoothness() == np.inf)
    assert np.all(lw.LinearModel(X, y, "poisson").smoothness() == np.inf)


@pytest.mark.parametrize("classes", [2, 3, 64, 65, 200])
def test_softmax_of_few_and_many_classes_agrees_with_scipy(classes):
    # Classes are counted in lanes up to 64 and row by row beyond; 37 samples fill no group.
    from scipy.special import log_softmax, softmax

    rng = np.random.default_rng(classes)
    X, y = rng.standard_normal((37, 2)), rng.integers(0, classes, 37)
    model = lw.LinearModel(X, y, L.Softmax(classes))
    w = 3 * rng.standard_normal(model.dim)
    z, hot = model.scores(w), np.eye(classes)[y]
    p = softmax(z, axis=1)
    np.testing.assert_allclose(model.losses(w), -(log_softmax(z, axis=1) * hot).sum(1), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(model.slopes(w), p - hot, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(model.curvatures(w), p * (1 - p), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(model.conjugate(model.slopes(w)), (p * np.log(p)).sum(1), rtol=1e-11, atol=1e-13)
