"""SVRG, SCSG, SARAH and STORM against their NumPy twins on the same draws, and what must hold of their counts and draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import leeward as lw
from reference import finite_sums as twin
from reference import updates

Vector = NDArray[np.float64]
Index = NDArray[np.int64]
N, D, STEP, SEED = 40, 5, 0.05, 11
LOSSES = [
    "squared",
    lw.losses.Huber(0.7),
    "absolute",
    lw.losses.Quantile(0.3),
    "logistic",
    "softmax",
    "hinge",
    "squared_hinge",
    "poisson",
]


def make_data(loss: Any) -> tuple[Vector, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6)
    score = X @ rng.normal(size=D) + 0.3 * rng.normal(size=N)
    name = loss if isinstance(loss, str) else ""
    if name == "softmax":
        return X, np.digitize(score, [-0.5, 0.5]).astype(float)
    if name == "poisson":
        return X, np.round(np.exp(0.5 * score))
    return X, np.sign(score + 1e-9) if name in ("logistic", "hinge", "squared_hinge") else score


def make_model(loss: Any = "logistic", layout: str = "dense", **settings: Any) -> lw.LinearModel:
    X, y = make_data(loss)
    data = sparse.csr_array(X) if layout == "csr" else X
    return lw.LinearModel(data, y.astype(int) if loss == "softmax" else y, loss=loss, l2=0.1, **settings)


def sum_of(model: lw.LinearModel) -> twin.FiniteSum:
    """The twin's view of a model: its own NumPy gradients from dense rows and the slopes of single samples."""
    rows, C = model.rows(np.arange(N)), model.n_outputs
    Z = np.column_stack([rows, np.ones(N)])

    def gradient(w: Vector, index: Index, weights: Vector) -> Vector:
        slopes = model.slopes(w, index).reshape(len(index), C)
        full = (weights[:, None] * slopes).T @ Z[index]  # (C, d + 1)
        return np.concatenate([full[:, :D].ravel(), full[:, D]])

    return twin.FiniteSum(gradient, N, model.sample_weight, model.l2, model.penalised)


SCHEMES: dict[str, tuple[lw.Algorithm, twin.Rule]] = {
    "scsg": (lw.SCSG(16, 4, step=STEP), twin.Rule(16, 4)),
    "scsg b=1": (lw.SCSG(8, 1, step=STEP), twin.Rule(8, 1)),
    "scsg theory": (lw.SCSG(16, 2, step=STEP, exponent=2 / 3), twin.Rule(16, 2, exponent=2 / 3)),
    "scsg growing": (lw.SCSG("growing", 0.25, step=STEP), twin.Rule("growing", 0.25)),
    "scsg doubling": (lw.SCSG("doubling", 8, step=STEP), twin.Rule("doubling", 8, first=256)),
    "scsg mean": (lw.SCSG(16, 5, inner="mean", step=STEP), twin.Rule(16, 5, "mean")),
    "scsg slices": (lw.SCSG(16, 5, inner="slices", step=STEP), twin.Rule(16, 5, "slices")),
    "svrg": (lw.SVRG(4, step=STEP), twin.Rule(N, 4, "mean")),
    "svrg length": (lw.SVRG(4, inner_steps=7, step=STEP), twin.Rule(N, 4, 7)),
    "svrg geometric": (lw.SVRG(4, inner_steps="geometric", step=STEP), twin.Rule(N, 4, "geometric")),
    "svrg loopless": (lw.SVRG(4, loopless=True, step=STEP), twin.Rule(N, 4, "loopless", chance=0.1)),
}


def check_scheme(
    model: lw.LinearModel, algorithm: lw.Algorithm, rule: twin.Rule, make_update: Callable[[], Any], **run: Any
) -> None:
    """All steps of the twin's stages, to 1e-12, and the counts exactly."""
    f, start = sum_of(model), np.zeros(model.dim)
    path = twin.snapshot(start, f, rule, make_update(), STEP, 5, SEED)
    while path.stages[-1][2] == 0:  # a run ends with a step
        path.count(1, -path.stages.pop()[0])
    seen: list[Vector] = []
    result = lw.minimize(
        model,
        algorithm=algorithm,
        seed=SEED,
        trace="step",
        callback=lambda s: seen.append(s.w),
        max_passes=path.gradients / N,
        **run,
    )
    assert result.nit == len(path.iterates)
    for mine, wanted in zip(seen[1:], path.iterates, strict=False):
        np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(result.x, path.iterates[-1], rtol=1e-12, atol=1e-12)
    assert result.njev == path.gradients
    assert result.samples == path.samples
    assert result.nfev == 0


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("scheme", ["scsg", "scsg b=1", "svrg"])
def test_stages_follow_the_twin_for_every_loss(loss: Any, layout: str, scheme: str) -> None:
    check_scheme(make_model(loss, layout), *SCHEMES[scheme], updates.Plain)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_stages_follow_the_twin_for_every_rule(scheme: str, layout: str) -> None:
    check_scheme(make_model(layout=layout), *SCHEMES[scheme], updates.Plain)
