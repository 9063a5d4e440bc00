"""Estimators as objects: parameters, clones, copies, pickles, seeds, searches, pipelines and routed weights."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import joblib
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import leeward as lw
from leeward.sklearn import RobustClassifier, RobustClassifierCV, RobustRegressor, RobustRegressorCV, robust_path

RNG = np.random.default_rng(9)
X = RNG.normal(size=(150, 4))
Y = X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * RNG.normal(size=150)
THREE = np.digitize(Y, [-0.5, 0.5])
SAMPLING = lw.SGD(estimator=lw.Minibatch(16))


def fitted() -> dict[str, Any]:
    return {
        "two classes": RobustClassifier().fit(X, Y > 0),
        "three classes": RobustClassifier(lw.CVaR(0.3), l2=1e-2).fit(X, THREE),
        "regression": RobustRegressor("kl").fit(X, Y),
        "cross-validated": RobustRegressorCV(lw.CVaR(0.2), values=[0.5, 0.2], cv=3).fit(X, Y),
    }


@pytest.mark.parametrize("name", ["two classes", "three classes", "regression", "cross-validated"])
def test_a_copy_of_any_kind_predicts_the_same_bits(name: str, tmp_path: Path) -> None:
    model = fitted()[name]
    expected = model.predict(X).tobytes()
    copies = [pickle.loads(pickle.dumps(model, protocol)) for protocol in (2, 3, 4, 5)]
    joblib.dump(model, tmp_path / "model.joblib")
    copies += [copy.copy(model), copy.deepcopy(model), joblib.load(tmp_path / "model.joblib")]
    copies += [joblib.load(tmp_path / "model.joblib", mmap_mode="r")]
    for other in copies:
        assert other.predict(X).tobytes() == expected
        assert other.result_.message == model.result_.message
        assert other.get_params() == model.get_params()


def test_an_unfitted_estimator_is_pickled_and_cloned() -> None:
    model = RobustClassifier(lw.ChiSquare(radius=0.5), l2=np.float64(0.1))
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    assert clone(model).get_params() == model.get_params()


def test_the_file_holds_no_training_data() -> None:
    rows = np.tile(X, (200, 1))
    model = RobustRegressor("kl").fit(rows, np.tile(Y, 200))
    assert len(pickle.dumps(model)) < 40_000  # the data are 960 kB, the weights 240 kB


def test_a_model_is_loaded_in_a_new_process_elsewhere(tmp_path: Path) -> None:
    model = RobustRegressor().fit(X, Y)
    joblib.dump(model, tmp_path / "model.joblib")
    code = "import joblib, numpy as np; print(joblib.load('model.joblib').predict(np.eye(4)).tobytes().hex())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == model.predict(np.eye(4)).tobytes().hex()


def _fit_in_worker(seed: int) -> bytes:
    coef: bytes = (
        RobustRegressor("chi_square", solver=SAMPLING, max_passes=3, tol=0.0, random_state=seed)
        .fit(X, Y)
        .coef_.tobytes()
    )
    return coef


def test_worker_processes_give_the_parents_bits() -> None:
    here = [_fit_in_worker(seed) for seed in (1, 2)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert list(pool.map(_fit_in_worker, (1, 2))) == here


def sampled(random_state: Any, threads: int | None = None) -> bytes:
    model = RobustRegressor(
        "chi_square", solver=SAMPLING, max_passes=3, tol=0.0, random_state=random_state, n_jobs=threads
    )
    coef: bytes = model.fit(X, Y).coef_.tobytes()
    return coef


def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads() -> None:
    assert sampled(3) == sampled(3, 1) == sampled(3, 2) == sampled(3, -1)
    assert sampled(None) == sampled(0)
    assert sampled(1) != sampled(2)
    full = [RobustClassifier("cvar", n_jobs=threads).fit(X, Y > 0).coef_.tobytes() for threads in (1, 2, 3)]
    assert len(set(full)) == 1


def test_generators_are_asked_and_move_on_and_the_global_state_is_left_alone() -> None:
    for make in (np.random.default_rng, np.random.RandomState):
        assert sampled(make(5)) == sampled(make(5))
        one = make(5)
        assert sampled(one) != sampled(one)
    np.random.seed(11)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    sampled(None)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"l2": -1.0}, "l2 must be finite and >= 0, got -1"),
        ({"l2": "much"}, "l2 must be a number"),
        ({"tol": np.nan}, "tol must be finite"),
        ({"max_passes": 0}, "max_passes"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"n_jobs": "two"}, "n_jobs must be"),
        ({"random_state": -1}, "random_state must be non-negative, got -1"),
        ({"random_state": "x"}, "random_state must be"),
        ({"risk": "cvarr"}, "risk must be .*'chi_square'.*got 'cvarr'"),
        ({"risk": 3}, "risk must be a leeward risk"),
        ({"loss": "sqared"}, "loss='sqared' is not supported by RobustRegressor"),
        ({"solver": "adam"}, "solver must be .*'auto', 'lbfgs'.*got 'adam'"),
        ({"solver": 3}, "solver must be"),
        ({"solver": None}, "solver must be"),
        ({"domain": 3}, "domain must be"),
        ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
        ({"warm_start": "no"}, "warm_start must be True or False, got 'no'"),
    ],
)
def test_a_wrong_parameter_is_kept_until_fit_and_named_there(parameters: dict[str, Any], words: str) -> None:
    model = RobustRegressor(**parameters)
    assert all(model.get_params()[name] is value for name, value in parameters.items())
    with pytest.raises((ValueError, TypeError), match=words):
        model.fit(X, Y)


def test_numpy_scalars_are_parameters_too() -> None:
    one = RobustRegressor(
        lw.CVaR(np.float64(0.5)), l2=np.float32(0.5), tol=np.float64(1e-4), random_state=np.int64(3), n_jobs=np.int32(1)
    )
    assert np.isfinite(one.fit(X, Y).coef_).all()
    assert type(one.l2) is np.float32


def test_nothing_is_left_of_an_earlier_fit() -> None:
    model = RobustClassifier()
    for y in (Y > 0, THREE, Y > 0):
        fresh = RobustClassifier().fit(X, y)
        assert model.fit(X, y).coef_.tobytes() == fresh.coef_.tobytes()
        assert vars(model).keys() == vars(fresh).keys()


def test_fit_leaves_the_parameters_alone() -> None:
    model = RobustClassifier("cvar", n_jobs=1)
    before = model.get_params(deep=False)
    model.fit(X, Y > 0)
    assert all(model.get_params(deep=False)[name] is value for name, value in before.items())


def test_a_warm_start_ends_sooner_at_the_same_model() -> None:
    cold = RobustClassifier("chi_square", l2=1e-3, tol=1e-6).fit(X, Y > 0)
    warm = RobustClassifier("chi_square", l2=1e-3, tol=1e-6, warm_start=True).fit(X, Y > 0)
    warm.set_params(l2=1.01e-3).fit(X, Y > 0)
    again = RobustClassifier("chi_square", l2=1.01e-3, tol=1e-6).fit(X, Y > 0)
    assert warm.result_.nfev < again.result_.nfev
    np.testing.assert_allclose(warm.objective_, again.objective_, rtol=1e-5)
    assert warm.fit(X, THREE).coef_.shape == (3, 4)
    del cold


def test_the_risks_parameters_are_searched_over() -> None:
    grid = {"risk__alpha": [0.2, 0.9], "l2": [1e-3, 1e-1]}
    search = GridSearchCV(RobustClassifier("cvar"), grid, n_jobs=2, cv=3).fit(X, Y > 0)
    assert set(search.best_params_) == {"risk__alpha", "l2"}
    assert search.best_estimator_.risk.alpha == search.best_params_["risk__alpha"]
    model = RobustClassifier(lw.CVaR(0.1))
    assert model.get_params()["risk__alpha"] == 0.1
    assert model.set_params(risk__alpha=0.4).risk == lw.CVaR(0.4)
    with pytest.raises(ValueError, match="CVaR has no parameter 'radius'"):
        model.set_params(risk__radius=1.0)


def test_a_pipeline_and_one_versus_rest_work() -> None:
    pipe = make_pipeline(StandardScaler(), RobustClassifier("chi_square", class_weight="balanced"))
    assert cross_val_score(pipe, X, Y > 0, cv=3).mean() > 0.8
    assert OneVsRestClassifier(RobustClassifier(loss="hinge", l2=1e-2)).fit(X, THREE).score(X, THREE) > 0.6


def test_pandas_output_of_a_pipeline_gives_feature_names() -> None:
    pd = pytest.importorskip("pandas")
    pipe = make_pipeline(StandardScaler(), RobustRegressor()).set_output(transform="pandas")
    pipe.fit(pd.DataFrame(X, columns=list("abcd")), Y)
    assert pipe[-1].feature_names_in_.tolist() == list("abcd")


def test_weights_and_groups_are_routed() -> None:
    groups = np.arange(150) % 5
    with sklearn.config_context(enable_metadata_routing=True):
        routed = RobustRegressor("worst").set_fit_request(sample_weight=True, groups=True)
        scale = StandardScaler().set_fit_request(sample_weight=False)
        pipe = make_pipeline(scale, routed).fit(X, Y, sample_weight=np.abs(Y), groups=groups)
    direct = RobustRegressor("worst").fit(StandardScaler().fit_transform(X), Y, sample_weight=np.abs(Y), groups=groups)
    np.testing.assert_allclose(pipe[-1].coef_, direct.coef_, rtol=1e-12)


def test_a_path_is_the_sequence_of_its_fits() -> None:
    base = RobustRegressor(lw.CVaR(0.5), l2=1e-2)
    path = robust_path(base, X, Y, "alpha", [0.9, 0.5, 0.2])
    assert len(path) == 3
    assert path.param == "risk__alpha"
    assert path.coefs.shape == (3, 4)
    assert path.intercepts.shape == (3,)
    for alpha, model in zip(path.values, path, strict=True):
        alone = RobustRegressor(lw.CVaR(alpha), l2=1e-2).fit(X, Y)
        assert model.risk == lw.CVaR(alpha)
        assert not model.warm_start
        assert abs(model.objective_ - alone.objective_) <= model.gap_ + alone.gap_ + 1e-12
    assert (np.diff(path.objectives) > 0).all()
    assert not hasattr(base, "coef_")
    with pytest.raises(ValueError, match="param must be a parameter"):
        robust_path(base, X, Y, "radius", [1.0])
    with pytest.raises(ValueError, match="values must hold"):
        robust_path(base, X, Y, "alpha", [])


def test_cross_validation_judges_every_value_by_the_named_risk() -> None:
    risk = lw.CVaR(0.2)
    model = RobustRegressorCV(risk, values=[0.9, 0.4], cv=3, l2=1e-2).fit(X, Y)
    train, test = np.r_[50:150], np.r_[0:50]  # the first of KFold's splits
    alone = RobustRegressor(lw.CVaR(0.4), l2=1e-2, tol=1e-6).fit(X[train], Y[train])
    assert model.cv_results_["split0_test_score"][1] == pytest.approx(
        -risk(alone.sample_losses(X[test], Y[test])), rel=1e-2
    )
    assert model.best_score_ == model.cv_results_["mean_test_score"].max()
    assert model.cv_results_["rank_test_score"][model.best_index_] == 1
    best = model.best_params_["risk__alpha"]
    assert model.risk_ == lw.CVaR(best)
    assert model.risk is risk
    assert -model.robust_score(X, Y) == pytest.approx(lw.CVaR(best)(model.sample_losses(X, Y)), rel=1e-12)


def test_cross_validation_takes_scorers_splits_weights_and_no_refit() -> None:
    model = RobustClassifierCV("cvar", param="l2", values=[1e-1, 1e-3], scoring="neg_log_loss", cv=4, refit=False)
    model.fit(X, THREE, sample_weight=np.abs(Y))
    assert list(model.cv_results_["params"][0]) == ["l2"]
    assert "split3_test_score" in model.cv_results_
    assert not hasattr(model, "coef_")
    with pytest.raises(sklearn.exceptions.NotFittedError):
        model.predict(X)
    assert RobustClassifierCV("chi_square", cv=3).fit(X, Y > 0).best_params_.keys() == {"risk__radius"}
    with pytest.raises(ValueError, match="values must be given for param='tol'"):
        RobustClassifierCV(param="tol").fit(X, THREE)
