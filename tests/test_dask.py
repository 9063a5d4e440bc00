"""`leeward.dask`: the fits of `leeward.sklearn` on collections, however they are cut, and on workers that are lost."""

from __future__ import annotations

import gc
import os
import signal
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("dask.array", reason="Dask is not installed")
pytest.importorskip("dask.dataframe", reason="Dask's dataframes are not installed")

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold

import leeward as lw
from leeward import sklearn
from leeward.dask import RobustClassifier, RobustRegressor

N, D = 600, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) * [1.0, 3.0, 0.2, 1.0]
SCORES = X @ [1.0, -0.5, 2.0, 0.0]
Y = SCORES + RNG.standard_t(3, size=N)
LABELS = np.array(["no", "yes"])[(SCORES + RNG.normal(size=N) > 0).astype(int)]
THREE = np.array(["a", "b", "c"])[np.clip(np.round(SCORES), -1, 1).astype(int) + 1]
WEIGHT = RNG.uniform(size=N)
GROUPS = np.array(["x", "y", "z"])[RNG.integers(0, 3, N)]


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(a.intercept_, b.intercept_, rtol=0, atol=1e-8)
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-9)
    assert (a.gap_ is None) == (b.gap_ is None)


def delayed(values: Any, edges: list[int]) -> list[Any]:
    return [dask.delayed(values[a:b]) for a, b in pairwise(edges)]


@pytest.mark.parametrize("chunks", [(N, D), (101, D), (250, 3)], ids=str)
@pytest.mark.parametrize("risk", ["mean", "chi_square", lw.CVaR(0.2)], ids=str)
def test_any_cut_of_an_array_gives_the_fit_of_one_machine(chunks: Any, risk: Any) -> None:
    table = da.from_array(X, chunks=chunks)
    same(RobustRegressor(risk).fit(table, da.from_array(Y, chunks=77)), sklearn.RobustRegressor(risk).fit(X, Y))


def test_empty_integer_single_and_sparse_partitions_are_one_table() -> None:
    rows = RNG.integers(0, 4, size=(N, D))
    edges = [0, 0, 1, 200, 200, 450, N]
    blocks = delayed(rows, edges)
    blocks[2] = dask.delayed(sp.coo_matrix(rows[1:200].astype(np.float32)))
    blocks[4] = dask.delayed(rows[200:450].astype(np.float32))
    one = sklearn.RobustRegressor(lw.CVaR(0.3)).fit(rows, Y)
    same(RobustRegressor(lw.CVaR(0.3)).fit(blocks, delayed(Y, edges)), one)
    same(RobustRegressor(lw.CVaR(0.3)).fit(blocks, Y), one)
    model = RobustRegressor(lw.CVaR(0.3)).fit(rows, Y)  # a plain array
    same(model, one)
    assert [len(part) for part in dask.compute(*model.predict(blocks))] == [0, 1, 199, 0, 250, 150]
    assert model.score(blocks, delayed(Y, edges)) == pytest.approx(one.score(rows, Y))


def test_labels_weights_and_class_weights_are_found_over_partitions() -> None:
    order = np.argsort(THREE, kind="stable")  # most partitions have one class
    x, y, p = X[order], THREE[order], WEIGHT[order]
    p[y == "a"] = np.where(np.arange(np.sum(y == "a")) < 5, 1.0, 0.0)
    one = sklearn.RobustClassifier("kl", class_weight="balanced").fit(x, y, p)
    model = RobustClassifier("kl", class_weight="balanced")
    model.fit(da.from_array(x, chunks=(99, D)), da.from_array(y, chunks=200), da.from_array(p, chunks=150))
    same(model, one)
    assert model.classes_.tolist() == ["a", "b", "c"]
    table = da.from_array(x, chunks=(70, D))
    for name in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        lazy = getattr(model, name)(table)
        assert isinstance(lazy, da.Array)
        found, expected = lazy.compute(), getattr(one, name)(x)
        assert found.shape == lazy.shape == expected.shape
        if name == "predict":
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, atol=1e-7)
        assert isinstance(getattr(model, name)(x), np.ndarray)
    assert model.score(table, y, p) == pytest.approx(one.score(x, y, p))
    assert model.score(x, y, p) == pytest.approx(one.score(x, y, p))
    zero = np.where(y == "c", 0.0, 1.0)
    assert RobustClassifier().fit(table, y, zero).classes_.tolist() == ["a", "b"]


def test_dataframes_groups_and_scores() -> None:
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(y=Y, w=WEIGHT, g=GROUPS)
    lazy = dd.from_pandas(frame, npartitions=3)
    one = sklearn.RobustRegressor("chi_square").fit(frame[list("pqrs")], Y, WEIGHT, GROUPS)
    model = RobustRegressor("chi_square").fit(lazy[list("pqrs")], lazy["y"], lazy["w"], lazy["g"])
    same(model, one)
    assert model.feature_names_in_.tolist() == list("pqrs")
    np.testing.assert_allclose(model.predict(lazy[list("pqrs")]).compute(), one.predict(frame[list("pqrs")]), atol=1e-7)
    assert model.score(lazy[list("pqrs")], lazy["y"]) == pytest.approx(one.score(frame[list("pqrs")], Y))
    table = da.from_array(X, chunks=(200, D))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of names that the plain array lacks
        expected = one.robust_score(X, Y, risk=lw.CVaR(0.1))
        losses = one.sample_losses(X, Y)
    assert model.robust_score(table, Y, risk=lw.CVaR(0.1)) == pytest.approx(expected)
    np.testing.assert_allclose(model.sample_losses(table, Y), losses, atol=1e-7)
    assert model.worst_case_weights(table, Y).sum() == pytest.approx(1.0)


def test_a_search_over_parameters_is_that_of_one_machine() -> None:
    grid = {"l2": [1e-3, 1.0]}
    X_blocks, y_blocks = da.from_array(X, chunks=(101, D)), da.from_array(LABELS, chunks=101)
    lazy = GridSearchCV(RobustClassifier("chi_square"), grid, cv=KFold(3)).fit(X_blocks, y_blocks)
    one = GridSearchCV(sklearn.RobustClassifier("chi_square"), grid, cv=KFold(3)).fit(X, LABELS)
    np.testing.assert_allclose(lazy.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"], rtol=1e-12)
    assert lazy.best_params_ == one.best_params_


def test_unknown_chunk_sizes_are_computed() -> None:
    kept = X[:, 0] > 0.1
    table, target = da.from_array(X, chunks=(150, D)), da.from_array(Y, chunks=150)
    other = da.from_array(Y, chunks=200)
    one = sklearn.RobustRegressor("cvar").fit(X[kept], Y[kept])
    same(RobustRegressor("cvar").fit(table[kept], target[kept]), one)
    unknown = other[da.from_array(kept, chunks=200)]
    same(RobustRegressor("cvar").fit(table[da.from_array(kept, chunks=150)], unknown), one)
    assert np.isnan(unknown.chunks[0]).all()  # the user's array stays as it was


def test_losses_that_are_not_convex_and_domains() -> None:
    table = da.from_array(X, chunks=(250, D))
    same(RobustRegressor("mean", "tukey").fit(table, Y), sklearn.RobustRegressor("mean", "tukey").fit(X, Y))
    box = {"risk": "cvar", "loss": "squared", "domain": lw.Box(0.0)}
    same(RobustClassifier(**box).fit(table, LABELS), sklearn.RobustClassifier(**box).fit(X, LABELS))


def test_what_is_wrong_names_the_partition() -> None:
    table = da.from_array(X, chunks=(250, D))
    broken = X.copy()
    broken[301, 2] = np.nan
    with pytest.raises(ValueError, match=r"partition 1: X must hold finite numbers, got nan in row 51, column 2"):
        RobustRegressor().fit(da.from_array(broken, chunks=(250, D)), Y)
    with pytest.raises(ValueError, match="y must have 600 entries"):
        RobustRegressor().fit(table, Y[:-1])
    with pytest.raises(ValueError, match="partition 1: y must have 200 entries"):
        RobustRegressor().fit(delayed(X, [0, 400, N]), delayed(Y, [0, 400, 500]))
    with pytest.raises(ValueError, match="partition 1: X must have 4 columns as the others, got 3 columns"):
        RobustRegressor().fit([*delayed(X, [0, 300]), *delayed(X[:, :3], [300, N])], Y)
    with pytest.raises(ValueError, match="partition 0: Unknown label type"):
        RobustClassifier().fit(table, Y)
    with pytest.raises(ValueError, match="only one class remains: 1"):
        RobustClassifier().fit(table, np.ones(N, int))
    with pytest.raises(ValueError, match="partition 2: y must hold labels among classes_"):
        RobustClassifier().fit(table, LABELS).robust_score(table, [*LABELS[:-1], "other"])
    mixed = [*delayed((LABELS == "yes").astype(int), [0, 250]), *delayed(LABELS, [250, N])]
    with pytest.raises(
        TypeError, match="y must hold labels of one kind, got strings in partition 1 and none in partition 0"
    ):
        RobustClassifier().fit(delayed(X, [0, 250, N]), mixed)
    with pytest.raises(TypeError, match="groups must hold labels of one kind, got strings in partition 1"):
        RobustRegressor().fit(delayed(X, [0, 250, N]), Y, groups=mixed)
    for model in (RobustClassifier(), RobustRegressor()):
        for features in (table, X):
            with pytest.raises(NotFittedError, match="not fitted yet"):
                model.predict(features)
    with pytest.raises(ValueError, match="at least one row"):
        RobustRegressor().fit(delayed(X, [0, 0]), delayed(Y, [0, 0]))
    with pytest.raises(ValueError, match=r"sample_weight must be non-negative, got -1.0 at position 599"):
        RobustRegressor().fit(table, Y, [*np.ones(N - 1), -1.0])


def test_parameters_are_those_of_the_estimators_of_one_machine() -> None:
    for mine, theirs in [(RobustClassifier, sklearn.RobustClassifier), (RobustRegressor, sklearn.RobustRegressor)]:
        own, full = mine().get_params(), theirs().get_params()
        assert set(full) - set(own) == {"solver"}
        assert all(full[name] == value for name, value in own.items())
    model = clone(RobustClassifier(lw.CVaR(0.3), l2=0.5)).set_params(risk__alpha=0.2)
    assert (model.risk, model.l2) == (lw.CVaR(0.2), 0.5)
    assert not hasattr(model, "partial_fit")


def test_a_pass_that_lost_its_workers_is_made_again_and_other_errors_are_not() -> None:
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    from leeward.dask._engine import Models

    class Handle:
        status, retried = "error", 0

        def retry(self) -> None:
            self.retried += 1

    class Unlucky:
        places, remote = 1, True

        def __init__(self, *errors: Exception) -> None:
            self.errors = list(errors)

        def start(self, values: Any) -> Any:
            return values

        def call(self, function: Any, *columns: Any) -> list[Any]:
            return [function(*row) for row in zip(*columns, strict=True)]

        def fetch(self, handles: Any) -> Any:
            if self.errors:
                raise self.errors.pop()
            return handles

    lost = [distributed.KilledWorker("task", None, 0), CancelledError("task")]
    handle = Handle()
    assert Models(Unlucky(*lost), [handle]).map(lambda _, a, b: a + b, (1,), ([2],)) == [3]
    assert handle.retried == 2
    with pytest.raises(CancelledError):
        Models(Unlucky(*[CancelledError("task")] * 9), [handle]).map(lambda _: 0)
    with pytest.raises(ValueError, match="of the data"):
        Models(Unlucky(ValueError("of the data")), [handle]).map(lambda _: 0)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_costs_time_and_nothing_else(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, target = da.from_array(X, chunks=(150, D)), da.from_array(Y, chunks=150)
    one = sklearn.RobustRegressor("cvar").fit(X, Y)
    same(RobustRegressor("cvar").fit(table, target), one)
    pids, passes = client.run(os.getpid), []
    real = lw.PartitionedModel.gradient

    def gradient(self: Any, *arguments: Any, **settings: Any) -> Any:
        passes.append(1)
        if len(passes) == 3:
            os.kill(next(iter(pids.values())), signal.SIGKILL)
        return real(self, *arguments, **settings)

    monkeypatch.setattr(lw.PartitionedModel, "gradient", gradient)
    same(RobustRegressor("cvar").fit(table, target), one)
    assert len(passes) > 3
    monkeypatch.undo()
    broken = da.from_array(np.where(np.arange(N)[:, None] == 500, np.inf, X), chunks=(150, D))
    with pytest.raises(ValueError, match="partition 3: X must hold finite numbers"):
        RobustRegressor().fit(broken, target)
    for _ in range(50):  # nothing of the fit that failed stays on the workers
        gc.collect()
        if not any(client.has_what().values()):
            break
        time.sleep(0.1)
    assert not any(client.has_what().values())
