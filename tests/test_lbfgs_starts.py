"""How L-BFGS starts: stages of SVRG on small problems, and the diagonal of the curvature where a factor would be too wide."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import leeward as lw
from leeward._precondition import curvature_diagonal
from leeward.algorithms._snapshot_pilot import SnapshotPilot


def small(l2: float, n: int = 800, d: int = 6) -> lw.Robust:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.sign(X @ rng.normal(size=d) + rng.normal(size=n))
    return lw.Robust(lw.LinearModel(X, y, l2=l2))


def wide(kind: str = "logistic") -> lw.Robust:
    """2000 features, the first a thousand times as frequent as the last."""
    rng = np.random.default_rng(1)
    n, d, k = 3000, 2000, 20
    columns = (d * rng.random((n, k)) ** 3).astype(np.int32).ravel()
    X = sparse.csr_array((rng.random(n * k), columns, np.arange(0, n * k + 1, k)), shape=(n, d))
    X.sum_duplicates()
    scores = X @ (2.0 * rng.normal(size=d))
    y = np.digitize(scores, [-0.5, 0.5]) if kind == "softmax" else np.sign(scores + rng.normal(size=n))
    return lw.Robust(lw.LinearModel(X, y, kind, l2=1e-4))


def test_a_well_conditioned_small_problem_is_solved_by_stages_alone() -> None:
    problem = small(0.05)
    result = lw.minimize(problem, algorithm=lw.LBFGS(), tol=1e-9)
    assert result.success
    assert result.trace.samples[-1] < result.trace.gradients[-1]  # samples taken at two points, so stages
    plain = lw.minimize(problem, algorithm=lw.LBFGS(pilot=False), tol=1e-9)
    assert result.fun == pytest.approx(plain.fun, rel=1e-9)


@pytest.mark.parametrize("l2", [0.05, 1e-4, 1e-8])
def test_the_start_changes_nothing_about_the_end(l2: float) -> None:
    problem = small(l2)
    with_pilot, without = (lw.minimize(problem, algorithm=lw.LBFGS(pilot=p), tol=1e-10) for p in (True, False))
    assert with_pilot.success
    assert with_pilot.fun == pytest.approx(without.fun, rel=1e-9)


def test_a_budget_ends_the_stages() -> None:
    for passes in (1, 2, 5):
        result = lw.minimize(small(0.05), algorithm=lw.LBFGS(), max_passes=passes, tol=0)
        assert result.status.name == "BUDGET"
        assert passes <= result.passes <= passes + 1


def test_a_run_stopped_after_its_stages_goes_on_with_the_same_bits(tmp_path) -> None:
    problem = small(1e-3)
    whole = lw.minimize(problem, algorithm=lw.LBFGS(), max_passes=30, tol=0)
    path = lw.Checkpoint(tmp_path / "run", every=0)
    lw.minimize(problem, algorithm=lw.LBFGS(), max_passes=12, tol=0, checkpoint=path)
    resumed = lw.minimize(problem, algorithm=lw.LBFGS(), max_passes=30, tol=0, checkpoint=path)
    assert resumed.fun == whole.fun


def test_other_risks_kinks_and_large_data_have_no_stages() -> None:
    problem = small(0.05)
    w = np.zeros(problem.dim)
    assert SnapshotPilot.of(problem, w, 0, 1) is not None
    for other in (
        lw.Robust(problem.oracle, lw.CVaR(0.5)),
        small(0.05, n=100),
        small(0.0),
        lw.Robust(lw.LinearModel(np.ones((600, 2)), np.ones(600), "absolute", l2=0.1)),
    ):
        assert SnapshotPilot.of(other, np.zeros(other.dim), 0, 1) is None


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_the_diagonal_is_that_of_the_curvature(kind: str) -> None:
    problem = wide(kind)
    model = problem.oracle
    assert isinstance(model, lw.LinearModel)
    w = 0.1 * np.random.default_rng(2).normal(size=problem.dim)
    found = curvature_diagonal(problem, model, w, problem.evaluate(w), 1)
    h = model.curvatures(w).reshape(model.size, -1) / model.size
    X = model.rows() ** 2
    wanted = np.concatenate([(h.T @ X + problem.l2).ravel(), h.sum(0)])
    np.testing.assert_allclose(found.scale**-2, wanted, rtol=1e-10)


def test_features_of_unequal_frequency_cost_few_passes() -> None:
    problem = wide()
    good = lw.minimize(problem, algorithm=lw.LBFGS(), tol=1e-8)
    poor = lw.minimize(problem, algorithm=lw.LBFGS(precondition=False), tol=1e-8)
    assert good.success
    assert good.passes < 0.6 * poor.passes
