"""The ball form of Sinkhorn problems: primal and dual values meet, gradients, certificates, words."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import leeward as lw
from leeward._certificate import certify
from leeward.divergences import CressieRead, KLCVaR, SmoothedCVaR

RNG = np.random.default_rng(13)
N, D, M, EPS = 30, 3, 7, 0.2
X = RNG.normal(size=(N, D))
Y = np.sign(X @ [2.0, -2.0, 1.0] + RNG.normal(size=N))
DIVERGENCES = ["kl", "chi2", "pearson", SmoothedCVaR(0.3), CressieRead(1.5), KLCVaR(0.4)]


def ball(divergence: Any = "kl", radius: float = 0.4, **settings: Any) -> lw.SinkhornBall:
    model = lw.LinearModel(X, Y, l2=0.1, sample_weight=settings.pop("sample_weight", None))
    return lw.SinkhornBall(model, divergence, radius=radius, entropy=EPS, draws=M, **({"noise": 0.4} | settings))


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cost", ["sqeuclidean", "l1"])
def test_a_feasible_worst_case_attains_the_dual_value(divergence: Any, weighted: bool, cost: str) -> None:
    """So both are optimal: the weights keep the budget, and their mean loss is ``min_lam lam radius + E Psi(lam)``."""
    weight = np.arange(N, dtype=float) if weighted else None
    p = np.full(N, 1 / N) if weight is None else weight / weight.sum()
    problem = ball(divergence, radius=1.2 if cost == "l1" else 0.45, sample_weight=weight, cost=cost)
    w = RNG.normal(size=D + 1)
    q, lam = problem.worst_case(w), problem.price(w)
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)
    x, y = problem.points()
    losses = np.logaddexp(0, -y * (x @ w[:D] + w[D])).reshape(N, M)
    costs = problem.costs().reshape(N, M)
    f = problem.inner.divergence
    assert f is not None
    factor = 2.0 if divergence == "pearson" else 1.0
    spent = p @ ((q * costs).sum(1) + EPS * factor * f.f(np.minimum(q * M, f.upper)).mean(1))
    assert spent <= problem.radius * (1 + 1e-10)
    value = problem.value(w) - 0.05 * w[:D] @ w[:D]
    assert p @ (q * losses).sum(1) == pytest.approx(value, rel=1e-9)
    priced = lw.Sinkhorn(
        problem.model, divergence, lam=lam, entropy=EPS, draws=M, noise=0.4, cost=cost, common=True, recentre=False
    )
    assert priced.value(w) + lam * problem.radius == pytest.approx(problem.value(w), rel=1e-8)  # 1e-12 where it binds


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
def test_the_gradient_is_that_of_the_value(divergence: Any) -> None:
    problem = ball(divergence)
    w, h = RNG.normal(size=D + 1), 1e-5
    made = problem.evaluate(w)
    assert made.value == pytest.approx(problem.value(w), rel=1e-13)
    difference = [(problem.value(w + h * e) - problem.value(w - h * e)) / (2 * h) for e in np.eye(D + 1)]
    np.testing.assert_allclose(made.gradient, difference, rtol=1e-6, atol=1e-8)
    p = np.full(N, 1 / N)
    bare = made.gradient - 0.1 * np.append(w[:D], 0.0)
    np.testing.assert_allclose(problem.oracle.gradient(w, p), bare, rtol=1e-12)
    np.testing.assert_allclose(problem.oracle.losses(w), made.losses, rtol=1e-13)
    halves = np.arange(0, N, 2), np.arange(1, N, 2)
    parts = [problem.oracle.gradient(w, p[half], half) for half in halves]
    np.testing.assert_allclose(np.sum(parts, axis=0), bare, rtol=1e-11)
    np.testing.assert_array_equal(problem.oracle.losses(w, halves[1]), made.losses[1::2])


@pytest.mark.filterwarnings("ignore:the worst-case weights have collapsed")
@pytest.mark.parametrize("divergence", ["kl", "chi2"])
def test_a_fit_is_certified_and_the_value_rises_with_the_radius(divergence: str) -> None:
    before = -np.inf
    for radius in (0.35, 0.5, 0.8):
        problem = ball(divergence, radius)
        result = lw.minimize(problem)
        assert result.success
        assert result.gap is not None
        assert result.fun > before
        before = result.fun
        w = result.x + 1e-2 * RNG.normal(size=D + 1)
        gap = certify(problem, w).gap
        assert gap is not None
        assert problem.value(w) - result.fun <= gap * (1 + 1e-9) + 1e-9


def test_a_large_budget_reaches_the_worst_points() -> None:
    problem = ball("kl", radius=1e4)
    w = RNG.normal(size=D + 1)
    x, y = problem.points()
    worst = np.logaddexp(0, -y * (x @ w[:D] + w[D])).reshape(N, M).max(axis=1).mean()
    assert problem.value(w) - 0.05 * w[:D] @ w[:D] == pytest.approx(worst, rel=1e-6)


def test_equal_losses_have_their_value() -> None:
    assert ball().value(np.zeros(D + 1)) == pytest.approx(np.log(2), rel=1e-7)


def test_bits_do_not_depend_on_threads_and_copies_agree() -> None:
    problem = ball()
    w = RNG.normal(size=D + 1)
    twin = pickle.loads(pickle.dumps(problem))
    assert repr(twin) == repr(problem)
    for other in (problem.evaluate(w, threads=2), twin.evaluate(w, threads=3)):
        np.testing.assert_array_equal(other.gradient, problem.evaluate(w, threads=1).gradient)


def test_words() -> None:
    with pytest.raises(ValueError, match=r"radius must be above 0\.\d+, the least budget of any distribution"):
        ball(radius=1e-3)
    with pytest.raises(ValueError, match="radius must be positive and finite, got 0"):
        ball(radius=0)
    for algorithm in (lw.SGD(), lw.SVRG(), lw.NestedSGD(), lw.NestedSGD(inner="sgd"), lw.STORM()):
        with pytest.raises(ValueError, match="the price of a ball depends on all samples"):
            lw.minimize(ball(), algorithm=algorithm)
