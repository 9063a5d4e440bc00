"""Linear models in plain NumPy: the twin of the compiled losses, gradients, conjugates and curvatures."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_softmax, softmax, xlogy


def clipped(u, lo, hi, mu):
    """max over s in [lo, hi] of s u - mu s^2 / 2, and its maximiser."""
    s = np.where(u > 0, hi, np.where(u < 0, lo, 0.0)) if mu == 0 else np.clip(u / mu, lo, hi)
    s = np.where(np.isfinite(s), s, u)
    return s * u - mu * s**2 / 2, s


def family(loss):
    """(lo, hi, mu, margin?) of a clipped quadratic."""
    mu = loss.smoothing
    return {
        "squared": (-np.inf, np.inf, 1.0, False),
        "huber": (-loss.parameter, loss.parameter, 1.0, False),
        "absolute": (-1.0, 1.0, mu, False),
        "quantile": (-loss.parameter, 1 - loss.parameter, mu, False),
        "hinge": (0.0, 1.0, mu, True),
        "squared_hinge": (0.0, np.inf, 1.0, True),
    }[loss.name]


BOUNDED = ("cauchy", "geman_mcclure", "tukey")


def bounded(loss, r):
    """Value and slope of the losses of a residual that are not convex."""
    c = loss.parameter
    a = (r / c) ** 2
    if loss.name == "cauchy":
        return c**2 / 2 * np.log1p(a), r / (1 + a)
    if loss.name == "geman_mcclure":
        return c**2 / 2 * a / (1 + a), r / (1 + a) ** 2
    rest = np.maximum(1 - a, 0)
    return c**2 / 6 * (1 - rest**3), r * rest**2


def value_slope(loss, z, y):
    """Losses (m,) and slopes (m,) or (m, C) of scores z."""
    if loss.name == "logistic":
        return np.logaddexp(0, -y * z), -y * expit(-y * z)
    if loss.name == "poisson":
        return np.exp(z) - y * z, np.exp(z) - y
    if loss.name == "softmax":
        hot = np.eye(z.shape[1])[y.astype(int)]
        return -(log_softmax(z, axis=1) * hot).sum(1), softmax(z, axis=1) - hot
    if loss.name == "sigmoid":
        return expit(-y * z), -y * expit(y * z) * expit(-y * z)
    if loss.name in BOUNDED:
        return bounded(loss, z - y)
    lo, hi, mu, margin = family(loss)
    value, s = clipped(1 - y * z if margin else z - y, lo, hi, mu)
    return value, (-y * s if margin else s)


def conjugate(loss, s, y):
    """l*(s), without the slack at the border."""
    if not loss.convex:
        return np.where(s == 0, 0.0, np.inf)
    if loss.name == "logistic":
        a = -y * s
        inside = (a >= 0) & (a <= 1)
        return np.where(inside, xlogy(a, a.clip(0)) + xlogy(1 - a, (1 - a).clip(0)), np.inf)
    if loss.name == "poisson":
        t = s + y
        return np.where(t >= 0, xlogy(t, t.clip(0)) - t, np.inf)
    if loss.name == "softmax":
        p = s + np.eye(s.shape[1])[y.astype(int)]
        inside = (p >= -1e-15).all(1) & (abs(p.sum(1) - 1) < 1e-12)
        return np.where(inside, xlogy(p.clip(0), p.clip(0)).sum(1), np.inf)
    lo, hi, mu, margin = family(loss)
    a = -y * s if margin else s
    value = np.where((a >= lo) & (a <= hi), mu * a**2 / 2, np.inf)
    return value - a if margin else value + s * y


def scores(w, X, outputs, intercept):
    """(n,) scores, or (n, C)."""
    d = X.shape[1]
    coef = w[: outputs * d].reshape(outputs, d)
    bias = w[outputs * d :] if intercept else np.zeros(outputs)
    z = X.astype(np.float64) @ coef.T + bias
    return z[:, 0] if outputs == 1 else z


def gradient(w, weights, X, y, loss, outputs, intercept):
    """sum_i weights_i grad l_i(w)."""
    _, s = value_slope(loss, scores(w, X, outputs, intercept), y)
    r = (weights[:, None] * s.reshape(len(y), outputs)).T
    return np.concatenate([(r @ X.astype(np.float64)).ravel(), r.sum(1) if intercept else []])


__all__ = ["clipped", "conjugate", "gradient", "scores", "value_slope"]
