"""Tilted estimators: the problem that they solve, groups, wrong labels and gross errors, weights, units, refusals."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import leeward as lw
from leeward.sklearn import ConvergenceWarning, RobustClassifier, TiltedClassifier, TiltedRegressor

RNG = np.random.default_rng(8)
N, D = 240, 3
X = RNG.normal(size=(N, D))
SCORE = X @ [1.0, -1.5, 0.5]
CLEAN = SCORE > 1.0
WRONG = RNG.random(N) < 0.1
LABELS = np.where(CLEAN ^ WRONG, "yes", "no")
REAL = 3.0 + 20.0 * SCORE + RNG.normal(size=N)
GROUPS = np.array(["a", "b", "c"])[RNG.integers(0, 3, size=N)]
P = RNG.uniform(0.1, 1.0, size=N)


def test_the_classifier_solves_its_problem_with_the_classes_as_groups() -> None:
    model = TiltedClassifier(l2=0.01).fit(X, LABELS, sample_weight=P)
    oracle = lw.LinearModel(X, LABELS == "yes", l2=0.01, sample_weight=P)
    problem = lw.HierarchicalTilt(oracle, LABELS == "yes", 10.0, -2.0)
    result = lw.minimize(problem, lw.minimize(oracle).x, tol=1e-10)
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), result.x, atol=1e-6)
    assert model.objective_ == pytest.approx(result.fun, abs=1e-12)
    ridge = 0.005 * float((model.coef_**2).sum())
    assert -model.robust_score(X, LABELS, sample_weight=P) + ridge == pytest.approx(model.objective_, abs=1e-12)
    np.testing.assert_allclose(model.sample_weights(X, LABELS, P), problem.sample_weights(result.x), atol=1e-6)
    assert model.gap_ is None
    assert model.result_.success


def test_given_groups_take_the_place_of_the_classes() -> None:
    model = TiltedClassifier(t=3.0, tau=-1.0, l2=0.01).fit(X, LABELS, groups=GROUPS)
    problem = lw.HierarchicalTilt(
        lw.LinearModel(X, LABELS == "yes", l2=0.01), np.unique(GROUPS, return_inverse=True)[1], 3.0, -1.0
    )
    assert problem.value(np.append(model.coef_, model.intercept_)) == pytest.approx(model.objective_, abs=1e-12)
    assert np.abs(problem.evaluate(np.append(model.coef_, model.intercept_)).gradient).max() < 1e-8
    assert -model.robust_score(X, LABELS, groups=GROUPS) < model.objective_
    assert abs(-model.robust_score(X, LABELS) - model.objective_) > 1e-4


def test_without_tilts_it_is_the_plain_fit() -> None:
    model = TiltedClassifier(t=0.0, tau=0.0, l2=0.01).fit(X, LABELS)
    plain = RobustClassifier("mean", l2=0.01).fit(X, LABELS)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-7)


def test_wrong_labels_count_little_and_the_rare_class_is_found() -> None:
    model, plain = TiltedClassifier().fit(X, LABELS), RobustClassifier("mean").fit(X, LABELS)
    assert model.sample_weights(X, LABELS)[WRONG].sum() < 0.3 * WRONG.mean()
    rare = LABELS[CLEAN], np.full(CLEAN.sum(), "yes")
    assert (model.predict(X[CLEAN]) == rare[1]).mean() > (plain.predict(X[CLEAN]) == rare[1]).mean()
    assert model.score(X, np.where(CLEAN, "yes", "no")) >= plain.score(X, np.where(CLEAN, "yes", "no"))


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_the_regression_passes_gross_errors_by(loss: str) -> None:
    y = REAL.copy()
    y[:24] += 500.0
    model = TiltedRegressor(tau=-30.0, loss=loss).fit(X, y)
    np.testing.assert_allclose(model.coef_, [20.0, -30.0, 10.0], atol=0.5)
    assert model.sample_weights(X, y)[:24].sum() < 1e-3


def test_units_of_y_play_no_part() -> None:
    one = TiltedRegressor(t=2.0).fit(X, REAL, groups=GROUPS)
    other = TiltedRegressor(t=2.0).fit(X, 1e3 * REAL, groups=GROUPS)
    np.testing.assert_allclose(other.coef_, 1e3 * one.coef_, rtol=1e-6)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-9)
    assert one.target_scale_ == pytest.approx(REAL.std())
    plain = TiltedRegressor(t=2.0, tau=-1.0 / REAL.var(), scale=None, l2=0.0).fit(X, REAL)
    scaled = TiltedRegressor(t=2.0, tau=-1.0, l2=0.0).fit(X, REAL)
    np.testing.assert_allclose(plain.coef_, scaled.coef_, rtol=1e-5)
    problem = lw.HierarchicalTilt(lw.LinearModel(X, REAL / REAL.std(), "squared"), np.zeros(N, int), 2.0, -1.0)
    assert -scaled.robust_score(X, REAL) == pytest.approx(
        problem.value(np.append(scaled.coef_, scaled.intercept_) / REAL.std())
    )


def test_convex_tilts_without_an_intercept_are_certified() -> None:
    model = TiltedRegressor(tau=1.0, l2=0.1, fit_intercept=False).fit(X, REAL, groups=GROUPS)
    assert model.gap_ is not None
    assert 0 <= model.gap_ <= 1e-6 * model.objective_


def test_three_classes_warm_starts_copies_and_searches() -> None:
    three = np.digitize(SCORE, [-1.0, 1.0])
    model = TiltedClassifier(l2=0.01, warm_start=True).fit(X, three)
    assert model.score(X, three) > 0.9
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    first = model.coef_.copy()
    assert model.fit(X, three).n_iter_ <= 3
    np.testing.assert_allclose(model.coef_, first, atol=1e-5)
    search = GridSearchCV(clone(model), {"tau": [-2.0, 0.0]}, cv=2).fit(X, three)
    assert search.best_params_["tau"] in (-2.0, 0.0)
    regression = TiltedRegressor(warm_start=True).fit(X, REAL)
    assert regression.fit(X, REAL).n_iter_ <= 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TiltedClassifier(t=np.nan).fit(X, LABELS), "t must be finite, got nan"),
        (lambda: TiltedClassifier(tau="x").fit(X, LABELS), "tau must be a number, got 'x'"),
        (lambda: TiltedClassifier(loss="hinge").fit(X, LABELS), "loss='hinge' is not supported by TiltedClassifier"),
        (lambda: TiltedClassifier().fit(X, LABELS, groups=GROUPS[:5]), "groups must be 1D with 240 labels"),
        (lambda: TiltedRegressor(scale="unit").fit(X, REAL), "scale must be 'standard' or None, got 'unit'"),
        (lambda: TiltedRegressor(warm_start=2).fit(X, REAL), "warm_start must be True or False, got 2"),
        (lambda: TiltedRegressor(l2=-1.0).fit(X, REAL), "l2 must be finite and >= 0"),
    ],
)
def test_refusals_name_what_is_wrong(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_a_fit_that_ends_early_says_so() -> None:
    with pytest.warns(ConvergenceWarning):
        TiltedClassifier(max_passes=1.0, tol=1e-9).fit(X, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TiltedClassifier().fit(X, LABELS)
