"""dual_oracle: its losses are the dual form, its minimum is the risk's, and it takes every method for means of losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leeward as lw
from leeward.testing import check_oracle

RISKS = [
    lw.CVaR(0.3),
    lw.KL(penalty=0.7),
    lw.ChiSquare(penalty=0.5),
    lw.CressieRead(3.0, penalty=0.5),
    lw.KLCVaR(0.3, 0.5),
    lw.SmoothedCVaR(0.3, 0.5),
]


def make_model(**settings: Any) -> lw.LinearModel:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 4))
    return lw.LinearModel(X, X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=80), "huber", l2=0.05, **settings)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_the_mean_at_the_dual_solution_is_the_risk(risk: lw.Risk, weighted: bool) -> None:
    model = make_model(sample_weight=np.arange(80) % 3 if weighted else None)
    problem, dual = lw.Robust(model, risk), lw.Robust(lw.dual_oracle(model, risk))
    w = np.array([0.5, 0.1, -0.3, 1.0, 0.2])
    evaluation = problem.evaluate(w)
    at = np.append(w, evaluation.solution.eta)
    assert dual.value(at) == pytest.approx(evaluation.value, rel=1e-9)
    assert dual.value(at + np.eye(6)[-1] * 0.05) >= evaluation.value - 1e-12
    assert dual.value(at - np.eye(6)[-1] * 0.05) >= evaluation.value - 1e-12
    if risk.smooth:
        np.testing.assert_allclose(dual.evaluate(at).gradient, np.append(evaluation.gradient, 0.0), atol=1e-7)


@pytest.mark.parametrize("risk", [r for r in RISKS if r.smooth], ids=repr)
def test_gradients_match_finite_differences(risk: lw.Risk) -> None:
    check_oracle(lw.dual_oracle(make_model(), risk), np.array([0.4, 0.1, -0.3, 0.8, 0.2, 0.3]))


@pytest.mark.parametrize(
    "algorithm",
    [
        lw.SGD(lw.Minibatch(16), update=lw.Normalized(), step=0.05),
        lw.SVRG(8),
        lw.SCSG(inner_batch=8),
        lw.SGD(lw.Minibatch(16), update=lw.Adam()),
    ],
    ids=repr,
)
def test_methods_for_means_reach_the_robust_optimum(algorithm: lw.Algorithm) -> None:
    model, risk = make_model(), lw.ChiSquare(penalty=0.5)
    result = lw.minimize(lw.dual_oracle(model, risk), algorithm=algorithm, max_passes=200)
    best, problem = lw.minimize(lw.Robust(model, risk)), lw.Robust(model, risk)
    assert problem.value(result.x[:-1]) <= best.fun * 1.02


def test_normalised_moves_all_have_the_length_of_the_step() -> None:
    seen: list[Any] = []
    problem = lw.dual_oracle(make_model(), lw.ChiSquare(penalty=0.5))
    algorithm = lw.SGD(lw.Minibatch(4), update=lw.Normalized(0.5), step=0.01, average=False)
    lw.minimize(problem, algorithm=algorithm, max_passes=1, trace=1, callback=lambda p: seen.append(p.w.copy()))
    lengths = np.linalg.norm(np.diff(np.array(seen), axis=0), axis=1)
    assert len(lengths) == 19  # the last point is not shown
    np.testing.assert_allclose(lengths, 0.01, rtol=1e-12)


@pytest.mark.parametrize(
    ("risk", "words"),
    [
        (lw.ChiSquare(radius=1.0), "a penalty and no radius, got ChiSquare"),
        (lw.Worst(), "a penalty and no radius, got Worst"),
        (lw.ChiSquare(radius=1.0, penalty=0.1), "a penalty and no radius"),
    ],
    ids=repr,
)
def test_other_risks_are_refused(risk: lw.Risk, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        lw.dual_oracle(make_model(), risk)


def test_other_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="oracle must be a leeward oracle"):
        lw.dual_oracle(np.zeros(3), lw.CVaR(0.1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="risk must be a leeward risk"):
        lw.dual_oracle(make_model(), 0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="momentum"):
        lw.Normalized(1.0)
