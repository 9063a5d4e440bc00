"""Known optima, found with the default steps: scaled or not, weighted, grouped, in domains."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize

import leeward as lw
from leeward.algorithms import Algorithm
from test_minimize import quadratic, quietly, regression

Vector = NDArray[np.float64]
LOGISTIC_X = np.array([[0.0], [1.0], [2.0], [3.0]])
LOGISTIC_Y = np.array([-1.0, 1.0, -1.0, 1.0])
COUNTS = np.array([40, 3, 2, 55])


def full_batch(n: int) -> lw.Nesterov:
    return lw.Nesterov(lw.Minibatch(n, replace=False))


def least_squares_optimum(model: lw.LinearModel, weight: Vector | None = None) -> Vector:
    X, y = model.rows(np.arange(model.size)), model._y
    p = np.full(model.size, 1 / model.size) if weight is None else weight / weight.sum()
    Z = np.column_stack([X, np.ones(len(y))])
    ridge = np.diag(np.append(np.full(X.shape[1], model.l2), 0.0))
    return np.linalg.solve(Z.T @ (p[:, None] * Z) + ridge, Z.T @ (p * y))


@pytest.mark.parametrize("weighted", [False, True])
def test_full_batch_nesterov_finds_least_squares(weighted: bool) -> None:
    weight = 1.0 + np.arange(80.0) % 5 if weighted else None
    model = regression(sample_weight=weight)
    result = quietly(model, algorithm=full_batch(80), tol=0, max_passes=2000)
    np.testing.assert_allclose(result.x, least_squares_optimum(model, weight), atol=1e-9)


@pytest.mark.parametrize(
    "algorithm",
    [
        lw.SGD(lw.Minibatch(8)),
        lw.SGD(lw.Minibatch(8), momentum=0.9),
        lw.SGD(lw.Minibatch(8), average="uniform"),
        lw.SGD(lw.Minibatch(8, replace=False)),
        lw.Nesterov(lw.Minibatch(8)),
        lw.Nesterov(lw.Minibatch(8), form="momentum"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_default_steps_come_within_two_percent_of_least_squares_in_any_unit(algorithm: Algorithm, scale: float) -> None:
    plain = regression(l2=0.0)
    X = plain.rows(np.arange(80)) * np.array([scale, 1.0, 1.0, 1.0])
    model = lw.LinearModel(X, plain._y, "squared", l2=0.0)
    best = lw.Robust(plain).value(least_squares_optimum(plain))
    result = lw.minimize(model, algorithm=algorithm, max_passes=200)
    assert result.fun - best <= 0.02 * best


@pytest.mark.parametrize("algorithm", [lw.SGD(lw.Minibatch(10)), lw.Nesterov(lw.Minibatch(10))], ids=repr)
def test_default_steps_of_a_users_oracle_find_the_mean(algorithm: Algorithm) -> None:
    oracle = quadratic()
    center = np.random.default_rng(1).normal(size=(50, 3)).mean(axis=0)
    result = lw.minimize(oracle, algorithm=algorithm, max_passes=100)
    best = lw.Robust(oracle).value(center)
    assert result.fun - best <= 0.01 * best


@pytest.mark.parametrize(
    "risk", [lw.CVaR(0.2), lw.ChiSquare(radius=1.0), lw.ChiSquare(penalty=0.5), lw.KL(radius=0.5)], ids=repr
)
def test_default_steps_come_near_the_robust_optimum(risk: lw.Risk) -> None:
    problem = lw.Robust(regression(), risk)
    best = quietly(problem, algorithm=full_batch(80), tol=0, max_passes=20_000, trace=1000)
    if not problem.smooth:  # the averaged subgradient method with small steps stands in for an exact solver
        best = quietly(problem, algorithm=lw.SGD(lw.Minibatch(80, replace=False)), max_passes=20_000, trace=1000)
    result = lw.minimize(problem, algorithm=lw.SGD(lw.Minibatch(40)), max_passes=400)
    assert result.fun - best.fun <= 0.05 * best.fun


@pytest.mark.parametrize("kind", ["dense", "csr", "float32", "repeated rows", "counts times ten"])
def test_weights_do_the_same_as_repeated_rows(kind: str) -> None:
    X, y, weight = LOGISTIC_X, LOGISTIC_Y, COUNTS.astype(float)
    data: object = X
    if kind == "csr":
        data = sparse.csr_array(X)
    elif kind == "float32":
        data = X.astype(np.float32)
    elif kind == "repeated rows":
        data, y, weight = np.repeat(X, COUNTS, axis=0), np.repeat(y, COUNTS), None
    elif kind == "counts times ten":
        weight = 10.0 * weight
    model = lw.LinearModel(data, y, "logistic", l2=0.01, sample_weight=weight)
    result = lw.minimize(model, algorithm=full_batch(100), max_passes=50_000, tol=1e-12, trace=500)
    np.testing.assert_allclose(result.x, [2.33023085700318, -3.16177745364801], rtol=1e-6)
    assert result.fun == pytest.approx(0.125362298622951, abs=1e-12)


def test_a_row_of_weight_zero_changes_nothing_not_even_the_step() -> None:
    X, y = np.vstack([LOGISTIC_X, [[1000.0]]]), np.append(LOGISTIC_Y, 1.0)
    with_row = lw.LinearModel(X, y, "logistic", l2=0.01, sample_weight=np.append(COUNTS, 0.0))
    without = lw.LinearModel(LOGISTIC_X, LOGISTIC_Y, "logistic", l2=0.01, sample_weight=COUNTS)
    answers = [
        quietly(m, algorithm=full_batch(9), tol=0, trace="step", callback=lambda s: s.step == 1).x
        for m in (with_row, without)
    ]
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-12)


def test_unscaled_features_are_no_obstacle() -> None:
    small = [0.5, 1.5, -0.5, 2.0, -1.0, 0.2, 1.1, -0.7]
    large = [120000.0, 90000.0, 150000.0, 60000.0, 110000.0, 80000.0, 140000.0, 70000.0]
    model = lw.LinearModel(np.column_stack([small, large]), [1, 1, -1, 1, -1, -1, 1, -1], "logistic", l2=0.1)
    result = lw.minimize(model, algorithm=full_batch(8), tol=1e-9, max_passes=20_000, trace=100)
    np.testing.assert_allclose(result.x, [1.52747676582111, 1.41192934157879e-5, -2.06841321091765], rtol=1e-5)
    assert result.fun == pytest.approx(0.380451288620778, abs=1e-11)
    stochastic = quietly(model, algorithm=lw.SGD(lw.Minibatch(4)), max_passes=4000, trace=100)
    assert stochastic.fun == pytest.approx(0.380451288620778, abs=5e-3)


@pytest.mark.parametrize(
    "domain",
    [lw.Box(-0.5, 1.5), lw.Simplex(2.0), lw.L1Ball(3.0), lw.L2Ball(1.0), lw.L1(0.5), lw.ElasticNet(0.2, 0.3)],
    ids=repr,
)
def test_domains_and_terms_reach_the_constrained_optimum(domain: lw.Domain) -> None:
    model = regression()
    problem = lw.Robust(model)
    result = quietly(problem, algorithm=full_batch(80), domain=domain, tol=0, max_passes=3000, trace=100)
    # Optimal: no proximal step of any length moves the point.
    gradient = problem.evaluate(result.x).gradient
    for step in (1e-2, 1.0, 1e2):
        moved = domain.prox(result.x[:4] - step * gradient[:4], step)
        np.testing.assert_allclose(moved, result.x[:4], atol=1e-6 * max(1.0, step))
    assert abs(gradient[4]) <= 1e-8


def test_groups_are_balanced_by_a_fit() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2))
    groups = (np.arange(300) < 30).astype(int)
    y = np.where(groups == 1, -2.0, 1.0) * X[:, 0] + 0.1 * rng.normal(size=300)
    model = lw.LinearModel(X, y, "squared", intercept=False)
    means = [lambda w, g=g: np.mean(model.losses(w)[groups == g]) for g in (0, 1)]
    exact = scipy_minimize(
        lambda v: v[2],
        np.array([0.0, 0.0, 9.0]),
        method="SLSQP",
        options={"ftol": 1e-12},
        constraints=[{"type": "ineq", "fun": lambda v, m=m: v[2] - m(v[:2])} for m in means],
    )
    result = quietly(lw.Robust(model, lw.Worst(), groups=groups), algorithm=lw.SGD(lw.Minibatch(20)), max_passes=400)
    assert result.fun == pytest.approx(exact.fun, rel=0.05)
