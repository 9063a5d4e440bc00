"""`partial_fit`: near the optimum of all data after a pass or two without anything tuned, and sound at its edges."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import scipy.sparse as sp
from sklearn.base import clone

import leeward as lw
from leeward.sklearn import RobustClassifier, RobustClassifierCV, RobustRegressor

N, D, BATCH = 6000, 8, 200
RNG = np.random.default_rng(0)
PLAIN = RNG.normal(size=(N, D))
W = RNG.normal(size=D)
LABELS = np.where(2 * PLAIN @ W + RNG.logistic(size=N) > 0, "yes", "no")
VALUES = PLAIN @ W + RNG.standard_t(4, size=N)
# The same information in columns that are far from 0, correlated, and of very different scales.
SCALE = np.logspace(-2, 3, D)
AWKWARD = (PLAIN @ (np.eye(D) + 0.8 * RNG.normal(size=(D, D)) / np.sqrt(D)) + 5.0) * SCALE


def streamed(model: Any, X: Any, y: Any, passes: int = 1, **first: Any) -> Any:
    rng = np.random.default_rng(1)
    for _ in range(passes):
        order = rng.permutation(X.shape[0])
        for k in range(0, X.shape[0], BATCH):
            rows = order[k : k + BATCH]
            model.partial_fit(X[rows], y[rows], **first)
    return model


def excess(model: Any, best: Any, X: Any, y: Any) -> float:
    """Part of the way from the fit on all data back to the constant model at 0."""
    reached, optimum = (
        -m.robust_score(X, y, risk=best.risk_) + 0.5 * best.l2 * float(np.sum(m.coef_**2)) for m in (model, best)
    )
    nothing = clone(best)
    nothing.__dict__ |= vars(best) | {"coef_": 0 * best.coef_, "intercept_": 0 * best.intercept_}
    start = -nothing.robust_score(X, y, risk=best.risk_)
    return float((reached - optimum) / (start - optimum))


@pytest.mark.parametrize("data", ["plain", "awkward"])
@pytest.mark.parametrize(
    "risk", [lw.Mean(), lw.CVaR(0.5), lw.ChiSquare(radius=0.1), lw.ChiSquare(penalty=5.0)], ids=repr
)
def test_a_pass_in_batches_comes_near_the_fit_on_all_data(risk: lw.Risk, data: str) -> None:
    X = PLAIN if data == "plain" else AWKWARD
    settings: dict[str, Any] = {"l2": 1e-8 if data == "awkward" else 1e-3}
    for model, y, first in (
        (RobustRegressor(risk, **settings), VALUES, {}),
        (RobustClassifier(risk, **settings), LABELS, {"classes": ["no", "yes"]}),
    ):
        best = clone(model).fit(X, y)
        assert -1e-6 < excess(streamed(model, X, y, **first), best, X, y) < 0.01
        assert excess(streamed(model, X, y, passes=3), best, X, y) < 0.002


@pytest.mark.parametrize("loss", ["huber", "absolute", "quantile"])
def test_every_convex_loss_of_regression_is_learnt(loss: str) -> None:
    best = RobustRegressor("mean", loss, l2=1e-3).fit(PLAIN, VALUES)
    assert excess(streamed(RobustRegressor("mean", loss, l2=1e-3), PLAIN, VALUES, 2), best, PLAIN, VALUES) < 0.005


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "squared"])
def test_every_margin_loss_is_learnt(loss: str) -> None:
    best = RobustClassifier("mean", loss, l2=1e-3).fit(PLAIN, LABELS)
    model = streamed(RobustClassifier("mean", loss, l2=1e-3), PLAIN, LABELS, 3, classes=["no", "yes"])
    assert excess(model, best, PLAIN, LABELS) < 0.005


@pytest.mark.parametrize(
    "domain", [lw.Box(0.0, 1.0), lw.L1(0.1), lw.ElasticNet(0.05, 0.1), lw.L2Ball(0.8), lw.Simplex(1.0)], ids=repr
)
def test_domains_and_prox_terms_hold(domain: lw.Domain) -> None:
    best = RobustRegressor("mean", l2=1e-3, domain=domain).fit(PLAIN, VALUES)
    model = streamed(RobustRegressor("mean", l2=1e-3, domain=domain), PLAIN, VALUES, 3)
    np.testing.assert_allclose(
        domain.project(model.coef_) if domain.feasible_set else model.coef_, model.coef_, atol=1e-9
    )
    np.testing.assert_allclose(model.coef_, best.coef_, atol=0.08)


def test_sparse_batches_and_many_features_use_the_same_rule() -> None:
    few = streamed(RobustRegressor("mean"), PLAIN, VALUES)
    same = streamed(RobustRegressor("mean"), sp.csr_array(PLAIN), VALUES)
    np.testing.assert_allclose(same.coef_, few.coef_, rtol=1e-6)
    wide = sp.hstack([sp.csr_array(PLAIN), sp.csr_array((N, 500))], format="csr")
    best = RobustRegressor("mean").fit(wide, VALUES)
    assert excess(streamed(RobustRegressor("mean"), wide, VALUES), best, wide, VALUES) < 0.005


def test_three_classes_of_which_batches_may_lack_some() -> None:
    y = np.digitize(PLAIN @ W, [-1.0, 1.0])
    model = RobustClassifier("mean", l2=1e-3).partial_fit(PLAIN[y < 2][:100], y[y < 2][:100], classes=[0, 1, 2])
    best = RobustClassifier("mean", l2=1e-3).fit(PLAIN, y)
    assert model.coef_.shape == (3, D)
    assert excess(streamed(model, PLAIN, y, 2), best, PLAIN, y) < 0.005
    assert model.score(PLAIN, y) > 0.9
    assert np.isfinite(model.robust_score(PLAIN[y == 0], y[y == 0]))


def test_a_fit_counts_as_the_rows_it_has_seen() -> None:
    model = RobustRegressor("mean", l2=1e-3).fit(PLAIN, VALUES)
    fitted = model.coef_.copy()
    model.partial_fit(PLAIN[:50], VALUES[:50] + 100.0)  # a batch from elsewhere moves a fit on 6000 rows little
    assert model.n_samples_seen_ == N + 50
    assert 0 < np.abs(model.coef_ - fitted).max() < 1.0
    assert not any(hasattr(model, stale) for stale in ("result_", "objective_", "gap_", "n_iter_"))
    assert model.fit(PLAIN, VALUES).coef_.tobytes() == fitted.tobytes()  # and fit begins anew
    assert model.n_samples_seen_ == N


def test_a_batch_that_comes_again_and_again_is_solved() -> None:
    model = RobustClassifier(lw.KL(penalty=1.0), l2=0.1)
    for _ in range(300):
        model.partial_fit(PLAIN[:100], LABELS[:100], classes=["no", "yes"])
    best = RobustClassifier(lw.KL(penalty=1.0), l2=0.1).fit(PLAIN[:100], LABELS[:100])
    np.testing.assert_allclose(model.coef_, best.coef_, rtol=1e-3, atol=1e-4)


def test_weights_are_the_same_as_repeated_rows() -> None:
    weight = RNG.integers(0, 4, N).astype(float)
    one = RobustRegressor("chi_square").partial_fit(PLAIN[:300], VALUES[:300], sample_weight=weight[:300])
    rows = np.repeat(np.arange(300), weight[:300].astype(int))
    other = RobustRegressor("chi_square").partial_fit(PLAIN[rows], VALUES[rows])
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-4, atol=1e-6)


def test_class_weights_are_taken_from_a_dict_and_balanced_is_refused() -> None:
    heavy = {"no": 1.0, "yes": 5.0}
    first: dict[str, Any] = {"classes": ["no", "yes"]}
    one = RobustClassifier("mean", class_weight=heavy).partial_fit(PLAIN[:300], LABELS[:300], **first)
    other = RobustClassifier("mean").partial_fit(
        PLAIN[:300], LABELS[:300], sample_weight=[heavy[label] for label in LABELS[:300]], **first
    )
    assert one.coef_.tobytes() == other.coef_.tobytes()
    with pytest.raises(ValueError, match="dict of label to weight"):
        RobustClassifier(class_weight="balanced").partial_fit(PLAIN[:9], LABELS[:9], **first)


def test_a_stream_goes_on_after_a_pickle_with_the_same_bits_for_any_number_of_threads() -> None:
    models = [RobustRegressor(n_jobs=jobs).partial_fit(PLAIN[:500], VALUES[:500]) for jobs in (1, 2)]
    models.append(pickle.loads(pickle.dumps(models[0])))
    coefs = {m.partial_fit(PLAIN[500:900], VALUES[500:900]).coef_.tobytes() for m in models}
    assert len(coefs) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.partial_fit(PLAIN[:5], LABELS[:5]), "classes must be passed on the first call"),
        (lambda m: m.partial_fit(PLAIN[:5], LABELS[:5], classes=["no"]), r"at least two labels, got \['no'\]"),
        (
            lambda m: m.partial_fit(PLAIN[:5], np.repeat("maybe", 5), classes=["no", "yes"]),
            "got .*maybe.* at position 0",
        ),
        (lambda m: m.partial_fit(PLAIN[:5], LABELS[:4], classes=["no", "yes"]), "inconsistent"),
        (lambda m: m.partial_fit(PLAIN[:5] * np.nan, LABELS[:5], classes=["no", "yes"]), "NaN"),
        (lambda m: m.partial_fit(PLAIN[:5], LABELS[:5], ["no", "yes"], np.zeros(5)), "must have a positive entry"),
        (lambda m: begun(m).partial_fit(PLAIN[:5], LABELS[:5], classes=["a", "b"]), "not the same as on last call"),
        (lambda m: begun(m).partial_fit(PLAIN[:5, 1:], LABELS[:5]), "7 features.*expecting 8"),
        (lambda m: begun(m).set_params(fit_intercept=False).partial_fit(PLAIN[:5], LABELS[:5]), "fit_intercept"),
        (lambda m: m.set_params(domain=3).partial_fit(PLAIN[:5], LABELS[:5], classes=["no", "yes"]), "domain must be"),
    ],
)
def test_what_makes_no_sense_is_named(call: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        call(RobustClassifier())


def begun(model: Any) -> Any:
    return model.partial_fit(PLAIN[:100], LABELS[:100], classes=["no", "yes"])


def test_an_error_in_the_first_call_leaves_the_estimator_as_it_was() -> None:
    model = RobustClassifier()
    with pytest.raises(ValueError, match="at least two"):
        model.partial_fit(PLAIN[:5], LABELS[:5], classes=["no"])
    assert begun(model).coef_.shape == (1, D)


def test_single_rows_huge_values_and_constant_columns_do_no_harm() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RobustRegressor("chi_square")
        for k in range(30):
            model.partial_fit(PLAIN[k : k + 1], VALUES[k : k + 1])
        assert np.isfinite(model.coef_).all()
        X = np.column_stack([PLAIN * 1e8, np.ones(N), np.zeros(N)])
        model = streamed(RobustRegressor("mean", l2=0.0), X, VALUES)
    best = np.linalg.lstsq(np.column_stack([PLAIN, np.ones(N)]), VALUES)[0]
    np.testing.assert_allclose(model.coef_[:D] * 1e8, best[:D], atol=0.05)
    assert model.coef_[-1] == 0.0


def test_the_searches_have_no_partial_fit() -> None:
    with pytest.raises(AttributeError) as error:
        _ = RobustClassifierCV().partial_fit
    assert "chooses by cross-validation" in str(error.value.__cause__)
