"""Robust optima where the losses tie: strong risks on weak signals end there, and the run must certify it quickly."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import leeward as lw

DATA = Path(os.environ.get("LEEWARD_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
STRONG = (
    lw.CVaR(0.1),
    lw.CVaR(0.3),
    lw.Worst(),
    lw.ChiSquare(radius=1.0),
    lw.KL(radius=1.0),
    lw.TotalVariation(0.3),
    lw.Spectral.extremile(10.0),
)


def weak_signal() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    return X, np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 > 0, 1.0, -1.0)


def certified(X: np.ndarray, y: np.ndarray, risk: lw.Risk, l2: float, loss: str = "logistic") -> lw.Result:
    result = lw.minimize(lw.Robust(lw.LinearModel(X, y, loss, l2=l2), risk), threads=1)
    assert result.success, result.message
    assert result.gap <= (1e-6 if risk.smooth else 1e-4) * result.fun
    return result


@pytest.mark.parametrize("risk", STRONG, ids=repr)
@pytest.mark.parametrize("l2", [1e-4, 1e-2])
def test_constant_model_of_a_weak_signal_is_certified_in_few_passes(risk: lw.Risk, l2: float) -> None:
    result = certified(*weak_signal(), risk, l2)
    assert result.fun == pytest.approx(np.log(2.0), rel=1e-4)
    assert result.passes <= 120


@pytest.mark.parametrize(
    "risk", [lw.TotalVariation(0.3), lw.Spectral.extremile(3.0), lw.Spectral.exponential(2.0)], ids=repr
)
def test_risks_that_sort_are_smoothed_and_solved_on_the_full_batch(risk: lw.Risk) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(160, 4))
    y = np.where(X @ [2.0, -1.0, 0.5, 0.0] + 0.5 * rng.logistic(size=160) > 0, 1.0, -1.0)
    result = certified(X, y, risk, 1e-3)
    assert isinstance(result.algorithm, lw.LBFGS)
    assert result.fun < 0.99 * np.log(2.0)
    assert result.passes <= 60


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_tied_margin_losses_are_certified(loss: str) -> None:
    result = certified(*weak_signal(), lw.CVaR(0.1), 1e-3, loss)
    assert result.passes <= 150


@pytest.mark.parametrize("risk", [lw.CVaR(0.1), lw.CVaR(0.3), lw.ChiSquare(radius=1.0), lw.Worst()], ids=repr)
def test_census_incomes_under_strong_risks_are_certified_in_few_passes(risk: lw.Risk) -> None:
    path = DATA / "a9a" / "a9a.npz"
    if not path.exists():
        pytest.skip(f"no data at {path}; set LEEWARD_DATA")
    with np.load(path) as file:
        X = np.unpackbits(file["X_train"], axis=1)[:, :123].astype(np.float32)
        y = file["y_train"].astype(float)
    result = certified(X, y, risk, 1e-4)
    assert result.fun == pytest.approx(np.log(2.0), rel=1e-4)
    assert result.passes <= 100


@pytest.mark.parametrize("seed", [69, 77])
def test_few_samples_whose_worst_case_sits_on_a_vertex_are_certified(seed: int) -> None:
    from test_certificate import random_problem

    problem = random_problem(seed)
    tol = 1e-6 if problem.smooth else 1e-4
    result = lw.minimize(problem, algorithm=lw.LBFGS(), tol=tol, threads=1)
    assert result.success, result.message
    assert result.gap <= tol * result.fun


@pytest.mark.parametrize("risk", [lw.CVaR(0.1), lw.ChiSquare(radius=1.0), lw.TotalVariation(0.3)], ids=repr)
def test_ties_give_the_same_bits_for_any_number_of_threads(risk: lw.Risk) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(12_000, 6))
    problem = lw.Robust(lw.LinearModel(X, np.sign(rng.normal(size=12_000)), l2=1e-3), risk)
    first, second = (lw.minimize(problem, threads=t) for t in (1, 3))
    assert first.success
    assert first.x.tobytes() == second.x.tobytes()
    assert first.gap == second.gap


def test_stopped_run_at_a_tie_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    X, y = weak_signal()
    problem = lw.Robust(lw.LinearModel(X, y, l2=1e-4), lw.CVaR(0.1))
    whole = lw.minimize(problem, threads=1)
    file = lw.Checkpoint(tmp_path / "run.ckpt", every=0.0)
    with pytest.warns(lw.ConvergenceWarning):
        lw.minimize(problem, threads=1, checkpoint=file, max_passes=14)
    again = lw.minimize(problem, threads=1, checkpoint=file)
    assert again.x.tobytes() == whole.x.tobytes()
    assert again.passes == whole.passes
