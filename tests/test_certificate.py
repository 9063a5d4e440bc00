"""Certificates hold: the bound is never below the true distance from the optimum, and it is tight where a run ends."""

from __future__ import annotations

import warnings

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
UNSMOOTHABLE = (lw.TotalVariation, lw.Spectral)


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
            result = solve(problem, 1e-9, trace="step")
            seen += [*list(zip(result.trace.objective, result.trace.gap, strict=True)), (result.fun, result.gap)]
            best = min(best, result.fun, *result.trace.objective)
            limit = 1e-6 if problem.smooth else 1e-4
            assert result.gap <= limit * max(abs(result.fun), 1e-9), (seed, problem, result)
        for value, gap in seen:
            assert value - best <= gap + 1e-12 * max(abs(value), 1.0), (seed, problem, value, gap, best)
