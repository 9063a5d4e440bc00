"""Softmax of more than 64 classes, one sample after the other with the classes in lanes: the twin's numbers for any count of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax, xlogy

import leeward as lw
from reference.linear import value_slope

CLASSES = [64, 65, 79, 80, 100, 127, 200, 1000]
ROWS, COLUMNS = 37, 11


def made(classes: int, dtype: type = np.float64, csr: bool = False):
    rng = np.random.default_rng(classes)
    X = rng.standard_normal((ROWS, COLUMNS))
    X = (X * (rng.random(X.shape) < 0.4) if csr else X).astype(dtype)
    y = rng.integers(0, classes, ROWS)
    y[:2] = 0, classes - 1
    model = lw.LinearModel(sparse.csr_array(X) if csr else X, y, "softmax")
    w = rng.standard_normal(model.dim)
    z = X.astype(float) @ w[: classes * COLUMNS].reshape(classes, COLUMNS).T + w[classes * COLUMNS :]
    return model, w, z, X.astype(float), y, rng


@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", CLASSES)
def test_losses_and_gradient_are_those_of_the_twin(classes, dtype, csr):
    model, w, z, X, y, rng = made(classes, dtype, csr)
    q = rng.uniform(-1.0, 1.0, ROWS)
    losses, slopes = value_slope(model.loss, z, y)
    weighted = q[:, None] * slopes
    gradient = np.concatenate([(weighted.T @ X).ravel(), weighted.sum(axis=0)])
    np.testing.assert_allclose(model.losses(w), losses, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(model.gradient(w, q), gradient, rtol=0, atol=1e-13)


@pytest.mark.parametrize("classes", CLASSES)
def test_slopes_curvatures_and_conjugates_are_those_of_numpy(classes):
    model, w, z, _, y, _ = made(classes)
    p, own = softmax(z, axis=1), np.arange(classes) == y[:, None]
    np.testing.assert_allclose(model.slopes(w), p - own, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(model.curvatures(w), p * (1.0 - p), rtol=1e-12, atol=0)
    np.testing.assert_allclose(model.conjugate(p - own), xlogy(p, p).sum(axis=1), rtol=1e-13, atol=0)
    outside = p - own
    outside[:, 1] -= 1.0 + 2.0 * p[:, 1]
    assert np.isinf(model.conjugate(outside)).all()


@pytest.mark.parametrize("classes", [65, 127, 1000])
def test_a_class_with_nearly_all_the_mass_leaves_an_exact_loss_and_slope(classes):
    """exp(-50) per other class, far below the rounding of 1; scores far apart neither overflow nor give NaN."""
    X = np.array([[1.0], [0.0]])  # the second row is there for the number of classes
    for top in (0, classes // 2, classes - 1):
        scores = np.full(classes, -50.0)
        scores[top] = 0.0
        model = lw.LinearModel(X, np.array([top, classes - 1]), "softmax", intercept=False)
        others = (classes - 1) * np.exp(-50.0)
        np.testing.assert_allclose(model.losses(scores)[0], others, rtol=1e-13)
        np.testing.assert_allclose(model.slopes(scores)[0, top], -others, rtol=1e-13)
        assert model.losses(1e300 * scores)[0] == 0.0
        assert model.losses(-1e300 * scores)[0] == 5e301
    tied = lw.LinearModel(X, np.array([0, classes - 1]), "softmax", intercept=False)
    np.testing.assert_allclose(tied.losses(np.full(classes, 3.0)), np.log(classes), rtol=1e-15)


@pytest.mark.parametrize("classes", [65, 200])
def test_bits_depend_neither_on_threads_nor_on_the_batch_nor_on_remembered_scores(classes):
    rng = np.random.default_rng(classes)
    X = rng.standard_normal((3001, 5), dtype=np.float32)
    y = rng.integers(0, classes, 3001)
    y[0] = classes - 1
    fresh = [lw.LinearModel(X, y, "softmax") for _ in range(2)]
    w, q, index = rng.standard_normal(fresh[0].dim), rng.random(3001), rng.integers(0, 3001, 700)

    def results(model, threads):
        parts = [
            model.losses(w, threads=threads),
            model.gradient(w, q, threads=threads),
            model.slopes(w, threads=threads),
        ]
        return [
            a.tobytes()
            for a in (*parts, model.curvatures(w, threads=threads), model.conjugate(parts[2], threads=threads))
        ]

    once = results(fresh[0], 1)
    assert results(fresh[0], 2) == once
    assert results(fresh[0], 3) == once
    assert fresh[1].gradient(w, q).tobytes() == once[1]
    assert fresh[1].losses(w, index).tobytes() == fresh[1].losses(w)[index].tobytes()
