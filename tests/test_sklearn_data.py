"""Labels, data frames, read-only and memory-mapped arrays, columns at prediction time: what practice hands in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning

import leeward as lw
from leeward.sklearn import RobustClassifier, RobustRegressor

X4 = np.array([[-2.0], [-1.0], [1.0], [2.0]])
RNG = np.random.default_rng(5)
X = RNG.normal(size=(80, 3))
Y = X @ [1.0, -1.0, 0.5] + 0.3 * RNG.normal(size=80)


@pytest.mark.parametrize(
    "labels",
    [[1, 1, 2, 2], ["no", "no", "yes", "yes"], [False, False, True, True], [10, 10, 30, 30], [-1.0, -1.0, 1.0, 1.0]],
)
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "squared"])
def test_two_labels_of_any_kind_come_back(labels: list[Any], loss: str) -> None:
    y = np.array(labels)
    model = RobustClassifier(loss=loss).fit(X4, y)
    assert model.classes_.dtype == y.dtype
    assert model.predict(X4).tolist() == labels


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "category", "string", "object", "int64"])
def test_labels_in_a_pandas_series_come_back(dtype: str) -> None:
    pd = pytest.importorskip("pandas")
    labels = (
        [False, False, True, True]
        if dtype == "boolean"
        else [1, 1, 2, 2]
        if "nt64" in dtype
        else ["no", "no", "yes", "yes"]
    )
    y = pd.Series(labels, dtype=dtype)
    model = RobustClassifier().fit(X4, y)
    assert model.predict(X4).tolist() == labels
    assert model.score(X4, labels) == 1.0
    assert model.robust_score(X4, y) == pytest.approx(model.robust_score(X4, np.array(labels)))


def test_missing_labels_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="position 2"):
        RobustClassifier().fit(X4, pd.Series([0, 1, None, 1], dtype="Int64"))


def test_three_labels_with_gaps_come_back() -> None:
    X6 = np.array([[-3.0, 0], [-2, 0], [0, 3], [0, 2], [3, 0], [2, 0]])
    y = np.array([10, 10, 20, 20, 30, 30])
    model = RobustClassifier(l2=1e-2).fit(X6, y)
    assert model.classes_.tolist() == [10, 20, 30]
    assert model.predict(X6).tolist() == y.tolist()
    assert model.coef_.shape == (3, 2)
    assert model.intercept_.shape == (3,)


def test_a_score_of_zero_gives_the_first_class() -> None:
    model = RobustClassifier().fit(X4, ["no", "no", "yes", "yes"])
    model.intercept_ = np.zeros(1)
    assert model.predict([[0.0]]).tolist() == ["no"]


def test_a_column_of_labels_warns() -> None:
    with pytest.warns(DataConversionWarning):
        RobustClassifier().fit(X4, [[1], [1], [2], [2]])


@pytest.mark.parametrize(
    ("labels", "words"), [([0.5, 1.5, 2.5, 0.5], "continuous"), ([3, 3, 3, 3], "only one class remains: .*3")]
)
def test_useless_labels_are_refused(labels: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RobustClassifier().fit(X4, labels)


def test_a_label_that_was_not_fitted_is_named_when_scored() -> None:
    model = RobustClassifier().fit(X4, [1, 1, 2, 2])
    with pytest.raises(ValueError, match=r"labels among classes_ \[1, 2\], got .*3.* at position 2"):
        model.robust_score(X4, [1, 1, 3, 2])


def test_columns_in_another_order_are_refused_by_name() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = RobustRegressor().fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="Expected the columns a, b, c; got c, b, a"):
        model.predict(frame[["c", "b", "a"]])
    with pytest.raises(ValueError, match="missing:\n- c"):
        model.predict(frame[["a", "b"]])
    with pytest.raises(ValueError, match="unseen at fit time:\n- d"):
        model.predict(frame.assign(d=0.0))
    with pytest.warns(UserWarning, match="valid feature names"):
        np.testing.assert_allclose(model.predict(X), model.predict(frame), rtol=1e-12)


def test_nullable_columns_of_a_frame_are_read() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.round(X), columns=["a", "b", "c"])
    plain = RobustRegressor().fit(frame, Y)
    nullable = RobustRegressor().fit(frame.astype({"a": "Int64", "b": "Float64", "c": "Int32"}), Y)
    assert nullable.coef_.tobytes() == plain.coef_.tobytes()


def test_read_only_input_is_enough_and_stays_as_it_was(tmp_path: Path) -> None:
    plain = RobustRegressor().fit(X, Y, sample_weight=np.abs(Y))
    X_fixed, y_fixed, w_fixed = X.copy(), Y.copy(), np.abs(Y)
    sparse = sp.csr_array(X)
    for array in (X_fixed, y_fixed, w_fixed, sparse.data, sparse.indices, sparse.indptr):
        array.flags.writeable = False
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for data in (X_fixed, sparse, mapped):
        model = RobustRegressor().fit(data, y_fixed, sample_weight=w_fixed)
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-10)
        np.testing.assert_allclose(model.predict(data), plain.predict(X), rtol=1e-9)
    assert (X_fixed == X).all()
    assert (y_fixed == Y).all()


@pytest.mark.parametrize("indices", ["int32", "int64"])
def test_sparse_index_types_do_not_change_the_model(indices: str) -> None:
    sparse = sp.csr_array(X)
    sparse.indices, sparse.indptr = sparse.indices.astype(indices), sparse.indptr.astype("int64")
    np.testing.assert_allclose(RobustRegressor().fit(sparse, Y).coef_, RobustRegressor().fit(X, Y).coef_, rtol=1e-8)


def test_float32_rows_are_scored_in_double_precision() -> None:
    model = RobustRegressor().fit(X.astype("f4"), Y)
    big = np.tile(X.astype("f4"), (300, 1))
    np.testing.assert_allclose(model.predict(big), big.astype("f8") @ model.coef_ + model.intercept_, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_missing_and_infinite_entries_are_refused(bad: float, kind: Any) -> None:
    broken = X.copy()
    broken[7, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        RobustRegressor().fit(kind(broken), Y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        RobustRegressor().fit(X, np.where(np.arange(80) == 3, bad, Y))


def test_groups_of_strings_give_the_risk_over_group_means() -> None:
    groups = np.array(["a", "b", "c", "d"])[np.arange(80) % 4]
    model = RobustRegressor("worst", l2=1e-3).fit(X, Y, groups=groups)
    losses = model.sample_losses(X, Y)
    means = [losses[groups == g].mean() for g in "abcd"]
    assert -model.robust_score(X, Y, groups=groups) == pytest.approx(max(means), rel=1e-10)
    assert model.worst_case_weights(X, Y, groups=groups).sum() == pytest.approx(1.0)
    ordinary = RobustRegressor("mean", l2=1e-3).fit(X, Y)
    assert max(means) < max(ordinary.sample_losses(X, Y)[groups == g].mean() for g in "abcd")


@pytest.mark.parametrize(
    ("groups", "words"),
    [(["a"] * 3, "80 labels"), ([None] + ["a"] * 79, "position 0"), (np.r_[[0.0, np.nan], np.zeros(78)], "position 1")],
)
def test_useless_groups_are_named(groups: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"groups must .*{words}"):
        RobustRegressor().fit(X, Y, groups=groups)


def test_probabilities_are_those_of_the_loss_and_absent_for_margins() -> None:
    y = Y > 0
    model = RobustClassifier(lw.CVaR(0.5)).fit(X, y)
    p = model.predict_proba(X)
    logs = model.predict_log_proba(X)
    np.testing.assert_allclose(-logs[np.arange(80), y.astype(int)], model.sample_losses(X, y), rtol=1e-10)
    np.testing.assert_allclose(np.exp(logs), p, rtol=1e-12)
    assert not hasattr(RobustClassifier(loss="hinge"), "predict_proba")
    three = np.digitize(Y, [-0.5, 0.5])
    many = RobustClassifier("kl").fit(X, three)
    logs = many.predict_log_proba(X)
    np.testing.assert_allclose(-logs[np.arange(80), three], many.sample_losses(X, three), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(np.exp(logs), many.predict_proba(X), rtol=1e-12)


def test_balanced_classes_weigh_the_same() -> None:
    y = np.where(Y > 1.2, "rare", "common")
    counts = {c: int(np.sum(y == c)) for c in ("rare", "common")}
    balanced = RobustClassifier("mean", class_weight="balanced", l2=0.1, tol=1e-10).fit(X, y)
    weights = np.array([1 / counts[c] for c in y])
    by_weight = RobustClassifier("mean", l2=0.1, tol=1e-10).fit(X, y, sample_weight=weights)
    by_name = RobustClassifier("mean", class_weight={c: 7 / n for c, n in counts.items()}, l2=0.1, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(balanced.coef_, by_weight.coef_, rtol=1e-6)
    np.testing.assert_allclose(by_name.coef_, by_weight.coef_, rtol=1e-6)


def test_poisson_predictions_are_rates() -> None:
    y = np.round(np.exp(0.5 * Y))
    model = RobustRegressor("mean", "poisson").fit(X, y)
    np.testing.assert_allclose(model.predict(X), np.exp(X @ model.coef_ + model.intercept_))
    with pytest.raises(ValueError, match=r"(?i)poisson|negative|>= 0"):
        RobustRegressor("mean", "poisson").fit(X, Y)
