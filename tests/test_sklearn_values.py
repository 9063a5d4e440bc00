"""Fits with known answers: row weights, scale of weights, unscaled columns, every matrix format, ends of the double range."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import scipy.sparse as sp
from numpy.typing import NDArray

import leeward as lw
from leeward.sklearn import ConvergenceWarning, RobustClassifier, RobustRegressor

# Four rows of logistic data with their counts, and the exact minimiser of the weighted mean loss + (0.01/2) beta^2.
X4 = np.array([[0.0], [1.0], [2.0], [3.0]])
Y4 = np.array([-1, 1, -1, 1])
COUNTS = np.array([40, 3, 2, 55])
BETA, INTERCEPT, OBJECTIVE = 2.33023085700318, -3.16177745364801, 0.125362298622951

# Six sparse rows, squared loss / 2, l2 = 0.1: the normal equations in fractions.
X6 = np.array([[1, 0, 0], [0, 2, 0], [0, 0, 3], [1, 0, 1], [0, 1, 0], [2, 0, 0]], dtype=float)
Y6 = np.array([11, 13, 8, 10.5, 12, 12])
W6 = np.array([13465 / 41812, 17735 / 20906, -40055 / 41812])
B6 = 115852 / 10453


def plain(**parameters: Any) -> RobustClassifier:
    return RobustClassifier("mean", **{"l2": 0.01, "tol": 1e-12, **parameters})


def ridge(**parameters: Any) -> RobustRegressor:
    return RobustRegressor("mean", **{"l2": 0.1, "tol": 1e-13, **parameters})


def assert_is_the_weighted_fit(model: RobustClassifier) -> None:
    np.testing.assert_allclose(model.coef_, [[BETA]], rtol=1e-6)
    np.testing.assert_allclose(model.intercept_, [INTERCEPT], rtol=1e-6)
    np.testing.assert_allclose(model.objective_, OBJECTIVE, rtol=1e-11)


def test_row_weights_are_the_same_as_repeated_rows() -> None:
    assert_is_the_weighted_fit(plain().fit(X4, Y4, sample_weight=COUNTS))
    assert_is_the_weighted_fit(plain().fit(np.repeat(X4, COUNTS, axis=0), np.repeat(Y4, COUNTS)))


@pytest.mark.parametrize("factor", [1e-3, 10.0, 1e6])
def test_only_ratios_of_weights_matter(factor: float) -> None:
    assert_is_the_weighted_fit(plain().fit(X4, Y4, sample_weight=factor * COUNTS))


def test_weight_zero_is_the_same_as_leaving_the_row_out() -> None:
    X, y = np.vstack([X4, [[1000.0]]]), np.append(Y4, 1)
    assert_is_the_weighted_fit(plain().fit(X, y, sample_weight=np.append(COUNTS, 0)))


def test_a_class_of_weight_zero_is_left_out_too() -> None:
    X, y = np.vstack([X4, [[9.0]]]), np.append(Y4, 7)
    model = plain().fit(X, y, sample_weight=np.append(COUNTS, 0))
    assert model.classes_.tolist() == [-1, 1]
    assert_is_the_weighted_fit(model)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([40, -1, 2, 55], "sample_weight must be non-negative, got -1.0 at position 1"),
        ([40, 3, np.nan, 55], "sample_weight must be finite, got nan at position 2"),
        ([0, 0, 0, 0], "sample_weight must have a positive entry"),
        ([1, 1, 1], r"sample_weight.shape == \(3,\), expected \(4,\)"),
        ([0, 1, 0, 1], "only one class remains: .*sample_weight"),
    ],
)
def test_useless_sample_weights_are_named(weights: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plain().fit(X4, Y4, sample_weight=weights)


def test_unscaled_columns_reach_the_optimum_or_warn_with_the_distance() -> None:
    small = [0.5, 1.5, -0.5, 2, -1, 0.2, 1.1, -0.7]
    large = [120000, 90000, 150000, 60000, 110000, 80000, 140000, 70000]
    y = [1, 1, -1, 1, -1, -1, 1, -1]
    model = plain(l2=0.1).fit(np.column_stack([small, large]), y)
    np.testing.assert_allclose(model.objective_, 0.380451288620778, rtol=1e-10)
    np.testing.assert_allclose(model.coef_, [[1.52747676582111, 1.41192934157879e-5]], rtol=1e-5)
    np.testing.assert_allclose(model.intercept_, [-2.06841321091765], rtol=1e-5)


FORMATS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
    "coo_matrix": sp.coo_matrix,
    "lil_matrix": sp.lil_matrix,
    "csr_array": sp.csr_array,
    "csc_array": sp.csc_array,
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "big-endian": lambda X: X.astype(">f8"),
    "big-endian integers": lambda X: X.astype(">i8"),
}


@pytest.mark.parametrize("form", FORMATS)
def test_every_matrix_format_gives_the_same_ridge_model(form: str) -> None:
    model = ridge().fit(FORMATS[form](X6), Y6.astype(">f8") if "endian" in form else Y6)
    np.testing.assert_allclose(model.coef_, W6, rtol=1e-9)
    assert model.intercept_ == pytest.approx(B6, rel=1e-9)


@pytest.mark.parametrize(("kind", "dtype"), [(np.asarray, "f4"), (sp.csr_array, "f4"), (np.asarray, ">f4")])
def test_float32_data_reach_the_double_answer(kind: Any, dtype: str) -> None:
    model = ridge(tol=1e-10).fit(kind(X6.astype("f4")).astype(dtype), Y6.astype(dtype))
    np.testing.assert_allclose(model.coef_, W6, rtol=1e-5)
    assert model.intercept_ == pytest.approx(B6, rel=1e-5)
    assert model.n_iter_ < 1000


def strided() -> dict[str, NDArray[np.float64]]:
    Z = np.random.default_rng(3).normal(size=(40, 12))
    field = np.zeros(20, dtype=[("flag", "i1"), ("x", "f8", (4,))])  # not aligned
    field["x"] = Z[:20, :4]
    return {
        "steps": Z[::2, ::3],
        "backwards": Z[::-1, ::-1],
        "transposed": Z[:12].T,
        "broadcast": np.broadcast_to(Z[:, :1], (40, 3)),
        "structured field": field["x"],
    }


@pytest.mark.parametrize("name", strided())
def test_a_view_fits_to_the_same_bits_as_its_copy(name: str) -> None:
    X = strided()[name]
    y = np.sign(np.random.default_rng(4).normal(size=2 * len(X)))[::-2]
    view = RobustClassifier("chi_square", l2=0.1).fit(X, y)
    copy = RobustClassifier("chi_square", l2=0.1).fit(np.array(X, order="C"), y.copy())
    assert view.coef_.tobytes() == copy.coef_.tobytes()


@pytest.mark.parametrize("shape", [(0, 3), (5, 0)])
def test_empty_shapes_are_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        RobustRegressor().fit(np.zeros(shape), np.zeros(shape[0]))


def test_entries_near_the_end_of_the_double_range_end_in_an_error_or_a_finite_model() -> None:
    rng = np.random.default_rng(0)
    y = np.array([0, 1] * 5)
    for X in (rng.uniform(5e306, 1.7e308, (10, 2)), np.column_stack([rng.normal(size=10), np.full(10, 1e200)])):
        words = ""
        model = RobustClassifier()
        try:
            model.fit(X, y)
        except ValueError as error:
            words = str(error)
        assert re.search(r"\bX\b|scale", words) or np.isfinite([*model.coef_[0], model.objective_]).all()


def test_a_fit_without_time_warns_once_with_its_gap() -> None:
    X = np.random.default_rng(0).normal(size=(200, 5))
    with pytest.warns(ConvergenceWarning) as caught:
        model = RobustClassifier("kl", tol=1e-12, max_passes=2).fit(X, X[:, 0] + X[:, 1] ** 2 > 1)
    assert len(caught) == 1
    assert model.gap_ is not None
    assert model.gap_ > 1e-12 * model.objective_
    assert model.result_.status != lw.Status.CONVERGED


@pytest.mark.parametrize(
    ("alpha", "intercept", "objective"),
    [(1.0, 2.5, 18.75), (0.75, 10 / 3, 200 / 9), (0.5, 5.0, 25.0), (0.1, 5.0, 25.0)],
)
def test_intercept_only_fits_have_the_exact_cvar_optimum(alpha: float, intercept: float, objective: float) -> None:
    model = RobustRegressor(lw.CVaR(alpha), tol=1e-9).fit(np.zeros((4, 1)), [0, 0, 0, 10])
    assert model.objective_ == pytest.approx(objective / 2, rel=1e-8)
    assert model.intercept_ == pytest.approx(intercept, rel=1e-4)


def test_the_printed_value_is_the_public_risk_at_the_fitted_weights() -> None:
    X = np.random.default_rng(1).normal(size=(60, 3))
    y = X[:, 0] + np.random.default_rng(2).normal(size=60)
    for risk in (lw.CVaR(0.3), lw.CVaR(0.05), lw.KL(radius=0.5)):
        model = RobustRegressor(risk, l2=0.01).fit(X, y)
        by_hand = risk((X @ model.coef_ + model.intercept_ - y) ** 2 / 2)
        assert -model.robust_score(X, y) == pytest.approx(by_hand, rel=1e-12)
        assert model.objective_ == pytest.approx(by_hand + 0.005 * np.sum(model.coef_**2), rel=1e-12)
        assert risk(model.sample_losses(X, y)) == pytest.approx(by_hand, rel=1e-12)
        assert model.worst_case_weights(X, y) @ model.sample_losses(X, y) == pytest.approx(by_hand, rel=1e-9)
        assert -model.robust_score(X, y, risk="mean") == pytest.approx(model.sample_losses(X, y).mean(), rel=1e-12)


def test_weights_set_by_hand_change_the_reported_risk() -> None:
    returns = np.array(
        [
            [0.020, -0.010, 0.004],
            [-0.031, 0.012, 0.003],
            [0.015, 0.022, -0.002],
            [-0.044, -0.008, 0.001],
            [0.027, -0.025, 0.002],
            [0.008, 0.017, -0.012],
            [-0.012, -0.030, 0.005],
            [0.033, 0.006, -0.004],
        ]
    )
    loss = -returns @ [0.5, 0.3, 0.2]
    for alpha, value in ((0.25, 0.0191), (0.3, 0.0178), (0.05, 0.0242)):
        assert lw.CVaR(alpha)(loss) == pytest.approx(value, rel=1e-12)
    model = RobustRegressor(lw.CVaR(0.25), "absolute", fit_intercept=False).fit(returns, np.full(8, 0.1))
    model.coef_ = np.array([1.0, 0.0, 0.0])
    assert -model.robust_score(returns, np.full(8, 0.1)) == pytest.approx(0.1 + 0.0375, rel=1e-12)


@pytest.mark.parametrize("loss", ["cauchy", "geman_mcclure", lw.losses.Tukey(2.0)])
def test_bounded_losses_see_through_gross_errors_that_bend_the_huber_fit(loss):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((500, 3))
    y = X @ [3.0, -2.0, 1.0] + 4.0 + 0.2 * rng.standard_normal(500)
    y[::4] -= 300.0
    model = RobustRegressor(risk="mean", loss=loss, l2=1e-8).fit(X, y)
    np.testing.assert_allclose([*model.coef_, model.intercept_], [3.0, -2.0, 1.0, 4.0], atol=0.1)
    assert model.gap_ is None
    assert abs(RobustRegressor(risk="mean", loss="huber", l2=1e-8).fit(X, y).intercept_ - 4.0) > 0.2


def test_the_sigmoid_loss_classifies_past_a_leverage_points_with_wrong_labels():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((300, 2))
    y = np.where(X[:, 0] > 0, "b", "a")
    X[:20], y[:20] = [-8.0, 0.0], "b"
    model = RobustClassifier(risk="mean", loss="sigmoid", l2=1e-4).fit(X, y)
    assert model.score(X[20:], y[20:]) > 0.95
    assert model.gap_ is None
    assert not hasattr(model, "predict_proba")
    assert RobustClassifier(risk="mean", l2=1e-4).fit(X, y).score(X[20:], y[20:]) < 0.9
