"""Fits by L-BFGS on the full batch: known answers, hard scalings, stops, checkpoints and bits."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import leeward as lw

L4_X = np.array([[0.0], [1.0], [2.0], [3.0]])
L4_Y = np.array([-1.0, 1.0, -1.0, 1.0])
L4_COUNT = np.array([40.0, 3.0, 2.0, 55.0])
L4_ANSWER = [2.33023085700318, -3.16177745364801]


def classification(n: int, d: int, noise: float = 0.3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.logspace(0, -1, d)
    score = X @ rng.normal(size=d) + noise * rng.logistic(size=n)
    return X, np.where(score > 0, 1.0, -1.0)


def fit(problem: lw.Robust | lw.LinearModel, **options: object) -> lw.Result:
    return lw.minimize(problem, algorithm=lw.LBFGS(), **options)


@pytest.mark.parametrize(
    ("alpha", "intercept", "objective"),
    [(1.0, 2.5, 18.75), (0.75, 10 / 3, 200 / 9), (0.5, 5.0, 25.0), (0.1, 5.0, 25.0)],
)
def test_tail_mass_of_cvar_gives_the_known_intercepts(alpha: float, intercept: float, objective: float) -> None:
    model = lw.LinearModel(np.zeros((4, 1)), np.array([0.0, 0.0, 0.0, 10.0]), loss="squared", l2=1.0)
    result = fit(lw.Robust(model, lw.CVaR(alpha)), tol=1e-9)
    assert 2 * result.fun == pytest.approx(objective, rel=1e-7)  # the loss here has the half
    assert result.x[1] == pytest.approx(intercept, abs=2e-3)


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_weights_are_counts_and_only_their_ratios_matter(scale: float) -> None:
    weighted = lw.LinearModel(L4_X, L4_Y, l2=0.01, sample_weight=scale * L4_COUNT)
    repeated = lw.LinearModel(
        np.repeat(L4_X, L4_COUNT.astype(int), axis=0), np.repeat(L4_Y, L4_COUNT.astype(int)), l2=0.01
    )
    for model in (weighted, repeated):
        result = fit(model, tol=1e-12)
        np.testing.assert_allclose(result.x, L4_ANSWER, rtol=1e-6)
        assert result.fun == pytest.approx(0.125362298622951, rel=1e-11)


def test_row_of_weight_zero_is_as_good_as_absent() -> None:
    model = lw.LinearModel(
        np.append(L4_X, [[1000.0]], axis=0), np.append(L4_Y, 1.0), l2=0.01, sample_weight=np.append(L4_COUNT, 0.0)
    )
    np.testing.assert_allclose(fit(model, tol=1e-12).x, L4_ANSWER, rtol=1e-6)


def test_unscaled_features_reach_the_optimum() -> None:
    X = np.array(
        [
            [0.5, 1.5, -0.5, 2, -1, 0.2, 1.1, -0.7],
            [120000, 90000, 150000, 60000, 110000, 80000, 140000, 70000],
        ]
    ).T
    model = lw.LinearModel(X, np.array([1.0, 1, -1, 1, -1, -1, 1, -1]), l2=0.1)
    result = fit(model, tol=1e-10)
    assert result.fun == pytest.approx(0.380451288620778, rel=1e-10)
    np.testing.assert_allclose(result.x, [1.52747676582111, 1.41192934157879e-5, -2.06841321091765], rtol=1e-4)


BL19_X = np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 3], [1, 0, 1], [0, 1, 0], [2, 0, 0]])
BL19_Y = np.array([11, 13, 8, 10.5, 12, 12])
BL19_W = [13465 / 41812, 17735 / 20906, -40055 / 41812, 115852 / 10453]


@pytest.mark.parametrize(
    "make",
    [
        np.ascontiguousarray,
        np.asfortranarray,
        sparse.csr_matrix,
        sparse.csc_matrix,
        sparse.coo_matrix,
        sparse.csr_array,
    ],
    ids=lambda make: make.__name__,
)
def test_all_formats_give_the_same_model(make: object) -> None:
    result = fit(lw.LinearModel(make(BL19_X), BL19_Y, loss="squared", l2=0.1), tol=1e-12)
    np.testing.assert_allclose(result.x, BL19_W, rtol=1e-6)


def test_float32_data_reach_a_tight_tolerance() -> None:
    model = lw.LinearModel(BL19_X.astype(np.float32), BL19_Y, loss="squared", l2=0.1)
    result = fit(model, tol=1e-10)
    assert result.success
    np.testing.assert_allclose(result.x, BL19_W, rtol=1e-5)


def test_huge_values_are_an_error_that_names_x() -> None:
    X = np.linspace(5e306, 1.7e308, 20).reshape(10, 2)
    with pytest.raises(ValueError, match="X"):
        fit(lw.LinearModel(X, np.tile([1.0, -1.0], 5), l2=0.1))


@pytest.mark.parametrize(
    "risk",
    [lw.Mean(), lw.KL(penalty=1.0), lw.ChiSquare(penalty=1.0), lw.ChiSquare(radius=1.0), lw.CVaR(0.1)],
    ids=repr,
)
@pytest.mark.parametrize("intercept", [True, False])
def test_few_passes_reach_the_certified_gap(risk: lw.Risk, intercept: bool) -> None:
    X, y = classification(30_000, 20, noise=0.02)
    problem = lw.Robust(lw.LinearModel(X, y, l2=1 / len(y), intercept=intercept), risk)
    result = fit(problem)
    tol = 1e-6 if risk.smooth else 1e-4
    assert result.success
    assert result.gap <= tol * result.fun
    assert result.passes < 25


def test_collinear_and_constant_columns_and_more_columns_than_rows_converge() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 40))
    X[:, 1], X[:, 2], X[:, 3] = X[:, 0], 5.0, 0.0
    result = fit(lw.Robust(lw.LinearModel(X, np.sign(X[:, 0] + 0.5), l2=1e-3), lw.ChiSquare(penalty=0.5)))
    assert result.success


def test_separable_data_with_a_tiny_l2_converge() -> None:
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    result = fit(lw.LinearModel(X, np.array([-1.0, -1.0, 1.0, 1.0]), l2=1e-9))
    assert result.success


def test_one_sample_is_solved() -> None:
    result = fit(lw.LinearModel(np.array([[2.0]]), np.array([1.0]), loss="squared", l2=1.0, intercept=False), tol=1e-10)
    assert result.x[0] == pytest.approx(0.4, rel=1e-9)


def test_function_oracle_without_l2_stops_by_the_gradient() -> None:
    a = np.linspace(-1.0, 3.0, 50)
    oracle = lw.FunctionOracle(
        losses=lambda w, i: 0.5 * (w[0] - a[i]) ** 2,
        gradient=lambda w, q, i: np.array([q @ (w[0] - a[i])]),
        size=50,
        dim=1,
        convex=True,
    )
    result = fit(lw.Robust(oracle, lw.ChiSquare(penalty=5.0)), tol=1e-10)
    assert result.success
    assert result.gap is None
    assert result.x[0] == pytest.approx(1.0, abs=1e-8)


def test_same_bits_for_any_number_of_threads() -> None:
    X, y = classification(40_000, 30, noise=0.05)
    for risk in (lw.ChiSquare(radius=1.0), lw.CVaR(0.1)):
        problem = lw.Robust(lw.LinearModel(X, y, l2=1e-4), risk)
        first, *others = (fit(problem, threads=t) for t in (1, 2, 3))
        for other in others:
            assert first.x.tobytes() == other.x.tobytes()
            assert first.gap == other.gap


FIT = """
import sys, numpy as np, leeward as lw
rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 40)) * np.logspace(0, -1, 40)
y = np.where(X @ rng.normal(size=40) + 0.05 * rng.logistic(size=3000) > 0, 1.0, -1.0)
problem = lw.Robust(lw.LinearModel(X, y, l2=1e-3), lw.CVaR(0.2))
calls = 0
def callback(state):
    global calls
    calls += 1
    if len(sys.argv) > 2 and calls == int(sys.argv[2]):
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
checkpoint = lw.Checkpoint(sys.argv[1], every=0.0) if sys.argv[1] != "-" else None
result = lw.minimize(problem, algorithm=lw.LBFGS(), checkpoint=checkpoint, callback=callback, tol=1e-6, trace="step")
print(result.x.tobytes().hex(), result.nfev, len(result.trace))
"""


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", FIT, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="kills by SIGKILL")
def test_run_killed_and_resumed_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole = run_script("-")
    assert whole.returncode == 0, whole.stderr
    file = str(tmp_path / "run.ckpt")
    for call in ("6", "9"):
        assert run_script(file, call).returncode == -signal.SIGKILL
    assert run_script(file).stdout == whole.stdout


def test_stall_is_reported_with_a_warning() -> None:
    X, y = classification(200, 3)
    with pytest.warns(lw.ConvergenceWarning):
        result = fit(lw.LinearModel(X, y, l2=0.1), tol=1e-18)
    assert result.status is lw.Status.STALLED
    assert result.gap <= 1e-12


def test_budget_ends_a_run() -> None:
    X, y = classification(500, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.ConvergenceWarning)
        result = fit(lw.LinearModel(X, y, l2=1e-3), max_passes=3, tol=1e-14)
    assert result.status is lw.Status.BUDGET


@pytest.mark.parametrize(("settings", "error"), [({"memory": 0}, ValueError), ({"memory": 1.5}, TypeError)])
def test_settings_are_checked(settings: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error, match="memory must be"):
        lw.LBFGS(**settings)


def test_domain_is_refused_by_name() -> None:
    X, y = classification(50, 2)
    with pytest.raises(ValueError, match=r"LBFGS does not support the domain L2Ball"):
        lw.minimize(lw.LinearModel(X, y), algorithm=lw.LBFGS(), domain=lw.L2Ball(1.0))
