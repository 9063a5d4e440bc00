"""Stochastic gradients of the dual form: the twin, the intervals, and the optimum of the risk itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import leeward as lw
from leeward.algorithms.dual_sgm import _Dual

RNG = np.random.default_rng(5)
X = RNG.normal(size=(500, 4))
T = X @ np.array([1.0, -1.0, 0.5, 0.0]) + RNG.normal(size=500)
Y = np.sign(T)
RISKS = [
    lw.CVaR(0.3),
    lw.KL(penalty=1.0),
    lw.KL(radius=0.2),
    lw.ChiSquare(penalty=0.5),
    lw.ChiSquare(radius=0.3),
    lw.KLCVaR(0.3, 0.2),
    lw.SmoothedCVaR(0.3, 0.2),
    lw.CressieRead(1.5, penalty=0.5),
    lw.CressieRead(3.0, radius=0.3),
]


def problem(risk: lw.Risk, data: object = X, l2: float = 1e-2) -> lw.Robust:
    return lw.Robust(lw.LinearModel(data, Y, "logistic", l2=l2), risk)  # type: ignore[arg-type]


def dual_of(p: lw.Robust, w: np.ndarray, n: int = 7) -> _Dual:
    return _Dual.at_start(lw.DualSGM(n), p, p.evaluate(w), decaying=True)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize("data", [X, sparse.csr_array(X)], ids=["dense", "csr"])
def test_steps_equal_the_twin(risk: lw.Risk, data: object) -> None:
    p, n = problem(risk, data), 7
    w = np.array([0.3, 0.1, -0.2, 0.4, 0.05])
    dual = dual_of(p, w, n)
    native, draws = dual.start(p, 3), lw.Minibatch(n).start(p, 3)
    eta, e_low, e_high, e_step = dual.eta
    lam, l_low, l_high, l_step = dual.lam
    f, rho, period = risk.divergence, dual.form[2], np.ceil(500 / n)
    assert f is not None
    Z = np.column_stack([X, np.ones(500)])
    for t in range(30):
        index = draws.draw(t)
        margin = Y[index] * (Z[index] @ w)
        losses, slopes = np.logaddexp(0.0, -margin), -Y[index] / (1.0 + np.exp(margin))
        s = (losses - eta) / lam
        r = f.conjugate_grad(s)
        g, value, cost, fine = native.direction(w, t)
        np.testing.assert_allclose(g, (r * slopes) @ Z[index] / n, rtol=1e-10, atol=1e-12)
        assert value == pytest.approx(lam * np.mean(f.conjugate(s)) + eta + lam * rho, rel=1e-10)
        assert cost == n
        assert fine
        fall = 1.0 / np.sqrt(1.0 + t / period)
        paid = np.mean(np.where(r > 0, s * r, 0.0) - f.conjugate(s))
        eta = np.clip(eta - e_step * fall * (1.0 - r.mean()), e_low, e_high)
        lam = np.clip(lam - l_step * fall * (rho - paid), l_low, l_high)
        assert native.eta == pytest.approx(eta, rel=1e-10)
        assert native.lam == pytest.approx(lam, rel=1e-10)
        w = w - 0.1 * g


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_the_dual_variables_start_at_the_exact_solution(risk: lw.Risk) -> None:
    """There the dual objective is the risk, and its gradients in eta and lam vanish."""
    p = problem(risk)
    w = np.array([0.3, 0.1, -0.2, 0.4, 0.05])
    dual, losses, f = dual_of(p, w), p.oracle.losses(w), risk.divergence
    assert f is not None
    eta, lam, rho = dual.eta[0], dual.lam[0], dual.form[2]
    s = (losses - eta) / lam
    assert lam * np.mean(f.conjugate(s)) + eta + lam * rho == pytest.approx(p.evaluate(w).solution.value, rel=1e-9)
    assert dual.eta[1] <= eta <= dual.eta[2]
    assert dual.lam[1] <= lam <= dual.lam[2]


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize("n", [1, 32])
def test_default_steps_reach_the_optimum(risk: lw.Risk, n: int) -> None:
    p = lw.Robust(lw.LinearModel(X, T, lw.losses.Huber(1.0), l2=1e-2), risk)
    best = lw.minimize(p).fun
    result = lw.minimize(p, algorithm=lw.DualSGM(n), max_passes=400)
    assert result.fun <= best + 0.01 * (p.value(np.zeros(5)) - best)
    assert result.gap is not None
    assert result.fun - result.gap <= best


def test_a_domain_holds() -> None:
    result = lw.minimize(problem(lw.CVaR(0.3)), algorithm=lw.DualSGM(16), domain=lw.Box(-0.1, 0.1), max_passes=20)
    assert np.all(np.abs(result.x[:4]) <= 0.1)


def test_bits_do_not_depend_on_threads_or_on_being_stopped(tmp_path: Path) -> None:
    p = problem(lw.ChiSquare(radius=0.3))
    runs = [lw.minimize(p, algorithm=lw.DualSGM(16), max_passes=20, threads=t) for t in (1, 2, 3)]
    assert runs[0].x.tobytes() == runs[1].x.tobytes() == runs[2].x.tobytes()
    file = lw.Checkpoint(tmp_path / "run", every=0.0)
    lw.minimize(p, algorithm=lw.DualSGM(16), max_passes=9, checkpoint=file)
    rest = lw.minimize(p, algorithm=lw.DualSGM(16), max_passes=20, checkpoint=file)
    assert rest.x.tobytes() == runs[0].x.tobytes()


def test_intervals_are_kept() -> None:
    p = problem(lw.CVaR(0.3))
    dual = _Dual.at_start(lw.DualSGM(4, eta_interval=(0.65, 0.66), eta_step=10.0), p, p.evaluate(np.ones(5)), False)
    native = dual.start(p, 0)
    for t in range(50):
        native.direction(np.ones(5), t)
        assert 0.65 <= native.eta <= 0.66


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lw.DualSGM(0), "n must be at least 1, got 0"),
        (lambda: lw.DualSGM(eta_step=-1.0), "eta_step must be finite and at least 0, or None, got -1"),
        (lambda: lw.DualSGM(eta_interval=(1.0, 0.0)), r"eta_interval must hold low <= high, got \(1.0, 0.0\)"),
        (lambda: lw.DualSGM(lam_interval=(0.0, 1.0)), "lam_interval must hold 0 < low <= high"),
        (lambda: lw.DualSGM(step=0.0), "step must be positive and finite"),
        (lambda: lw.DualSGM(decay="cosine"), "decay must be 'auto', 'constant' or 'sqrt', got 'cosine'"),
        (lambda: lw.minimize(problem(lw.Worst()), algorithm=lw.DualSGM()), "DualSGM needs a risk with a dual"),
        (
            lambda: lw.minimize(problem(lw.ChiSquare(radius=1.0, penalty=1.0)), algorithm=lw.DualSGM()),
            "takes a radius or a penalty, not both",
        ),
        (
            lambda: lw.minimize(
                lw.Robust(problem(lw.Mean()).oracle, lw.CVaR(0.5), groups=np.arange(500) % 3), algorithm=lw.DualSGM()
            ),
            "not supported with groups",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]
