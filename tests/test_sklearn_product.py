"""No option is accepted and then ignored: the whole product of losses, risks, intercepts and matrix kinds on 20 x 3 data.

A combination either fits, with a value no worse than nearby points under its own formula written out here in NumPy, or is
refused with the names of both options.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import scipy.sparse as sp
from numpy.typing import NDArray

import leeward as lw
from leeward.sklearn import RobustClassifier, RobustRegressor

Array = NDArray[np.float64]
RNG = np.random.default_rng(8)
X = RNG.normal(size=(20, 3))
NOISE = RNG.normal(size=20)
L2 = 0.05
TOL = 1e-4  # relative distance from optimal that a fit may keep

RISKS = {
    "Mean": lw.Mean(),
    "Worst": lw.Worst(),
    "CVaR": lw.CVaR(0.3),
    "KL penalty": lw.KL(penalty=0.5),
    "KL radius": lw.KL(radius=0.2),
    "ChiSquare penalty": lw.ChiSquare(penalty=0.5),
    "ChiSquare radius": lw.ChiSquare(radius=0.4),
    "ChiSquare both": lw.ChiSquare(penalty=0.2, radius=0.4),
    "KLCVaR": lw.KLCVaR(0.3, 0.2),
    "SmoothedCVaR": lw.SmoothedCVaR(0.3, 0.2),
    "CressieRead penalty": lw.CressieRead(1.5, penalty=0.5),
    "CressieRead radius": lw.CressieRead(3.0, radius=0.3),
    "TotalVariation": lw.TotalVariation(0.2),
    "Tilted": lw.Tilted(0.7),
    "Spectral": lw.Spectral(np.arange(1.0, 21.0) / 210.0),
}
REGRESSION: dict[str, Callable[[Array, Array], Array]] = {
    "squared": lambda z, y: (z - y) ** 2 / 2,
    "huber": lambda z, y: np.where(abs(z - y) <= 0.8, (z - y) ** 2 / 2, 0.8 * (abs(z - y) - 0.4)),
    "absolute": lambda z, y: abs(z - y),
    "quantile": lambda z, y: np.maximum(0.7 * (y - z), -0.3 * (y - z)),
    "poisson": lambda z, y: np.exp(z) - y * z,
}
CLASSIFICATION: dict[str, Callable[[Array, Array], Array]] = {
    "logistic": lambda z, y: np.logaddexp(0, -y * z),
    "hinge": lambda z, y: np.maximum(0, 1 - y * z),
    "squared_hinge": lambda z, y: np.maximum(0, 1 - y * z) ** 2 / 2,
    "squared": lambda z, y: (z - y) ** 2 / 2,
}
OBJECTS = {"huber": lw.losses.Huber(0.8), "quantile": lw.losses.Quantile(0.7)}


def objective(loss: Callable[[Array, Array], Array], risk: Any, coef: Array, intercept: float, y: Array) -> float:
    value: float = risk(loss(X @ coef + intercept, y))
    return value + L2 / 2 * float(coef @ coef)


def check_fit(model: Any, loss: Callable[[Array, Array], Array], risk: Any, y: Array, intercept: bool) -> None:
    coef, free = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    value = objective(loss, risk, coef, free, y)
    assert model.objective_ == pytest.approx(value, abs=1e-9)
    if not intercept:
        assert free == 0.0
    rng = np.random.default_rng(0)
    for _ in range(40):
        step = rng.normal(size=4) * rng.choice([1e-2, 1e-1, 1.0])
        near = objective(loss, risk, coef + step[:3], free + step[3] * intercept, y)
        assert near >= value - max(TOL * abs(value), 1e-6)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", REGRESSION)
@pytest.mark.parametrize("risk", RISKS)
def test_regression_fits_minimise_their_formula(risk: str, loss: str, intercept: bool, kind: str) -> None:
    y = X @ [1.0, -0.5, 0.2] + NOISE
    if loss == "poisson":
        y = np.round(np.exp(0.3 * y))
    model = RobustRegressor(RISKS[risk], OBJECTS.get(loss, loss), l2=L2, fit_intercept=intercept, tol=TOL)
    model.fit(sp.csr_array(X) if kind == "sparse" else X, y)
    check_fit(model, REGRESSION[loss], RISKS[risk], y, intercept)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", CLASSIFICATION)
@pytest.mark.parametrize("risk", RISKS)
def test_classification_fits_minimise_their_formula(risk: str, loss: str, intercept: bool, kind: str) -> None:
    y = np.where(X @ [1.0, -0.5, 0.2] + NOISE > 0.2, 1.0, -1.0)
    model = RobustClassifier(RISKS[risk], loss, l2=L2, fit_intercept=intercept, tol=TOL)
    model.fit(sp.csr_array(X) if kind == "sparse" else X, y)
    check_fit(model, CLASSIFICATION[loss], RISKS[risk], y, intercept)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("risk", RISKS)
def test_softmax_fits_minimise_their_formula(risk: str, intercept: bool, kind: str) -> None:
    y = np.digitize(X[:, 0] + NOISE, [-0.7, 0.7])
    model = RobustClassifier(RISKS[risk], l2=L2, fit_intercept=intercept, tol=TOL)
    model.fit(sp.csr_array(X) if kind == "sparse" else X, y)

    def value(coef: Array, free: Array) -> float:
        z = X @ coef.T + free
        losses = np.logaddexp.reduce(z, axis=1) - z[np.arange(20), y]
        return float(RISKS[risk](losses)) + L2 / 2 * float(np.sum(coef**2))

    fitted = value(model.coef_, model.intercept_)
    assert model.objective_ == pytest.approx(fitted, abs=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(40):
        size = rng.choice([1e-2, 1e-1, 1.0])
        near = value(
            model.coef_ + size * rng.normal(size=(3, 3)), model.intercept_ + intercept * size * rng.normal(size=3)
        )
        assert near >= fitted - max(TOL * abs(fitted), 1e-6)


def test_different_options_give_different_models() -> None:
    y = np.where(X @ [1.0, -0.5, 0.2] + 0.3 * NOISE > 0.2, 1.0, -1.0)  # little noise: the constant model is not optimal
    fits = {
        (loss, risk): RobustClassifier(RISKS[risk], loss, l2=L2).fit(X, y).coef_
        for loss, risk in itertools.product(CLASSIFICATION, ("Mean", "CVaR", "KL radius", "ChiSquare penalty"))
    }
    for (one, a), (other, b) in itertools.combinations(fits.items(), 2):
        assert np.max(np.abs(a - b)) > 1e-3, f"{one} and {other} gave the same coefficients"


@pytest.mark.parametrize("solver", ["auto", "lbfgs", "sgd", "nesterov", lw.SGD(estimator=lw.Minibatch(5))])
def test_every_solver_lowers_the_objective(solver: Any) -> None:
    y = X @ [1.0, -0.5, 0.2] + 0.1 * NOISE
    model = RobustRegressor("chi_square", l2=L2, solver=solver, max_passes=300).fit(X, y)
    best = RobustRegressor("chi_square", l2=L2).fit(X, y).objective_
    at_zero = lw.ChiSquare(radius=0.1)(y**2 / 2)
    assert best - 1e-4 <= model.objective_ < best + 0.2 * (at_zero - best)


@pytest.mark.parametrize("solver", ["scsg", "svrg", "sarah"])
def test_solvers_of_finite_sums_take_the_mean_to_their_own_tolerance_and_refuse_other_risks(solver: str) -> None:
    y = np.where(X @ [1.0, -0.5, 0.2] + NOISE > 0, "up", "down")
    best = RobustClassifier("mean", l2=0.01).fit(X, y).objective_
    model = RobustClassifier("mean", l2=0.01, solver=solver).fit(X, y)
    assert model.result_.status.name == "CONVERGED"
    assert -1e-9 <= model.objective_ - best <= model.gap_ <= 1e-3 * best
    with pytest.raises(ValueError, match="minimises a mean of losses"):
        RobustClassifier("cvar", solver=solver).fit(X, y)


def test_a_solver_on_batches_spends_a_given_budget_and_else_works_to_its_own_tolerance() -> None:
    y = X @ [1.0, -0.5, 0.2] + 0.1 * NOISE
    solver = lw.Nesterov(lw.Minibatch(len(y), replace=False))
    spent = RobustRegressor("mean", l2=0.1, solver=solver, max_passes=5).fit(X, y)
    assert spent.result_.status.name == "BUDGET"
    free = RobustRegressor("mean", l2=0.1, solver=solver).fit(X, y)
    assert free.result_.status.name == "CONVERGED"
    assert 1e-9 * free.objective_ < free.gap_ <= 1e-3 * free.objective_


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "squared"])
def test_margin_losses_with_three_classes_name_both_options_and_the_way_out(loss: str) -> None:
    with pytest.raises(ValueError, match=rf"loss='{loss}' with 3 classes is not supported.*OneVsRestClassifier"):
        RobustClassifier(loss=loss).fit(X[:6], [0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    ("estimator", "loss"),
    [(RobustClassifier(), "poisson"), (RobustClassifier(), "huber"), (RobustRegressor(), "hinge")],
)
def test_a_loss_of_the_other_kind_names_the_loss_and_the_estimator(estimator: Any, loss: str) -> None:
    with pytest.raises(ValueError, match=f"loss='{loss}' is not supported by {type(estimator).__name__}"):
        estimator.set_params(loss=loss).fit(X, [0, 1] * 10)


@pytest.mark.parametrize(
    "domain", [lw.Box(0.0, np.inf), lw.L1(0.05), lw.L2Ball(0.3), lw.L1Ball(0.4), lw.ElasticNet(0.02, 0.1)]
)
def test_domains_and_prox_terms_reach_the_solver(domain: Any) -> None:
    y = X @ [1.0, -0.5, 0.0] + 0.1 * NOISE
    free = RobustRegressor("mean", l2=L2).fit(X, y)
    model = RobustRegressor("mean", l2=L2, domain=domain, max_passes=2000, tol=1e-4).fit(X, y)
    assert np.max(np.abs(model.coef_ - free.coef_)) > 1e-2
    if domain == lw.Box(0.0, np.inf):
        assert (model.coef_ >= 0).all()
