"""Attacks on linear models: the exact worst case where it is known, inside the ball and the bounds, and never below the clean loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge

import leeward as lw
from leeward import attacks
from leeward.sklearn import RobustClassifier, RobustRegressor


def binary(loss: str = "logistic", dtype: Any = np.float64) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6)).astype(dtype)
    w = rng.normal(size=7)
    y = (X @ w[:6] + rng.normal(size=50) > 0).astype(int)
    return lw.LinearModel(X, y, loss), w, X, y


def digits() -> tuple[RobustClassifier, Any, Any]:
    X, y = load_digits(return_X_y=True)
    X = X[:400] / 16.0
    return RobustClassifier("mean", l2=1e-2).fit(X, y[:400]), X, y[:400]


def losses_at(model: Any, w: Any, X: Any, y: Any) -> Any:
    return lw.LinearModel(X, y, model.loss, intercept=model.intercept).losses(w)


@pytest.mark.parametrize("attack", [attacks.fgsm, attacks.pgd, attacks.mim])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_two_classes_lose_the_l1_norm_of_the_coefficients(attack: Any, loss: str) -> None:
    model, w, X, y = binary(loss)
    moved = attack((model, w), X, y, 0.3)
    margin = (2 * y - 1) * (X @ w[:6] + w[6])
    worst = margin - 0.3 * np.abs(w[:6]).sum()
    # A row that is past the hinge has no gradient, and stays.
    expected = np.where((loss == "squared_hinge") & (margin >= 1), margin, worst)
    np.testing.assert_allclose((2 * y - 1) * (moved @ w[:6] + w[6]), expected, atol=1e-12)


def test_the_l2_walk_loses_the_l2_norm_of_the_coefficients() -> None:
    model, w, X, y = binary()
    moved = attacks.pgd((model, w), X, y, 0.3, norm="l2")
    margin = (2 * y - 1) * (X @ w[:6] + w[6]) - 0.3 * np.linalg.norm(w[:6])
    np.testing.assert_allclose((2 * y - 1) * (moved @ w[:6] + w[6]), margin, atol=1e-12)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("start", [False, True])
def test_a_longer_walk_raises_the_loss_of_many_classes_more(norm: str, start: bool) -> None:
    model, X, y = digits()
    clean = model.sample_losses(X, y)
    few = model.sample_losses(attacks.pgd(model, X, y, 0.1, norm=norm, steps=1), y)
    many = model.sample_losses(attacks.pgd(model, X, y, 0.1, norm=norm, steps=30, random_start=start, seed=1), y)
    assert np.all(few >= clean - 1e-12)
    assert many.mean() > few.mean() > clean.mean()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_stay_in_the_ball_and_the_bounds_and_keep_their_dtype(dtype: Any) -> None:
    model, X, y = digits()
    X = X.astype(dtype)
    for moved in (
        attacks.fgsm(model, X, y, 0.1, bounds=(0.0, 1.0)),
        attacks.pgd(model, X, y, 0.1, bounds=(0.0, 1.0), random_start=True),
        attacks.mim(model, X, y, 0.1, bounds=(0.0, 1.0)),
    ):
        assert moved.dtype == dtype
        assert moved.min() >= 0.0
        assert moved.max() <= 1.0
        assert np.abs(moved - X).max() <= 0.1 + 1e-7
        assert np.abs(moved - X).max() > 0.09
    far = attacks.pgd(model, X, y, 0.5, norm="l2", random_start=True)
    assert np.linalg.norm(far - X, axis=1).max() <= 0.5 + 1e-6


def test_accuracy_falls_and_the_same_seed_gives_the_same_rows() -> None:
    model, X, y = digits()
    first, again, other = (attacks.pgd(model, X, y, 0.1, random_start=True, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert model.score(first, y) < model.score(X, y) - 0.1


def test_zero_epsilon_moves_nothing() -> None:
    model, w, X, y = binary()
    for attack in (attacks.fgsm, attacks.pgd, attacks.mim):
        np.testing.assert_array_equal(attack((model, w), X, y, 0.0), X)


@pytest.mark.parametrize("labels", [[0, 1], ["a", "b"], [-3, 7]])
def test_estimators_take_their_own_labels_also_those_of_scikit_learn(labels: list[Any]) -> None:
    _, _, X, y = binary()
    named = np.array(labels)[y]
    for estimator in (LogisticRegression(), RobustClassifier(), RobustClassifier(loss="squared")):
        fitted = estimator.fit(X, named)
        moved = attacks.fgsm(fitted, X, named, 0.5)
        worst = fitted.decision_function(X) - (2 * y - 1) * 0.5 * np.abs(fitted.coef_).sum()
        slope = np.sign(2 * y - 1 - fitted.decision_function(X)) * (2 * y - 1)
        if isinstance(estimator, RobustClassifier) and estimator.loss == "squared":
            worst = fitted.decision_function(X) - (2 * y - 1) * slope * 0.5 * np.abs(fitted.coef_).sum()
        np.testing.assert_allclose(fitted.decision_function(moved), worst, atol=1e-10)


def test_a_part_of_the_classes_can_be_attacked() -> None:
    model, X, y = digits()
    few = y == 3
    np.testing.assert_array_equal(attacks.fgsm(model, X[few], y[few], 0.1), attacks.fgsm(model, X, y, 0.1)[few])


@pytest.mark.parametrize("estimator", [Ridge(), RobustRegressor()])
def test_regressors_are_moved_away_from_their_targets(estimator: Any) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=40)
    fitted = estimator.fit(X, y)
    residual = fitted.predict(X) - y
    moved = attacks.fgsm(fitted, X, y, 0.2)
    expected = np.abs(residual) + 0.2 * np.abs(fitted.coef_).sum()
    np.testing.assert_allclose(np.abs(fitted.predict(moved) - y), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"epsilon": -1.0}, ValueError, "epsilon must be finite and at least 0, got -1"),
        ({"epsilon": np.nan}, ValueError, "epsilon must be finite"),
        ({"X": np.zeros(6)}, ValueError, r"X must have shape \(n, d\), got \(6,\)"),
        ({"X": np.zeros((50, 5))}, ValueError, "the model has 6 features, X has 5"),
        ({"bounds": (0.0, 1.0)}, ValueError, "rows of X lie outside bounds"),
        ({"model": 3}, TypeError, "model must be a fitted linear estimator or a pair"),
        ({"y": np.full(50, 7)}, ValueError, "label"),
    ],
)
def test_wrong_arguments_are_named(change: dict[str, Any], kind: type[Exception], words: str) -> None:
    model, w, X, y = binary()
    given = {"model": (model, w), "X": X, "y": y, "epsilon": 0.1, "bounds": None} | change
    with pytest.raises(kind, match=words):
        attacks.fgsm(given["model"], given["X"], given["y"], given["epsilon"], bounds=given["bounds"])


def test_wrong_settings_are_named() -> None:
    from scipy.sparse import csr_array

    model, w, X, y = binary()
    target = (model, w)
    with pytest.raises(ValueError, match="norm must be 'linf' or 'l2', got 'l1'"):
        attacks.pgd(target, X, y, 0.1, norm="l1")
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got 0"):
        attacks.pgd(target, X, y, 0.1, steps=0)
    with pytest.raises(ValueError, match="step must be positive and finite"):
        attacks.mim(target, X, y, 0.1, step=0.0)
    with pytest.raises(ValueError, match="momentum must be finite and at least 0"):
        attacks.mim(target, X, y, 0.1, momentum=-1.0)
    with pytest.raises(TypeError, match="random_start must be True or False"):
        attacks.pgd(target, X, y, 0.1, random_start=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="X must be dense"):
        attacks.fgsm(target, csr_array(X), y, 0.1)
    with pytest.raises(ValueError, match=r"w must have shape \(7,\), got shape \(6,\)"):
        attacks.fgsm((model, w[:6]), X, y, 0.1)
    fitted = RobustClassifier().fit(X, y)
    with pytest.raises(ValueError, match="y holds 5, which is no class"):
        attacks.fgsm(fitted, X, np.full(50, 5), 0.1)
