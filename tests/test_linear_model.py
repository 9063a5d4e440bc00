"""Linear models against their NumPy twins, for every loss, layout and batch."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import leeward as lw

sys.path.insert(0, str(Path(__file__).parent))
from reference import linear as twin

LOSSES = [
    lw.losses.Squared(),
    lw.losses.Huber(0.7),
    lw.losses.Absolute(),
    lw.losses.Absolute(smoothing=0.3),
    lw.losses.Quantile(0.2),
    lw.losses.Quantile(0.2, smoothing=0.5),
    lw.losses.Logistic(),
    lw.losses.Softmax(4),
    lw.losses.Hinge(),
    lw.losses.Hinge(smoothing=0.4),
    lw.losses.SquaredHinge(),
    lw.losses.Poisson(),
    lw.losses.Sigmoid(),
    lw.losses.Cauchy(0.7),
    lw.losses.GemanMcClure(0.7),
    lw.losses.Tukey(1.5),
]
MARGIN = {"logistic", "hinge", "squared_hinge", "sigmoid"}


def problem(loss, n=83, d=21, dtype=np.float64, kind="dense", seed=0):
    """Return X as given to the model, X dense, labels, and a point."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    if kind == "csr":
        X *= rng.random((n, d)) < 0.3
    if loss.name in MARGIN:
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    elif loss.name == "softmax":
        y = rng.integers(0, 4, n).astype(float)
    elif loss.name == "poisson":
        y = rng.poisson(1.0, n).astype(float)
    else:
        y = rng.standard_normal(n)
    outputs = 4 if loss.name == "softmax" else 1
    w = 0.3 * rng.standard_normal(outputs * (d + 1))
    return (sparse.csr_array(X) if kind == "csr" else X), X, y, w


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_losses_gradients_slopes_and_curvatures_agree_with_numpy(loss, kind, dtype):
    given, X, y, w_full = problem(loss, dtype=dtype, kind=kind)
    rng = np.random.default_rng(1)
    for intercept, batch in itertools.product((True, False), (None, rng.integers(0, 83, 40))):
        model = lw.LinearModel(given, y, loss, intercept=intercept)
        C = model.n_outputs
        w = w_full if intercept else w_full[: C * 21]
        assert model.dim == w.size
        assert model.penalised == C * 21
        rows = slice(None) if batch is None else batch
        weights = rng.standard_normal(83 if batch is None else batch.size)
        z = twin.scores(w, X[rows], C, intercept)
        value, slope = twin.value_slope(loss, z, y[rows])
        gradient = twin.gradient(w, weights, X[rows], y[rows], loss, C, intercept)
        np.testing.assert_allclose(model.losses(w, batch), value, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(model.slopes(w, batch), slope, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(model.gradient(w, weights, batch), gradient, rtol=1e-11, atol=1e-12)
        if batch is None:
            np.testing.assert_allclose(model.scores(w), z, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(model.conjugate(slope), twin.conjugate(loss, slope, y), rtol=1e-11, atol=1e-13)
            # Fenchel-Young with equality at the slope: l(z) + l*(s) = s z.
            product = slope * z if C == 1 else (slope * z).sum(1)
            if loss.convex:
                np.testing.assert_allclose(value + model.conjugate(slope), product, rtol=1e-11, atol=1e-12)
            v = rng.standard_normal(slope.shape)
            r = v.reshape(83, C).T
            adjoint = np.concatenate([(r @ X.astype(float)).ravel(), r.sum(1) if intercept else []])
            np.testing.assert_allclose(model.adjoint(v), adjoint, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("outputs", [2, 3, 5, 7, 12, 70])
@pytest.mark.parametrize("cols", [1, 7, 8, 16, 19, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_outputs_taken_together_equal_numpy_and_do_not_depend_on_each_other(
    outputs: int, cols: int, dtype: type
) -> None:
    rng = np.random.default_rng(outputs * 100 + cols)
    X = rng.normal(size=(23, cols)).astype(dtype)
    y = np.arange(23) % outputs
    y[:outputs] = np.arange(outputs)[: len(y)]
    if outputs > 23:
        X, y = np.tile(X, (4, 1)), np.arange(92) % outputs
    model = lw.LinearModel(X, y, "softmax")
    w = rng.normal(size=model.dim)
    W, b = w[: outputs * cols].reshape(outputs, cols), w[outputs * cols :]
    scores = X.astype(np.float64) @ W.T + b
    np.testing.assert_allclose(model.scores(w), scores, rtol=1e-12, atol=1e-12)
    q = rng.normal(size=model.size)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    s = e / e.sum(axis=1, keepdims=True)
    s[np.arange(len(y)), y] -= 1.0
    g = np.concatenate([((q[:, None] * s).T @ X.astype(np.float64)).ravel(), (q[:, None] * s).sum(axis=0)])
    np.testing.assert_allclose(model.gradient(w, q), g, rtol=1e-11, atol=1e-11)
    some = np.array([5, 0, 22, 5, 7])
    assert model.losses(w, some).tobytes() == model.losses(w)[some].tobytes()
    alone = np.stack([model.scores(w, X[i : i + 1])[0] for i in some])
    assert alone.tobytes() == model.scores(w)[some].tobytes()
