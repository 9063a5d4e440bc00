"""Sinkhorn problems on draws with losses that have a kink: smoothed on the way, certified for the losses themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize as direct
from scipy.special import logsumexp

import leeward as lw

RNG = np.random.default_rng(31)
N, D = 60, 2
X = RNG.normal(size=(N, D))
SCORE = X @ [1.5, -1.0]
LABELS = (SCORE + RNG.normal(size=N) > 0).astype(int)
REAL = SCORE + 0.5 * RNG.normal(size=N)
WEIGHT = RNG.integers(1, 4, N).astype(float)
LOSSES = ["hinge", "absolute", lw.losses.Quantile(0.8)]
KINDS = ["chi2, l1", "kl", "weighted", "ball"]


def model(loss: Any, **settings: Any) -> lw.LinearModel:
    return lw.LinearModel(X, LABELS if loss == "hinge" else REAL, loss, **{"l2": 1e-2, **settings})


def problem(kind: str, loss: Any, **settings: Any) -> lw.Sinkhorn:
    if kind == "ball":
        return lw.SinkhornBall(model(loss, **settings), "chi2", radius=0.3)
    if kind == "chi2, l1":
        return lw.Sinkhorn(model(loss, **settings), "chi2", cost="l1", common=True)
    weight = {"sample_weight": WEIGHT} if kind == "weighted" else {}
    return lw.Sinkhorn(model(loss, **settings, **weight), noise=0.4, common=True, recentre=False)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_optimum_lies_within_the_certified_gap(kind: str, loss: Any, intercept: bool) -> None:
    made = problem(kind, loss, intercept=intercept)
    rough, fine = lw.minimize(made), lw.minimize(made, tol=1e-7)
    assert "LBFGS" in str(rough.algorithm)
    assert rough.success
    assert fine.success
    assert rough.gap <= 1e-4 * abs(rough.fun)
    assert fine.gap <= 1e-7 * abs(fine.fun)
    assert rough.fun - rough.gap - 1e-12 <= fine.fun <= rough.fun + 1e-12
    assert fine.fun == pytest.approx(made.value(fine.x), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_search_without_derivatives_finds_nothing_below_the_bound(loss: Any) -> None:
    made = problem("weighted", loss)
    result = lw.minimize(made, tol=1e-7)
    points, labels = made.points()
    shift = made.costs()
    p = WEIGHT / WEIGHT.sum()

    def objective(w: Any) -> float:
        z = points @ w[:D] + w[D]
        if loss == "hinge":
            losses = np.maximum(0.0, 1.0 - labels * z)
        else:
            tau = 0.5 if loss == "absolute" else 0.8
            losses = np.maximum(tau * (labels - z), (tau - 1.0) * (labels - z)) * (2.0 if loss == "absolute" else 1.0)
        inner = 0.1 * (logsumexp(((losses - shift) / 0.1).reshape(N, -1), axis=1) - np.log(made.draws))
        return float(p @ inner + 0.5e-2 * w[:D] @ w[:D])

    assert objective(result.x) == pytest.approx(result.fun, abs=1e-10)
    settings = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    found = min(
        direct(objective, result.x + move, method="Nelder-Mead", options=settings).fun for move in (0.0, 0.05, -0.3)
    )
    assert result.fun - result.gap - 1e-12 <= found <= result.fun + 1e-6


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_smoothed_problem_is_below_by_no_more_than_its_loss_says(kind: str, loss: Any) -> None:
    made = problem(kind, loss)
    for strength in (1e-3, 0.3):
        smooth = made.smoothed(strength)
        assert smooth.smooth
        assert not made.smooth
        assert type(smooth) is type(made)
        for w in np.random.default_rng(1).normal(size=(5, D + 1)):
            below = made.value(w) - smooth.value(w)
            assert -1e-12 <= below <= strength * smooth.model.loss.smoothing_gap + 1e-12
            move = np.random.default_rng(2).normal(size=D + 1)
            step = 1e-6
            slope = (smooth.value(w + step * move) - smooth.value(w - step * move)) / (2 * step)
            assert slope == pytest.approx(smooth.evaluate(w).gradient @ move, abs=1e-4)


def test_a_smooth_problem_is_its_own_smoothing() -> None:
    for made in (lw.Sinkhorn(model("hinge")), lw.Sinkhorn(model("squared"), common=True)):
        assert made.smooth
        assert made.smoothed(0.1) is made


def test_the_bits_do_not_depend_on_threads() -> None:
    one, two = (lw.minimize(problem("chi2, l1", "hinge"), threads=threads).x for threads in (1, 2))
    assert one.tobytes() == two.tobytes()
