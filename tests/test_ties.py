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
