"""Proximal Newton: optima with feasible sets and prox terms, certified, with the same bits whatever stops the run."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

import leeward as lw

RNG = np.random.default_rng(7)
X = RNG.normal(size=(400, 6))
W = np.array([1.0, -2.0, 0.5, 0.0, 0.0, 0.3])
LABELS = np.sign(X @ W + 0.7 * RNG.normal(size=400))
TARGETS = X @ W + RNG.standard_t(3, size=400)
DOMAINS = [
    None,
    lw.Box(-0.2, 0.3),
    lw.Simplex(1.5),
    lw.L1Ball(0.8),
    lw.L2Ball(0.7),
    lw.L1(0.05),
    lw.ElasticNet(0.02, 0.1),
]
RISKS = [
    lw.Mean(),
    lw.CVaR(0.2),
    lw.ChiSquare(radius=0.5),
    lw.ChiSquare(penalty=1.0),
    lw.KL(radius=0.2),
    lw.KL(penalty=0.5),
]


def logistic(risk: lw.Risk, l2: float = 1e-2, data: np.ndarray = X) -> lw.Robust:
    return lw.Robust(lw.LinearModel(data, LABELS, "logistic", l2=l2), risk)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_every_risk_and_domain_ends_with_a_certificate(risk: lw.Risk, domain: lw.Domain | None) -> None:
    problems = [logistic(risk), lw.Robust(lw.LinearModel(X, TARGETS, "squared", l2=1e-2), risk)]
    problems.append(lw.Robust(lw.LinearModel(X, TARGETS, "absolute", l2=1e-2), risk))
    for problem in problems:
        result = lw.minimize(problem, algorithm=lw.ProximalNewton(), domain=domain)
        assert result.status is lw.Status.CONVERGED, result.message
        assert result.gap is not None
        assert result.gap <= (1e-6 if problem.smooth else 1e-4) * abs(result.fun)


@pytest.mark.parametrize("seed", range(5))
def test_a_box_gives_the_optimum_of_a_bounded_quasi_newton_method(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(300, 5)) * 10.0 ** rng.integers(-2, 3, size=5)
    labels = np.sign(rng.normal(size=300) + data @ np.ones(5))
    problem = lw.Robust(lw.LinearModel(data, labels, l2=1e-3), lw.ChiSquare(penalty=1.0))
    box = lw.Box(-0.05, 0.1)
    result = lw.minimize(problem, algorithm=lw.ProximalNewton(), domain=box, tol=1e-10)

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        e = problem.evaluate(w)
        return e.value, e.gradient

    bounds = [(-0.05, 0.1)] * 5 + [(None, None)]
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000, "maxfun": 50000}
    other = optimize.minimize(objective, np.zeros(6), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    assert result.fun <= other.fun + 1e-9 * abs(other.fun)
    assert result.fun - result.gap <= other.fun
    assert np.all(result.x[:5] >= -0.05)
    assert np.all(result.x[:5] <= 0.1)


def test_the_lasso_meets_its_optimality_conditions() -> None:
    strength, l2 = 0.05, 1e-3
    problem = lw.Robust(lw.LinearModel(X, TARGETS, "squared", l2=l2), lw.Mean())
    w = lw.minimize(problem, algorithm=lw.ProximalNewton(), domain=lw.L1(strength), tol=1e-12).x
    gradient = problem.evaluate(w).gradient
    assert abs(gradient[6]) < 1e-5
    for j in range(6):
        if w[j] != 0.0:
            assert gradient[j] == pytest.approx(-strength * np.sign(w[j]), abs=1e-5)
        else:
            assert abs(gradient[j]) <= strength + 1e-5
    assert np.count_nonzero(w[:6] == 0.0) >= 1


def test_columns_of_any_scale_give_the_same_optimum() -> None:
    scales = np.array([1e-6, 1e-3, 1.0, 1e3, 1e6, 1e2])
    plain = lw.minimize(logistic(lw.Mean(), 0.0), algorithm=lw.ProximalNewton(), domain=lw.Box(-0.2, 0.3), tol=1e-9)
    box = lw.Box(-0.2 / scales, 0.3 / scales)
    scaled = lw.minimize(logistic(lw.Mean(), 0.0, X * scales), algorithm=lw.ProximalNewton(), domain=box, tol=1e-9)
    assert scaled.fun == pytest.approx(plain.fun, rel=1e-8)
    np.testing.assert_allclose(scaled.x[:6] * scales, plain.x[:6], atol=2e-4)


def test_a_softmax_model_stays_in_its_set() -> None:
    labels = RNG.integers(0, 3, size=400)
    problem = lw.Robust(lw.LinearModel(X, labels, "softmax", l2=1e-3), lw.CVaR(0.5))
    result = lw.minimize(problem, algorithm=lw.ProximalNewton(), domain=lw.L2Ball(0.5))
    assert result.success
    assert np.linalg.norm(result.x[:18]) <= 0.5 * (1 + 1e-12)


def test_subsamples_come_first_on_large_data() -> None:
    rng = np.random.default_rng(1)
    data = rng.normal(size=(40_000, 5))
    y = np.sign(data @ np.ones(5) + rng.normal(size=40_000))
    problem = lw.Robust(lw.LinearModel(data, y, l2=1e-4), lw.ChiSquare(radius=0.5))
    with_pilot = lw.minimize(problem, algorithm=lw.ProximalNewton(), domain=lw.Box(-1, 0.5))
    without = lw.minimize(problem, algorithm=lw.ProximalNewton(pilot=False), domain=lw.Box(-1, 0.5))
    assert with_pilot.success
    assert without.success
    assert with_pilot.fun == pytest.approx(without.fun, rel=2e-6)
    assert with_pilot.passes < without.passes


def test_bits_do_not_depend_on_threads() -> None:
    problem = logistic(lw.CVaR(0.2))
    one, two, three = (
        lw.minimize(problem, algorithm=lw.ProximalNewton(), domain=lw.L1(0.01), threads=t) for t in (1, 2, 3)
    )
    assert one.x.tobytes() == two.x.tobytes() == three.x.tobytes()
    assert one.fun == two.fun == three.fun


def test_a_stopped_run_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    problem, domain = logistic(lw.CVaR(0.2)), lw.Box(-0.2, 0.3)
    whole = lw.minimize(problem, algorithm=lw.ProximalNewton(), domain=domain)
    file = lw.Checkpoint(os.fspath(tmp_path / "run"), every=0.0)
    stop = whole.passes / 2
    with pytest.warns(lw.ConvergenceWarning, match="budget"):
        part = lw.minimize(problem, algorithm=lw.ProximalNewton(), domain=domain, max_passes=stop, checkpoint=file)
    assert part.passes < whole.passes
    rest = lw.minimize(problem, algorithm=lw.ProximalNewton(), domain=domain, checkpoint=file)
    assert rest.x.tobytes() == whole.x.tobytes()
    assert rest.passes == whole.passes


def test_it_is_the_choice_for_a_domain_on_a_linear_model() -> None:
    result = lw.minimize(logistic(lw.CVaR(0.2)), domain=lw.Simplex())
    assert isinstance(result.algorithm, lw.ProximalNewton)
    assert "ProximalNewton was chosen" in result.message


def test_what_it_cannot_do_is_refused() -> None:
    oracle = lw.FunctionOracle(
        losses=lambda w, i: w[0] * np.ones(len(i)), gradient=lambda w, q, i: np.array([q.sum()]), size=3, dim=1
    )
    with pytest.raises(ValueError, match="convex linear model with at most 1500 coordinates"):
        lw.minimize(lw.Robust(oracle), algorithm=lw.ProximalNewton(), domain=lw.Box(-1, 1))
    with pytest.raises(ValueError, match="max_iterations must be at least 1, got 0"):
        lw.ProximalNewton(max_iterations=0)
    with pytest.raises(ValueError, match="smoothing must be positive and finite, got -1"):
        lw.ProximalNewton(smoothing=-1.0)


def test_a_limit_of_steps_is_reported() -> None:
    with pytest.warns(lw.ConvergenceWarning):
        result = lw.minimize(logistic(lw.CVaR(0.2)), algorithm=lw.ProximalNewton(max_iterations=1), domain=lw.L1(0.01))
    assert result.status is lw.Status.BUDGET
    assert "limit of 1 Newton steps" in result.message
