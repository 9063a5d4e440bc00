"""The Gaussian Sinkhorn objective of softmax on given nodes: sums over nodes, one sample at a time, eta a bracketed root.

Psi = min_eta  T sum_k p_k F((l(z + L u_k; y) - eta)/T - beta |u_k|^2) + eta    or, under KL,    T log sum_k p_k exp(l(z + L u_k; y)/T).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax, logsumexp, softmax


def losses(z, y, L, u):
    """Losses (K,) and their slopes (K, C) at the nodes u (K, q)."""
    x = z + u @ L.T
    slopes = softmax(x, axis=1)
    slopes[:, y] -= 1.0
    return -log_softmax(x, axis=1)[:, y], slopes


def kl(z, y, L, u, p, T):
    """(psi, dpsi/dz, dpsi/dL)."""
    l, g = losses(z, y, L, u)
    a = np.log(p) + l / T
    top = logsumexp(a)
    r = np.exp(a - top)
    return T * top, r @ g, (r[:, None] * g).T @ u


def shifted_kl(z, y, L, u, p, T):
    """The same with nodes around the means of the laws tilted by ``exp((x_c - x_y)/T)``; psi alone."""
    exponents = []
    for c in range(len(z)):
        step = L[c] - L[y]
        x = z + (u + step / T) @ L.T
        l = -log_softmax(x, axis=1)[:, y]
        exponents.append(
            np.log(p) + (z[c] - z[y]) / T + step @ step / (2 * T * T) + l / T - logsumexp((x - x[:, [y]]) / T, axis=1)
        )
    return T * logsumexp(exponents)


def penalised(parts, z, y, L, u, p, T, beta):
    """(psi less that of no loss, dpsi/dz, dpsi/dL), with ``parts = (F', F)``."""
    ratio, conjugate = parts
    cost = beta * np.sum(u * u, axis=1)

    def solved(a):
        def excess(eta):
            return p @ ratio(a - cost - eta) - 1

        low = high = float(np.max(a))
        step = 1.0 + float(np.max(cost))
        while excess(low) < 0:
            low, step = low - step, 2 * step
        while excess(high) > 0:
            high, step = high + step, 2 * step
        eta = brentq(excess, low, high, xtol=1e-15, rtol=1e-15, maxiter=500)
        return p @ conjugate(a - cost - eta) + eta, p * ratio(a - cost - eta)

    l, g = losses(z, y, L, u)
    value, r = solved(l / T)
    r = r / r.sum()
    return T * (value - solved(np.zeros_like(l))[0]), r @ g, (r[:, None] * g).T @ u
