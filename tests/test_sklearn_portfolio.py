"""MeanDeviationPortfolio: the conic optimum on real returns, certificates, kinks, bounds, labels, units and refusals."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict

import leeward as lw
from leeward.sklearn import ConvergenceWarning, MeanDeviationPortfolio

Array = NDArray[np.float64]
T8 = np.array(
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
RNG = np.random.default_rng(3)
R = RNG.normal([0.05, 0.02, 0.03, 0.1], [1.0, 0.2, 0.5, 2.0], size=(300, 4))
DATA = Path(os.environ.get("LEEWARD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data") / "ff_industry"


def conic(returns: Array, lam: float, lower: float, upper: float) -> tuple[float, Array]:
    """The optimum by an interior-point solver for cones."""
    cp = pytest.importorskip("cvxpy", reason="cvxpy is not installed")
    mean = returns.mean(axis=0)
    root = np.linalg.qr((returns - mean) / np.sqrt(len(returns)), mode="r")
    x = cp.Variable(returns.shape[1])
    problem = cp.Problem(cp.Minimize(-mean @ x + lam * cp.norm(root @ x)), [cp.sum(x) == 1, x >= lower, x <= upper])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver="CLARABEL")
    return float(problem.value), np.array(x.value)


@pytest.mark.parametrize(
    ("lam", "lower", "upper"), [(0.2, 0.0, 1.0), (0.02, 0.0, 1.0), (0.2, 0.0, 0.15), (0.2, -0.2, 0.5)]
)
@pytest.mark.parametrize("name", ["industry10", "industry12", "industry17", "industry30"])
def test_the_fit_is_the_conic_optimum_on_industry_returns(name: str, lam: float, lower: float, upper: float) -> None:
    file = DATA / f"{name}.npz"
    if not file.exists():
        pytest.skip(f"no {name}.npz in {DATA}; set LEEWARD_DATA")
    returns = np.load(file)["r"] / 100.0
    model = MeanDeviationPortfolio(lam, min_weights=lower, max_weights=upper).fit(returns)
    value, x = conic(returns, lam, lower, upper)
    assert abs(model.objective_ - value) <= 1e-6 * abs(value)
    assert model.objective_ - value <= 1e-12  # never above it
    np.testing.assert_allclose(model.weights_, x, atol=2e-3)  # what an objective to 1e-9 determines of them
    assert model.gap_ <= 1e-10 * abs(model.objective_)


@pytest.mark.parametrize("seed", range(8))
def test_certificates_hold_and_close_on_any_returns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 40))
    returns = rng.normal(rng.normal(size=d), rng.uniform(0.1, 3.0, size=d), size=(int(rng.integers(5, 200)), d))
    model = MeanDeviationPortfolio(float(rng.choice([0.0, 0.1, 1.0, 10.0]))).fit(returns)
    assert 0 < model.gap_ <= 1e-9 * abs(model.objective_)
    problem = lw.MeanDeviation(returns, model.lam)
    for x in rng.dirichlet(np.full(d, 0.1), size=300):
        assert problem.value(x) >= model.objective_ - model.gap_


def test_what_is_reported_follows_from_the_weights_alone() -> None:
    model = MeanDeviationPortfolio().fit(T8)
    problem = lw.MeanDeviation(T8, 0.2)
    assert model.objective_ == pytest.approx(problem.value(model.weights_), abs=1e-12)
    series = model.predict(T8)
    np.testing.assert_allclose(series, T8 @ model.weights_, atol=1e-15)
    assert model.mean_ == pytest.approx(series.mean(), abs=1e-15)
    assert model.risk_ == pytest.approx(series.std(), abs=1e-15)
    assert model.objective_ == pytest.approx(0.2 * model.risk_ - model.mean_, abs=1e-15)
    assert model.score(T8) == -model.objective_
    by_hand = np.array([1.0, 0.0, 0.0])
    assert problem.value(by_hand) == pytest.approx(0.2 * T8[:, 0].std() - 0.002, abs=1e-15)


def test_percent_and_fractions_have_the_same_weights() -> None:
    one, hundred = MeanDeviationPortfolio().fit(T8), MeanDeviationPortfolio().fit(100 * T8)
    np.testing.assert_allclose(one.weights_, hundred.weights_, atol=1e-9)
    assert hundred.objective_ == pytest.approx(100 * one.objective_, rel=1e-9)
    assert np.array_equal(one.weights_, MeanDeviationPortfolio().fit(T8).weights_)  # to the bit, again


def test_assets_that_cancel_leave_no_deviation() -> None:
    model = MeanDeviationPortfolio().fit([[-0.1, 0.1], [0.1, -0.1]])
    np.testing.assert_allclose(model.weights_, [0.5, 0.5], atol=1e-12)
    assert model.risk_ == pytest.approx(0.0, abs=1e-15)


def test_the_deviation_is_about_the_mean_with_all_periods_in_the_denominator() -> None:
    model = MeanDeviationPortfolio().fit([[0.01], [0.02], [0.03]])
    assert model.risk_ == pytest.approx(np.sqrt(2.0 / 3.0) * 0.01, rel=1e-12)
    assert model.weights_.tolist() == [1.0]


@pytest.mark.parametrize(("rate", "alone"), [(0.02, True), (-0.5, False)])
def test_a_constant_column_is_an_asset_without_risk(rate: float, alone: bool) -> None:
    returns = np.column_stack([R, np.full(len(R), rate)])
    model = MeanDeviationPortfolio(0.3).fit(returns)
    if alone:  # no mix of the others beats it, and F has its kink there
        assert model.weights_.tolist() == [0, 0, 0, 0, 1]
        assert model.objective_ == pytest.approx(-rate, abs=1e-12)
        assert model.gap_ <= 1e-9
    else:
        assert model.weights_[-1] == 0.0
    value, _ = conic(returns, 0.3, 0.0, 1.0)
    assert model.objective_ == pytest.approx(value, abs=1e-8)


def test_identical_assets_share_and_one_feasible_point_is_taken() -> None:
    alike = np.repeat(RNG.normal(0.1, 1.0, size=(100, 1)), 50, axis=1)
    np.testing.assert_allclose(MeanDeviationPortfolio().fit(alike).weights_, 0.02, atol=1e-12)
    only = MeanDeviationPortfolio(max_weights=0.02).fit(RNG.normal(size=(100, 50)))
    np.testing.assert_allclose(only.weights_, 0.02, atol=1e-15)
    assert only.weights_.max() <= 0.02
    doubled = np.column_stack([R, R[:, 1]])
    single, twin = MeanDeviationPortfolio(0.3).fit(R), MeanDeviationPortfolio(0.3).fit(doubled)
    assert twin.objective_ == pytest.approx(single.objective_, rel=1e-10)
    assert twin.weights_[1] == pytest.approx(twin.weights_[4], abs=1e-8)


@pytest.mark.parametrize("budget", [1.0, 0.3, 2.0])
@pytest.mark.parametrize("returns", [T8, R, R[:1], R[:2], np.zeros((3, 4))])
def test_bounds_hold_exactly_and_the_budget_to_rounding(returns: Any, budget: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # prices, one period
        model = MeanDeviationPortfolio(budget=budget, min_weights=0.01, max_weights=0.9).fit(returns)
    assert model.weights_.min() >= 0.01
    assert model.weights_.max() <= 0.9
    assert abs(model.weights_.sum() - budget) <= 1e-12


def test_frames_give_labelled_weights_and_returns() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(R, columns=["a", "b", "c", "d"], index=pd.date_range("2020-01-01", periods=len(R)))
    model = MeanDeviationPortfolio(0.3, max_weights={"b": 0.4}, min_weights=pd.Series({"d": 0.1})).fit(frame)
    assert model.weights_.index.tolist() == ["a", "b", "c", "d"]
    assert model.weights_["b"] <= 0.4
    assert model.weights_["d"] >= 0.1
    assert model.predict(frame).index.equals(frame.index)
    np.testing.assert_allclose(model.predict(frame[-5:]), R[-5:] @ model.weights_.to_numpy())
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match="max_weights names 'z', which is not a column of X"):
        MeanDeviationPortfolio(max_weights={"z": 0.1}).fit(frame)
    frame.loc["2020-01-03", "c"] = np.nan
    with pytest.raises(
        ValueError, match="1 of 300 periods have missing ones, the first is period 2020-01-03 00:00:00 of 'c'"
    ):
        MeanDeviationPortfolio().fit(frame)


@pytest.mark.parametrize(
    ("settings", "returns", "message"),
    [
        ({"max_weights": 0.3}, T8, "sum to between 0 and 0.9, and the budget is 1"),
        ({"min_weights": 0.5}, T8, "sum to between 1.5 and 3, and the budget is 1"),
        (
            {"min_weights": 0.6, "max_weights": 0.3},
            T8,
            "min_weights must not exceed max_weights, got 0.6 > 0.3 for asset 0",
        ),
        ({"max_weights": np.inf}, T8, "max_weights must be finite, got inf for asset 0"),
        ({"max_weights": [1.0, 1.0]}, T8, "one entry for each of 3 assets"),
        ({"max_weights": {"a": 1.0}}, T8, "X has no columns with names"),
        ({"lam": -1.0}, T8, "lam must be finite and >= 0, got -1.0"),
        ({"budget": np.nan}, T8, "budget must be finite, got nan"),
        ({"solver": "simplex"}, T8, "solver must be 'exact', 'smvr' or an algorithm"),
        ({"solver": "smvr", "max_weights": 0.5}, T8, "needs a positive budget, min_weights=0"),
        ({}, np.where(T8 == 0.017, np.nan, T8), "1 of 8 periods have missing ones, the first is period 5 of asset 1"),
    ],
)
def test_refusals_name_what_is_wrong(settings: dict[str, Any], returns: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MeanDeviationPortfolio(**settings).fit(returns)


def test_prices_and_losses_of_everything_bring_a_warning() -> None:
    with pytest.warns(UserWarning, match="look like prices"):
        MeanDeviationPortfolio().fit([[93.0, 51.8], [84.6, 52.8], [111.5, 56.5]])
    with pytest.warns(UserWarning, match="returns at or below -1"):
        MeanDeviationPortfolio().fit(np.vstack([T8, [-1.2, 0.0, 0.0]]))


@pytest.mark.parametrize("solver", ["smvr", lw.SMVR(batch=8)])
def test_solvers_on_batches_come_near_the_optimum_within_their_certificate(solver: Any) -> None:
    exact = MeanDeviationPortfolio(0.3).fit(R)
    walked = MeanDeviationPortfolio(0.3, solver=solver, tol=0.0, max_passes=300, random_state=1).fit(R)
    assert exact.objective_ <= walked.objective_ + 1e-12
    assert walked.objective_ - walked.gap_ <= exact.objective_ + 1e-12
    assert walked.objective_ - exact.objective_ <= 0.05 * abs(exact.objective_)
    assert abs(walked.weights_.sum() - 1.0) <= 1e-12


def test_portfolios_go_through_clones_files_and_searches() -> None:
    model = pickle.loads(pickle.dumps(MeanDeviationPortfolio(0.3).fit(R)))
    assert np.array_equal(model.weights_, clone(model).fit(R).weights_)
    search = GridSearchCV(MeanDeviationPortfolio(), {"max_weights": [0.3, 1.0]}, cv=3).fit(R)
    assert search.best_params_["max_weights"] in (0.3, 1.0)
    assert cross_val_predict(MeanDeviationPortfolio(), R, cv=3).shape == (300,)


@pytest.mark.parametrize("unit", [1e300, 1e160, 1e-160, 1e-300, 1e-310])
def test_weights_do_not_depend_on_the_unit_of_the_returns(unit: float) -> None:
    plain, model = (MeanDeviationPortfolio(0.3).fit(returns) for returns in (R, R * unit))
    np.testing.assert_allclose(model.weights_, plain.weights_, atol=1e-6)
    for name in ("objective_", "mean_", "risk_"):
        assert getattr(model, name) == pytest.approx(getattr(plain, name) * unit, rel=1e-6, abs=1e-323)
    assert model.score(R * unit) == pytest.approx(-model.objective_, rel=1e-12, abs=1e-323)


def test_a_certificate_that_is_far_off_beside_the_portfolios_own_returns_brings_a_warning() -> None:
    returns = np.random.default_rng(0).normal([0.05, 0.02, 0.03], [1.0, 0.2, 0.5], size=(500, 3)) * [1e-150, 1.0, 1e150]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning, match="scales of the assets"):
            MeanDeviationPortfolio().fit(returns)


def test_bounds_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(
        TypeError, match="min_weights must be a number, 3 numbers or numbers by the names of columns, got 'a'"
    ):
        MeanDeviationPortfolio(min_weights="a").fit(T8)


def test_portfolios_work_with_the_parts_of_skfolio() -> None:
    """Its portfolios take the weights, its pre-selection stands before the model, and its walks are splits of a search."""
    pd = pytest.importorskip("pandas")
    skfolio = pytest.importorskip("skfolio", reason="skfolio is not installed")
    from skfolio.model_selection import WalkForward
    from skfolio.pre_selection import DropCorrelated
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    table = 0.01 * rng.normal(size=(300, 4)) + 0.001
    table[:, 3] = table[:, 2] + 1e-5 * rng.normal(size=300)  # one of the two is dropped
    frame = pd.DataFrame(table, columns=list("abcd"), index=pd.bdate_range("2020-01-01", periods=300))
    train, test = frame[:200], frame[200:]
    model = MeanDeviationPortfolio(lam=0.2).fit(train)
    portfolio = skfolio.Portfolio(X=test, weights=dict(model.weights_))
    np.testing.assert_allclose(portfolio.returns, model.predict(test), rtol=0, atol=1e-15)
    chain = make_pipeline(DropCorrelated(threshold=0.9), MeanDeviationPortfolio(lam=0.2))
    chain.set_output(transform="pandas").fit(train)
    assert len(chain[-1].weights_) == 3
    assert chain.predict(test).index.equals(test.index)
    walks = WalkForward(train_size=100, test_size=50)
    found = GridSearchCV(MeanDeviationPortfolio(), {"lam": [0.1, 0.5]}, cv=walks).fit(frame)
    assert found.n_splits_ == 4
