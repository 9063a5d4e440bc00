"""Certificates hold: the bound is never below the true distance from the optimum, and it is tight where a run ends."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import leeward as lw
from leeward._certificate import certify

LOSSES = ("squared", "huber", "absolute", "quantile", "logistic", "softmax", "hinge", "squared_hinge", "poisson")
RISKS = (
    lw.Mean(),
    lw.CVaR(0.3),
    lw.KL(penalty=0.7),
    lw.KL(radius=0.2),
    lw.ChiSquare(penalty=0.8),
    lw.ChiSquare(radius=0.4),
    lw.ChiSquare(penalty=0.5, radius=0.6),
    lw.KLCVaR(0.3, 0.2),
    lw.SmoothedCVaR(0.3, 0.2),
    lw.CressieRead(3.0, penalty=0.6),
    lw.CressieRead(1.5, radius=0.3),
    lw.Tilted(1.5),
    lw.Worst(),
    lw.Spectral.superquantile(0.4),
    lw.TotalVariation(0.3),
    lw.Spectral.extremile(2.0),
)


def random_problem(seed: int) -> lw.Robust:
    """A small convex problem: loss and risk go round, the rest is drawn."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 40)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, size=d)
    loss = LOSSES[seed % len(LOSSES)]
    risk = RISKS[(seed // len(LOSSES) + seed) % len(RISKS)]
    score = X @ rng.normal(size=d) / np.sqrt(d) + rng.normal(size=n)
    if loss in ("logistic", "hinge", "squared_hinge"):
        y = np.where(score > 0, 1.0, -1.0)
    elif loss == "softmax":
        y = rng.integers(0, 3, size=n)
        y[:3] = (0, 1, 2)
    elif loss == "poisson":
        X = X / np.abs(X).max()
        y = rng.poisson(1.5, size=n).astype(float)
    else:
        y = score
    data = sparse.csr_matrix(X * (rng.random(X.shape) < 0.7)) if rng.random() < 0.4 else X
    weight = rng.uniform(0.2, 2.0, size=n) if rng.random() < 0.3 else None
    groups = rng.integers(0, 4, size=n) if rng.random() < 0.25 else None
    l2 = float(10.0 ** rng.uniform(-3, 0))
    model = lw.LinearModel(data, y, loss, l2=l2, intercept=bool(rng.random() < 0.5), sample_weight=weight)
    return lw.Robust(model, risk, groups=groups)


def smoothable(problem: lw.Robust) -> bool:
    try:
        problem.smoothed(1.0)
    except ValueError:
        return False
    return True


def solve(problem: lw.Robust, tol: float, **options: object) -> lw.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.ConvergenceWarning)
        return lw.minimize(problem, algorithm=lw.LBFGS(), tol=tol, threads=1, **options)


@pytest.mark.parametrize("block", range(10))
def test_gap_bounds_the_distance_from_the_optimum_on_200_random_problems(block: int) -> None:
    solved = tight = 0
    for seed in range(20 * block, 20 * block + 20):
        problem = random_problem(seed)
        seen: list[tuple[float, float]] = []
        rng = np.random.default_rng(1000 + seed)
        for scale in (0.0, 0.1, 1.0, 3.0):
            w = scale * rng.normal(size=problem.dim)
            certificate = certify(problem, w)
            assert certificate.gap is not None
            seen.append((problem.value(w), certificate.gap))
        best = min(value for value, _ in seen)
        if smoothable(problem):
            tol = 1e-6 if problem.smooth else 1e-4
            result = solve(problem, tol, trace="step")
            seen += [*zip(result.trace.objective, result.trace.gap, strict=True), (result.fun, result.gap)]
            best = min(best, result.fun, *result.trace.objective)
            solved += 1
            tight += result.gap <= max(tol * abs(result.fun), 1e-20)  # seed 186 has the optimum 0
        for value, gap in seen:
            if not np.isnan(gap):  # not computed there
                assert value - best <= gap + 1e-12 * max(abs(value), 1.0), (seed, problem, value, gap, best)
    assert tight == solved, f"{solved - tight} of {solved} runs ended above their tolerance"


def conic_optimum(problem: lw.Robust) -> float:
    """P* by a conic solver, for the losses and risks that are one line there."""
    cp = pytest.importorskip("cvxpy")
    model: Any = problem.oracle
    n, d = model.size, model.n_features
    w, b, eta = cp.Variable(d), cp.Variable(), cp.Variable()
    X = model.rows(np.arange(n))
    y = model._y
    z = X @ w + (b if model.intercept else 0.0)
    losses = {
        "squared": lambda: cp.square(z - y) / 2,
        "logistic": lambda: cp.logistic(-cp.multiply(y, z)),
        "hinge": lambda: cp.pos(1 - cp.multiply(y, z)),
        "absolute": lambda: cp.abs(z - y),
    }[model.loss.name]()
    risk = problem.risk
    if isinstance(risk, lw.CVaR):
        value = eta + cp.sum(cp.pos(losses - eta)) / (n * risk.alpha)
    elif isinstance(risk, lw.ChiSquare) and risk.penalty is None:
        value = np.sqrt((1 + 2 * risk.radius) / n) * cp.norm2(cp.pos(losses - eta)) + eta
    elif isinstance(risk, lw.ChiSquare):
        value = cp.sum_squares(cp.pos(losses - eta)) / (2 * n * risk.penalty) + risk.penalty / 2 + eta
    elif isinstance(risk, lw.Worst):
        value = cp.max(losses)
    else:
        value = cp.sum(losses) / n
    task = cp.Problem(cp.Minimize(value + model.l2 / 2 * cp.sum_squares(w)))
    return float(task.solve(solver="CLARABEL"))


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "absolute"])
@pytest.mark.parametrize(
    "risk",
    [lw.Mean(), lw.CVaR(0.3), lw.ChiSquare(radius=0.4), lw.ChiSquare(penalty=0.5), lw.Worst()],
    ids=repr,
)
@pytest.mark.parametrize("intercept", [True, False])
def test_optimum_of_a_conic_solver_lies_between_the_bound_and_the_value(
    loss: str, risk: lw.Risk, intercept: bool
) -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(25, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=25)
    if loss in ("logistic", "hinge"):
        y = np.where(y > 0, 1.0, -1.0)
    problem = lw.Robust(lw.LinearModel(X, y, loss, l2=0.1, intercept=intercept), risk)
    result = solve(problem, 1e-6 if problem.smooth else 1e-4)
    optimum = conic_optimum(problem)
    slack = 1e-6 * max(abs(optimum), 1.0)  # what the conic solver leaves open
    assert result.fun >= optimum - slack
    assert result.fun - result.gap <= optimum + slack
    assert result.gap <= (1e-6 if problem.smooth else 1e-4) * result.fun


@pytest.mark.parametrize(
    "domain",
    [lw.Box(-0.3, 0.2), lw.L2Ball(0.4), lw.L1Ball(0.5), lw.Simplex(), lw.L1(0.1), lw.ElasticNet(0.1, 0.2)],
    ids=repr,
)
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_gap_holds_over_domains_and_prox_terms(domain: lw.Domain, l2: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 4))
    y = np.where(X @ [1.0, -2.0, 0.0, 0.5] + rng.normal(size=40) > 0, 1.0, -1.0)
    for intercept in (False, True):
        problem = lw.Robust(lw.LinearModel(X, y, l2=l2, intercept=intercept), lw.ChiSquare(penalty=0.5))
        algorithm = lw.Nesterov(lw.Minibatch(40, replace=False))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lw.ConvergenceWarning)
            best = lw.minimize(problem, algorithm=algorithm, domain=domain, max_passes=2000, tol=1e-9).fun
        for scale in (0.0, 0.3, 1.0):
            w = scale * rng.normal(size=problem.dim)
            w[:4] = domain.project(w[:4]) if domain.feasible_set else w[:4]
            gap = certify(problem, w, domain=domain).gap
            if gap is None:  # no finite bound: only without l2, for a term that does not bound w, before any scaling
                assert l2 == 0.0
                assert not domain.feasible_set
                continue
            assert problem.value(w) + domain.value(w[:4]) - best <= gap + 1e-9


def test_no_certificate_without_l2_and_without_a_domain() -> None:
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 3.0])
    problem = lw.Robust(lw.LinearModel(X, y, "squared"))
    assert certify(problem, np.zeros(2)).gap is None


def test_no_certificate_for_a_risk_that_is_not_convex() -> None:
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 3.0])
    problem = lw.Robust(lw.LinearModel(X, y, "squared", l2=1.0), lw.Tilted(-1.0))
    assert certify(problem, np.zeros(2)).gap is None


def test_gap_of_the_natural_dual_point_is_the_squared_gradient_over_twice_l2() -> None:
    rng = np.random.default_rng(0)
    problem = lw.Robust(
        lw.LinearModel(rng.normal(size=(20, 3)), rng.normal(size=20), "squared", l2=0.5, intercept=False),
        lw.KL(penalty=1.0),
    )
    w = rng.normal(size=3)
    gradient = problem.evaluate(w).gradient
    assert certify(problem, w).gap == pytest.approx(gradient @ gradient, rel=1e-12)
