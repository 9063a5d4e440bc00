"""The inner loop of a stage in plain NumPy: every coordinate moves at every step, nothing is lazy."""

from __future__ import annotations

import numpy as np

from reference.linear import value_slope


def slopes_of(loss, X, w, labels, outputs, intercept):
    """Slopes (m, outputs) of the rows of X at w."""
    d = X.shape[1]
    z = X @ w[: outputs * d].reshape(outputs, d).T + (w[outputs * d :] if intercept else 0.0)
    return value_slope(loss, z if loss.name == "softmax" else z[:, 0], labels)[1].reshape(len(labels), outputs)


def stage(model, X, y, w, index, batch, step, *, gradient, snapshot, factors=None, metric=None, prox=None):
    """w after the steps ``w <- prox(w - step (sum_i f_i (s_i - s~_i) (x_i, 1) + g + l2 w))``; X dense, ``prox(v, steps)``."""
    outputs, d = model.n_outputs, X.shape[1]
    m = np.ones(model.dim) if metric is None else metric
    factors = np.full(len(index), 1.0 / batch) if factors is None else factors
    w = w.copy()
    for k in range(0, len(index), batch):
        rows, f = X[index[k : k + batch]].astype(float), factors[k : k + batch]
        labels = y[index[k : k + batch]]
        r = slopes_of(model.loss, rows, w, labels, outputs, model.intercept)
        if snapshot is not None:
            r = r - slopes_of(model.loss, rows, snapshot, labels, outputs, model.intercept)
        r = f[:, None] * r
        v = np.concatenate([(r.T @ rows).ravel(), r.sum(0) if model.intercept else []]) + gradient
        v[: outputs * d] += model.l2 * w[: outputs * d]
        w = w - step * m * v
        if prox is not None:
            w[: outputs * d] = prox(w[: outputs * d], step * m[: outputs * d])
    return w
