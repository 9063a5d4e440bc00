"""Softmax models take outputs and rows in groups of registers: any number of either gives the scores and sums of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import leeward as lw


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 19, 20, 66])
def test_losses_and_gradient_are_those_of_numpy_for_any_number_of_classes(classes: int, dtype: type) -> None:
    for rows, columns in ((1, 1), (2, 7), (3, 8), (5, 16), (9, 21), (70, 33)):
        rng = np.random.default_rng(rows)
        X = rng.standard_normal((rows, columns)).astype(dtype)
        y = rng.integers(0, classes, rows)
        y[0] = classes - 1
        model = lw.LinearModel(X, y, "softmax")
        w, q = rng.standard_normal(model.dim), rng.uniform(-1.0, 1.0, rows)
        scores = X.astype(float) @ w[: classes * columns].reshape(classes, columns).T + w[classes * columns :]
        shifted = scores - scores.max(axis=1, keepdims=True)
        total = np.exp(shifted).sum(axis=1)
        losses = np.log(total) - shifted[np.arange(rows), y]
        slopes = q[:, None] * (np.exp(shifted) / total[:, None] - (np.arange(classes) == y[:, None]))
        gradient = np.concatenate([(slopes.T @ X.astype(float)).ravel(), slopes.sum(axis=0)])
        np.testing.assert_allclose(model.losses(w), losses, rtol=0, atol=1e-12 * max(1.0, float(np.abs(scores).max())))
        np.testing.assert_allclose(
            model.gradient(w, q), gradient, rtol=0, atol=1e-12 * max(1.0, float(np.abs(gradient).max()))
        )
        picked = rng.integers(0, rows, 2 * rows + 1)
        np.testing.assert_array_equal(model.losses(w, picked), model.losses(w)[picked])
