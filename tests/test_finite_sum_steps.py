"""Step sizes of SCSG and SVRG that need no tuning: constants, importance sampling, Barzilai-Borwein, line search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import leeward as lw
from leeward.algorithms._finite_sum_steps import constants, row_scaling

STEPS = [None, "theory", "bb", "linesearch"]


def made(kind="dense", *, units=False, weighted=False, l2=0.01, uneven=False, seed=0):
    rng = np.random.default_rng(seed)
    n, d = 400, 12
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < (1.0 if kind == "dense" else 0.4))
    y = np.sign(X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) + 1e-9)
    if units:
        X = X * 10.0 ** np.linspace(-3, 3, d)
    if uneven:
        X[:8] *= 30.0
    weight = rng.integers(0, 3, n).astype(float) if weighted else None
    data = X if kind == "dense" else sparse.csr_array(X)
    return lw.Robust(lw.LinearModel(data, y, l2=l2, sample_weight=weight)), X


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
def test_constants_bound_the_gradients_of_the_samples(kind, weighted):
    problem, X = made(kind, weighted=weighted)
    metric = row_scaling(problem, None, 1)
    found = constants(problem, metric, 1)
    d = X.shape[1]
    p = np.full(len(X), 1 / len(X)) if problem.base is None else problem.base
    top = (X[p > 0] ** 2).max(axis=0)
    np.testing.assert_allclose(metric[:d], 1 / (np.sqrt((p @ X**2) * top) + problem.l2), rtol=1e-12)
    assert metric[d] == 1.0
    per_sample = 0.25 * (X**2 @ metric[:d] + 1.0) + problem.l2 * metric[:d].max()
    np.testing.assert_allclose(found.per_sample, per_sample, rtol=1e-12)
    assert found.largest == pytest.approx(per_sample[p > 0].max(), rel=1e-12)
    assert found.mean == pytest.approx(p @ per_sample, rel=1e-12)


def test_losses_without_constants_have_none():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    for loss in ("absolute", "poisson"):
        problem = lw.Robust(lw.LinearModel(X, rng.poisson(1.0, 30), loss, l2=0.1))
        assert constants(problem, None, 1) is None
        for algorithm in (lw.SVRG(step="theory"), lw.SCSG(sampling="importance")):
            with pytest.raises(ValueError, match="Lipschitz constants"):
                lw.minimize(problem, algorithm=algorithm)


@pytest.mark.parametrize("method", [lw.SVRG, lw.SCSG])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_every_rule_reaches_the_optimum_without_tuning(kind, step, method):
    problem, _ = made(kind)
    result = lw.minimize(problem, algorithm=method(step=step), tol=1e-3 if step == "theory" else 1e-6, max_passes=3000)
    assert result.success, result.message


@pytest.mark.parametrize("step", [None, "bb", "linesearch"])
def test_features_of_any_unit_need_no_scaling(step):
    problem, _ = made(units=True, l2=1e-8)
    result = lw.minimize(problem, algorithm=lw.SVRG(step=step), max_passes=60, tol=0)
    best = lw.minimize(problem, algorithm=lw.LBFGS()).fun
    assert result.fun <= best * 1.05


@pytest.mark.parametrize("method", [lw.SVRG, lw.SCSG])
def test_importance_sampling_is_unbiased_and_faster_where_samples_are_uneven(method):
    problem, _ = made(uneven=True, l2=1e-3)
    best = lw.minimize(problem, algorithm=lw.LBFGS(), tol=1e-11).fun
    excess = {}
    for sampling in ("uniform", "importance"):
        run = lw.minimize(problem, algorithm=method(sampling=sampling), max_passes=80, tol=0)
        excess[sampling] = run.fun - best
        assert run.fun >= best - 1e-10
    assert excess["importance"] < 0.3 * excess["uniform"]
    weighted, _ = made(weighted=True)
    assert lw.minimize(weighted, algorithm=method(sampling="importance"), tol=1e-6).success


def test_a_barzilai_borwein_step_is_the_formula():
    """Stages of full batches and two steps each: the moves of stage 2 are made with |d|^2 / (2 d . change)."""
    problem, _ = made(l2=0.1)
    stages = (0, problem.size, 40, 0.0, 3, 2, 1.0, 0.0)
    estimator = problem.staged("SnapshotDifference", stages, 0, None)
    first = 0.05
    estimator.set_barzilai_borwein(first, 1e6, problem.l2, problem.penalised, None)
    points, gradients, w = [], [], np.zeros(problem.dim)
    for t in range(6):
        if t % 2 == 0:
            points.append(w.copy())
            gradients.append(problem.evaluate(w).gradient)
        v = estimator.direction(w, t, 1)[0]
        v[: problem.penalised] += problem.l2 * w[: problem.penalised]
        w = w - first * v
    d, change = points[1] - points[0], gradients[1] - gradients[0]
    run = problem.descent(
        problem.staged("SnapshotDifference", stages, 0, None), ("heavy_ball", [0.0]), np.zeros(problem.dim), domain=None,
        schedule=(first, 0, 1.0), averaging=0, output=(0, 0), metric=None,
    )  # fmt: skip
    plain = run.advance(2, 1e9, 1) and run.answer
    np.testing.assert_allclose(plain, points[1], atol=1e-13)
    bb = problem.staged("SnapshotDifference", stages, 0, None)
    bb.set_barzilai_borwein(first, 1e6, problem.l2, problem.penalised, None)
    adaptive = problem.descent(
        bb, ("heavy_ball", [0.0]), np.zeros(problem.dim), domain=None, schedule=(first, 0, 1.0), averaging=0, output=(0, 0),
        metric=None,
    )  # fmt: skip
    adaptive.advance(2, 1e9, 1)
    before = adaptive.answer
    adaptive.advance(1, 1e9, 1)
    step = (d @ d) / (2.0 * (d @ change))
    np.testing.assert_allclose(before - adaptive.answer, step * gradients[1], rtol=1e-9, atol=1e-13)


def test_a_barzilai_borwein_run_repeats_and_resumes_bit_by_bit(tmp_path):
    problem, _ = made()
    algorithm = lw.SVRG(step="bb")
    whole = lw.minimize(problem, algorithm=algorithm, max_passes=40, tol=0)
    path = tmp_path / "run.npz"
    lw.minimize(problem, algorithm=algorithm, max_passes=20, tol=0, checkpoint=path)
    resumed = lw.minimize(problem, algorithm=algorithm, max_passes=40, tol=0, checkpoint=path)
    assert np.array_equal(resumed.x, whole.x)


def test_the_line_search_needs_no_linear_model():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(200, 6))
    b = A @ rng.normal(size=6) + 0.1 * rng.normal(size=200)
    oracle = lw.FunctionOracle(
        losses=lambda w, i: 0.5 * (A[i] @ w - b[i]) ** 2,
        gradient=lambda w, q, i: A[i].T @ (q * (A[i] @ w - b[i])),
        size=200, dim=6, l2=0.01, convex=True,
    )  # fmt: skip
    for method in (lw.SVRG, lw.SCSG):
        result = lw.minimize(oracle, algorithm=method(step="linesearch"), tol=1e-5)
        assert result.success, result.message


@pytest.mark.parametrize("method", [lw.SVRG, lw.SCSG])
def test_settings_are_checked(method):
    for step in ("fast", 0.0, -1.0, np.inf, True):
        with pytest.raises(ValueError, match="step must be"):
            method(step=step)
    with pytest.raises(ValueError, match="sampling must be"):
        method(sampling="all")
    with pytest.raises(ValueError, match="rule for plain steps"):
        method(step="bb", update=lw.Adam())
