"""Sinkhorn estimators: their problem in their units, draws by content, what they report, and real data under attack."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import leeward as lw
from leeward.attacks import fgsm
from leeward.sklearn import ConvergenceWarning, RobustClassifier, SinkhornClassifier, SinkhornRegressor

RNG = np.random.default_rng(17)
N, D = 120, 4
X = RNG.normal(size=(N, D))
SCORE = X @ [1.0, -1.5, 0.5, 0.0]
TWO = np.where(SCORE + RNG.normal(size=N) > 0, "yes", "no")
THREE = np.digitize(SCORE + 0.5 * RNG.normal(size=N), [-1.0, 1.0])
REAL = 3.0 + 2.0 * SCORE + RNG.normal(size=N)


def fitted(name: str) -> Any:
    return {
        "two classes": lambda: SinkhornClassifier().fit(X, TWO),
        "three classes": lambda: SinkhornClassifier(draws=4).fit(X, THREE),
        "chi-square": lambda: SinkhornClassifier("chi2", noise=0.4).fit(X, TWO),
        "draws": lambda: SinkhornClassifier(exact=False, cost="l1", draws=16).fit(X, TWO),
        "ball": lambda: SinkhornClassifier(radius=0.3, draws=16).fit(X, TWO),
        "regression": lambda: SinkhornRegressor(loss="huber").fit(X, REAL),
        "label noise": lambda: SinkhornRegressor(label_noise=0.1, draws=16).fit(X, REAL),
    }[name]()


NAMES = ["two classes", "three classes", "chi-square", "draws", "ball", "regression", "label noise"]


def targets(name: str) -> Any:
    return {"three classes": THREE, "regression": REAL, "label noise": REAL}.get(name, TWO)


def test_without_units_the_fit_is_that_of_the_problem() -> None:
    model = SinkhornClassifier("chi2", lam=0.7, entropy=0.2, noise=0.3, scale=None, l2=0.01).fit(X, TWO)
    problem = lw.Sinkhorn(lw.LinearModel(X, TWO == "yes", l2=0.01), "chi2", lam=0.7, entropy=0.2, noise=0.3)
    result = lw.minimize(problem, tol=1e-9)
    assert model.exact_
    assert model.effective_draws_ is None
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), result.x, atol=1e-4)  # what tol=1e-9 leaves
    assert model.objective_ == pytest.approx(result.fun, abs=1e-9)
    assert model.objective_ - model.gap_ <= result.fun


def test_with_units_it_is_that_of_the_standardised_features() -> None:
    raw = X * [1.0, 300.0, 1e-3, 5.0] + [0.0, 1e4, 2.0, -3.0]
    inner = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    model = SinkhornRegressor(lam=2.0).fit(raw, REAL)
    alone = lw.LinearModel(inner, (REAL - REAL.mean()) / REAL.std(), "squared", l2=1e-4)
    result = lw.minimize(lw.Sinkhorn(alone, lam=2.0), tol=1e-9)
    np.testing.assert_allclose(model.scale_, raw.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.target_scale_, REAL.std(), rtol=1e-12)
    np.testing.assert_allclose(model.coef_ * raw.std(axis=0) / REAL.std(), result.x[:D], atol=1e-6)
    np.testing.assert_allclose(model.predict(raw), REAL.mean() + REAL.std() * alone.scores(result.x), atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_other_units_of_the_data_change_nothing(name: str) -> None:
    y, model = targets(name), fitted(name)
    scaled, real = X * [1e-4, 8.0, 3e5, 0.25] + [0.0, 50.0, -1e6, 3.0], y.dtype.kind == "f"
    other = clone(model).fit(scaled, 1e4 * y if real else y)
    if not model.exact_:  # draws follow from the numbers in a row: these are others
        assert other.objective_ == pytest.approx(model.objective_, abs=0.02)
        return
    assert other.objective_ == pytest.approx(model.objective_, abs=1e-8)
    if real:
        np.testing.assert_allclose(other.predict(scaled), 1e4 * model.predict(X), rtol=1e-5, atol=1.0)
    else:
        np.testing.assert_allclose(other.decision_function(scaled), model.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_score_of_the_training_data_is_the_objective(name: str) -> None:
    model = fitted(name)
    ridge = 0.5 * model.l2 * np.sum((model.coef_ * model.scale_ / model.target_scale_) ** 2)
    assert -model.robust_score(X, targets(name)) + ridge == pytest.approx(model.objective_, abs=1e-12)
    assert model.gap_ <= 1e-6 * max(abs(model.objective_), model.sample_losses(X, targets(name)).mean())


@pytest.mark.parametrize("name", NAMES)
def test_sparse_rows_are_the_same_rows(name: str) -> None:
    y = targets(name)
    rows = np.where(np.abs(X) > 0.6, X, 0.0)
    dense, sparse = clone(fitted(name)).fit(rows, y), clone(fitted(name)).fit(sp.csr_array(rows), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-6)
    np.testing.assert_allclose(sparse.scale_, dense.scale_, rtol=1e-12)
    assert sparse.robust_score(rows, y) == pytest.approx(dense.robust_score(sp.csr_array(rows), y), abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_rows_and_repetition_in_place_of_weights_change_nothing(name: str) -> None:
    y, model = targets(name), fitted(name)
    weight = np.random.default_rng(3).integers(0, 3, N).astype(float)
    times = np.repeat(np.arange(N), weight.astype(int))
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X[times][::-1], y[times][::-1])
    np.testing.assert_allclose(repeated.coef_, weighted.coef_, rtol=1e-7, atol=1e-8)
    assert repeated.objective_ == pytest.approx(weighted.objective_, abs=1e-11)
    np.testing.assert_allclose(repeated.scale_, weighted.scale_, rtol=1e-12)
    assert repeated.n_samples_seen_ == len(times)


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_repeats_with_the_same_bits_for_any_number_of_threads(name: str) -> None:
    model, y = fitted(name), targets(name)
    for threads in (1, 2):
        assert clone(model).set_params(n_jobs=threads).fit(X, y).coef_.tobytes() == model.coef_.tobytes()


def test_a_seed_chooses_the_draws() -> None:
    model = SinkhornClassifier(exact=False)
    one, two = (clone(model).set_params(random_state=seed).fit(X, TWO) for seed in (1, 2))
    assert not np.array_equal(one.coef_, two.coef_)
    assert (clone(model).set_params(random_state=1).fit(X, TWO).coef_ == one.coef_).all()
    drawn = np.random.default_rng(5)
    moving = clone(model).set_params(random_state=drawn)
    assert not np.array_equal(moving.fit(X, TWO).coef_, moving.fit(X, TWO).coef_)


def test_more_draws_come_closer_to_the_exact_fit() -> None:
    exact = SinkhornClassifier(noise=0.4, l2=1e-2).fit(X, TWO)
    few, many = (SinkhornClassifier(noise=0.4, l2=1e-2, exact=False, draws=m).fit(X, TWO) for m in (4, 256))
    far = np.abs(few.coef_ - exact.coef_).max()
    assert np.abs(many.coef_ - exact.coef_).max() < 0.25 * far
    assert few.objective_ < many.objective_ < exact.objective_ + 0.005


def test_small_data_have_many_draws_and_large_ones_few() -> None:
    assert SinkhornClassifier(exact=False).fit(X, TWO).draws_ == 256
    wide = np.random.default_rng(1).normal(size=(N, 1000))
    assert SinkhornClassifier(exact=False).fit(wide, TWO).draws_ == 2**22 // (N * 1000)
    assert SinkhornClassifier(exact=False, draws=5).fit(X, TWO).draws_ == 5
    assert SinkhornClassifier().fit(X, TWO).draws_ is None


def test_effective_draws_are_those_of_the_problem() -> None:
    model = SinkhornClassifier("chi2", scale=None, cost="l1", draws=8).fit(X, TWO)
    assert not model.exact_
    assert 1.0 < model.effective_draws_ < 8.0
    even = SinkhornClassifier("chi2", scale=None, cost="l1", draws=8, entropy=1e6).fit(X, TWO)
    assert even.effective_draws_ == pytest.approx(8.0, abs=1e-3)


def test_one_draw_and_collapsed_weights_warn() -> None:
    with pytest.warns(UserWarning, match="with one draw a sample every weight is 1"):
        SinkhornClassifier(draws=1, exact=False).fit(X, TWO)
    with pytest.warns(UserWarning, match="the worst-case weights have collapsed") as caught:
        model = SinkhornClassifier(exact=False, cost="l1", entropy=1e-4, noise=0.5, draws=16).fit(X, TWO)
    assert model.effective_draws_ < 1.5
    assert len([w for w in caught if "collapsed" in str(w.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SinkhornClassifier(draws=1).fit(X, TWO)  # no draws are used


def test_a_price_has_the_worst_case_of_its_ball() -> None:
    ball = SinkhornClassifier(radius=0.22, scale=None, l2=1e-2).fit(X, TWO)
    assert not ball.exact_
    priced = SinkhornClassifier(lam=ball.lam_, scale=None, l2=1e-2, exact=False).fit(X, TWO)
    assert priced.lam_ == ball.lam_
    assert ball.lam_ > 0.1
    larger = SinkhornClassifier(radius=0.3, scale=None, l2=1e-2).fit(X, TWO)
    assert larger.objective_ > ball.objective_
    assert larger.lam_ < ball.lam_


@pytest.mark.parametrize("solver", ["nested", "sgd", "svrg", lw.LBFGS(memory=5)])
def test_solvers_are_taken_by_name_and_as_objects(solver: Any) -> None:
    model = SinkhornClassifier(solver=solver, l2=1e-2, tol=0.0, max_passes=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.ConvergenceWarning)
        model.fit(X, TWO)
    assert model.exact_ == (solver != "svrg")
    best = SinkhornClassifier(l2=1e-2, exact="auto" if model.exact_ else False).fit(X, TWO)
    assert best.objective_ - 1e-9 <= model.objective_ <= best.objective_ + 0.01


@pytest.mark.parametrize("kind", [SinkhornClassifier, RobustClassifier])
def test_a_budget_that_ends_where_it_began_is_a_warning(kind: Any) -> None:
    rows, labels = load_wine(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="no point of the run was better than its start: raise max_passes"):
        model = kind(solver="sgd", max_passes=2).fit(rows, labels)
    np.testing.assert_array_equal(model.coef_, 0.0)
    assert model.result_.status == lw.Status.BUDGET


def test_draws_count_in_what_is_small() -> None:
    rows = np.tile(X, (3, 1)) + np.arange(3 * N)[:, None] / N
    labels = np.tile(THREE, 3)
    usual, owed = (SinkhornClassifier(tol=tol, l2=1e-2, exact=False).fit(rows, labels) for tol in (None, 1e-6))
    assert usual.draws_ == 256
    assert usual.n_iter_ == owed.n_iter_
    small = SinkhornClassifier(draws=4, l2=1e-2, exact=False).fit(rows, labels)
    assert small.gap_ <= 1e-9 * abs(small.objective_)


def test_losses_with_a_kink_are_fitted() -> None:
    for model, y in ((SinkhornClassifier(loss="hinge", l2=1e-2), TWO), (SinkhornRegressor(loss="absolute"), REAL)):
        model.fit(X, y)
        assert model.exact_
        assert model.gap_ <= 1e-6 * model.objective_
        assert model.score(X, y) > 0.7
        drawn = clone(model).set_params(radius=0.3, draws=16).fit(X, y)
        assert not drawn.exact_
        assert drawn.gap_ <= 1e-4 * drawn.objective_
        assert drawn.score(X, y) > 0.7


def test_an_objective_of_about_zero_is_no_failure() -> None:
    wide = np.random.default_rng(5).normal(size=(200, 40))
    y = wide[:, 0] + 0.3 * np.random.default_rng(6).normal(size=200) > 0
    free = SinkhornClassifier(l2=1e-2).fit(wide, y)
    shift = free.sample_losses(wide, y).mean() - free.objective_
    assert shift > 0.5  # the divergence's constant
    lam = np.linspace(0.05, 0.4, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objectives = [SinkhornClassifier(l2=1e-2, lam=v).fit(wide, y).objective_ for v in lam]
    assert min(objectives) < 0.0 < max(objectives)


def test_a_constant_column_has_the_size_of_its_value() -> None:
    rows = np.column_stack([X, np.full(N, 1e5), np.zeros(N)])
    model = SinkhornClassifier().fit(rows, TWO)
    assert model.scale_[-2:].tolist() == [1e5, 1.0]
    np.testing.assert_allclose(
        model.decision_function(rows), SinkhornClassifier().fit(X, TWO).decision_function(X), atol=1e-4
    )


def test_units_may_be_given() -> None:
    sizes = np.array([1.0, 2.0, 0.5, 4.0])
    given, done = SinkhornClassifier(scale=sizes).fit(X, TWO), SinkhornClassifier(scale=None).fit(X / sizes, TWO)
    np.testing.assert_allclose(given.coef_, done.coef_ / sizes, atol=1e-7)
    single = SinkhornClassifier(scale=sizes.tolist()).fit(X.astype(np.float32), TWO)
    np.testing.assert_allclose(single.coef_, given.coef_, atol=1e-5)


def test_without_a_ridge_a_fit_ends_without_a_certificate() -> None:
    model = SinkhornClassifier(l2=0.0).fit(X, TWO)
    assert model.gap_ is None
    assert model.objective_ <= SinkhornClassifier(l2=1e-6).fit(X, TWO).objective_ + 1e-9
    assert SinkhornClassifier(l2=0.0, draws=4).fit(X, THREE).gap_ is None


def test_an_intercept_can_be_left_out() -> None:
    model = SinkhornClassifier(fit_intercept=False).fit(X + 1.0, TWO)
    assert model.intercept_ == 0.0
    inner = (X + 1.0) / X.std(axis=0)
    result = lw.minimize(lw.Sinkhorn(lw.LinearModel(inner, TWO == "yes", l2=1e-4, intercept=False)), tol=1e-9)
    np.testing.assert_allclose(model.coef_[0] * X.std(axis=0), result.x, atol=1e-6)
    flat = SinkhornRegressor(fit_intercept=False).fit(X, REAL)
    assert flat.predict(np.zeros((1, D))) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"lam": -1.0}, "lam must be positive"),
        ({"lam": 1.0, "radius": 1.0}, "give lam or radius, not both"),
        ({"radius": 1e-3}, "radius must be above"),
        ({"radius": 0.5, "exact": True}, "exact=True needs lam"),
        ({"exact": True, "cost": "l1"}, "exact=True needs one linear score"),
        ({"exact": "yes"}, "exact must be"),
        ({"entropy": 0.0}, "entropy must be positive"),
        ({"noise": [0.1, 0.2]}, "noise must be"),
        ({"cost": "l3"}, "cost must be one of"),
        ({"divergence": "js"}, "divergence must be"),
        ({"draws": 0}, "draws must be"),
        ({"scale": "minmax"}, "scale must be 'standard'"),
        ({"scale": [1.0, 2.0]}, "scale must hold 4 numbers"),
        ({"scale": [1.0, 2.0, 0.0, 1.0]}, "scale must be positive and finite, got 0"),
        ({"l2": -1.0}, "l2 must be finite"),
        ({"solver": "adam"}, "solver must be"),
        ({"loss": "sigmoid"}, "loss='sigmoid' is not supported by SinkhornClassifier"),
        ({"random_state": -1}, "random_state must be non-negative"),
        ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
    ],
)
def test_a_wrong_parameter_is_kept_until_fit_and_named_there(parameters: dict[str, Any], words: str) -> None:
    model = SinkhornClassifier(**parameters)
    assert all(model.get_params()[name] is value for name, value in parameters.items())
    with pytest.raises((ValueError, TypeError), match=words):
        model.fit(X, TWO)


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_predicts_the_same_bits_and_holds_no_data(name: str) -> None:
    model = fitted(name)
    other = pickle.loads(pickle.dumps(model))
    assert other.predict(X).tobytes() == model.predict(X).tobytes()
    assert other.robust_score(X, targets(name)) == model.robust_score(X, targets(name))
    many = clone(model).fit(np.tile(X, (40, 1)), np.tile(targets(name), 40))
    assert len(pickle.dumps(many)) < 40_000  # the data are 150 kB


def test_nothing_is_left_of_an_earlier_fit() -> None:
    model = SinkhornClassifier()
    for y in (TWO, THREE, TWO):
        fresh = SinkhornClassifier().fit(X, y)
        assert model.fit(X, y).coef_.tobytes() == fresh.coef_.tobytes()
        assert vars(model).keys() == vars(fresh).keys()


def test_a_warm_start_ends_sooner_at_the_same_model() -> None:
    warm = SinkhornClassifier(warm_start=True, tol=1e-6).fit(X, TWO)
    cold = SinkhornClassifier(tol=1e-6, lam=1.01).fit(X, TWO)
    warm.set_params(lam=1.01).fit(X, TWO)
    assert warm.result_.nfev < cold.result_.nfev
    assert abs(warm.objective_ - cold.objective_) <= warm.gap_ + cold.gap_
    assert warm.fit(X, THREE).coef_.shape == (3, D)


def test_searches_and_pipelines_take_it() -> None:
    search = GridSearchCV(SinkhornClassifier(), {"lam": [0.3, 3.0], "noise": [0.1, 0.4]}, cv=3).fit(X, TWO)
    assert set(search.best_params_) == {"lam", "noise"}
    pipe = make_pipeline(StandardScaler(), SinkhornRegressor()).fit(X, REAL)
    np.testing.assert_allclose(pipe.predict(X), SinkhornRegressor().fit(X, REAL).predict(X), atol=1e-6)


def test_names_weights_and_probabilities_are_as_for_the_other_models() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = SinkhornClassifier(class_weight="balanced").fit(frame, pd.Series(TWO, dtype="category"))
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(model.predict_proba(frame).sum(axis=1), 1.0)
    share = np.where(TWO == "yes", 1.0 / (TWO == "yes").sum(), 1.0 / (TWO == "no").sum())
    np.testing.assert_allclose(SinkhornClassifier().fit(X, TWO, share).coef_, model.coef_, atol=1e-8)


@pytest.mark.parametrize(("folder", "margin"), [("australian", 0.05), ("german", 0.05)])
def test_attacked_rows_of_real_data_are_classified_better_than_by_the_plain_fit(
    folder: str, margin: float, data_folder: Path
) -> None:
    data = np.load(data_folder / folder / f"{folder}_scale.npz")
    rows, y = data["X"].astype(float), data["y"]
    gain, clean = [], []
    for seed in range(5):
        train, test, y_train, y_test = train_test_split(rows, y, test_size=0.5, random_state=seed, stratify=y)
        spread = np.where(train.std(axis=0) > 0, train.std(axis=0), 1.0)
        train, test = train / spread, test / spread
        plain = RobustClassifier("mean").fit(train, y_train)
        robust = SinkhornClassifier().fit(train, y_train)
        attacked = [model.score(fgsm(model, test, y_test, 0.3), y_test) for model in (plain, robust)]
        gain.append(attacked[1] - attacked[0])
        clean.append(robust.score(test, y_test) - plain.score(test, y_test))
    assert np.mean(gain) > margin
    assert np.mean(clean) > -0.01


def test_coefficients_that_are_no_doubles_are_refused() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    with pytest.raises(ValueError, match="the coefficient of feature 0 is too large for a double"):
        SinkhornClassifier().fit(X * 1e-310, X[:, 0] > 0)


def test_a_row_without_a_finite_score_has_no_worst_case() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    model = SinkhornClassifier().fit(X, X[:, 0] > 0)
    far = X.copy()
    far[7] = 1.7e308
    far[7, 1:] *= -1
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match="row 7 of X has no finite score"),
    ):
        model.worst_case_samples(far, X[:, 0] > 0, 500)


def test_bounds_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match="bounds must hold numbers or one number a feature on each side, got 'a'"):
        SinkhornClassifier(bounds=("a", "b")).fit([[0.0], [1.0]], [0, 1])
