"""The Gaussian Sinkhorn objective of one sample, by brute force: composite Gauss rules of 16 points on short panels.

    Psi(u, tau) = min_eta  T E f*((l(u + tau s; y) - eta)/T - beta (s^2 + v)) + eta,    T = lam entropy, beta = noise^2/entropy,

with s ~ N(0, 1) and v ~ chi2 with dim - 1 degrees of freedom. Nothing is shared with the package: the part of v is the
regularised incomplete gamma function for chi-square and a second Gauss rule for the smoothed CVaR, eta a bracketed root.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, gammainc, logsumexp

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def loss_parts(name, parameter=0.0):
    """(value(z, y), slope(z, y), kinks(y)) of a loss of one score; the kinks are scores."""
    if name == "logistic":
        return lambda z, y: np.logaddexp(0, -y * z), lambda z, y: -y * expit(-y * z), lambda y: []
    if name == "squared":
        return lambda z, y: (z - y) ** 2 / 2, lambda z, y: z - y, lambda y: []
    if name == "huber":
        d = parameter
        return (
            lambda z, y: np.where(np.abs(z - y) <= d, (z - y) ** 2 / 2, d * np.abs(z - y) - d * d / 2),
            lambda z, y: np.clip(z - y, -d, d),
            lambda y: [y - d, y + d],
        )
    if name == "absolute":
        return lambda z, y: np.abs(z - y), lambda z, y: np.sign(z - y), lambda y: [y]
    if name == "quantile":
        t = parameter
        return (
            lambda z, y: np.where(z < y, t * (y - z), (1 - t) * (z - y)),
            lambda z, y: np.where(z < y, -t, 1 - t),
            lambda y: [y],
        )
    if name == "hinge":
        return lambda z, y: np.maximum(1 - y * z, 0), lambda z, y: np.where(y * z < 1, -y, 0.0), lambda y: [1 / y]
    assert name == "squared_hinge"
    return (
        lambda z, y: np.maximum(1 - y * z, 0) ** 2 / 2,
        lambda z, y: -y * np.maximum(1 - y * z, 0),
        lambda y: [1 / y],
    )


def rule(first, last, breaks, width):
    """Nodes and weights on [first, last], panels no longer than `width`, none across a break."""
    ends = [first, *sorted(b for b in breaks if first < b < last), last]
    edges = np.concatenate(
        [np.linspace(a, b, 1 + math.ceil((b - a) / width))[:-1] for a, b in itertools.pairwise(ends)]
    )
    edges = np.append(edges, last)
    half, centre = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    return (centre[:, None] + half[:, None] * NODES).ravel(), (half[:, None] * WEIGHTS).ravel()


def normal(breaks, first=-14.0, last=14.0, width=0.5):
    s, weight = rule(first, last, breaks, width)
    return s, weight * np.exp(-s * s / 2) / math.sqrt(2 * math.pi)


def kl(loss, u, y, tau, *, lam, entropy, noise, dim):
    """(psi, psi_u, psi_tau) under KL: the cost turns N(0, 1) into a Gaussian of variance rho^2 and adds a constant."""
    value, slope, kinks = loss
    T, rho = lam * entropy, 1 / math.sqrt(1 + 2 * noise**2 / entropy)
    constant = -dim / 2 * T * math.log1p(2 * noise**2 / entropy)
    t = rho * tau
    if t == 0:
        return float(value(u, y)) + constant, float(slope(u, y)), 0.0
    reach = 14 + 1.2 * t / T * np.max(np.abs(slope(u + t * np.array([-14.0, 14.0]), y)))
    s, weight = rule(-reach, reach, [(k - u) / t for k in kinks(y)], 0.25)
    a = value(u + t * s, y) / T - s * s / 2 + np.log(weight / math.sqrt(2 * math.pi))
    total = logsumexp(a)
    r = np.exp(a - total)
    g = slope(u + t * s, y)
    return T * total + constant, r @ g, rho * (r @ (g * s))


def kl_squared(u, y, tau, *, lam, entropy, noise, dim):
    """The closed form of `kl` for (z - y)^2 / 2; infinite outside its domain."""
    T, rho2 = lam * entropy, 1 / (1 + 2 * noise**2 / entropy)
    room = T - rho2 * tau**2
    if room <= 0:
        return math.inf, math.nan, math.nan
    constant = -dim / 2 * T * math.log1p(2 * noise**2 / entropy)
    m = u - y
    value = constant + m * m * T / (2 * room) - T / 2 * math.log(room / T)
    return value, m * T / room, rho2 * tau * (m * m * T / room**2 + T / room)


def chi_square_parts(k, beta):
    """a -> E (a - beta v)_+ and E (a - beta v)_+^2 with v ~ chi2(k), by incomplete gamma functions."""

    def first(a):
        if k == 0:
            return np.maximum(a, 0)
        x = np.maximum(a, 0) / beta / 2
        return np.maximum(a, 0) * gammainc(k / 2, x) - beta * k * gammainc(k / 2 + 1, x)

    def second(a):
        if k == 0:
            return np.maximum(a, 0) ** 2
        b = np.maximum(a, 0)
        p = [gammainc(k / 2 + j, b / beta / 2) for j in range(3)]
        return b * b * p[0] - 2 * b * beta * k * p[1] + beta**2 * k * (k + 2) * p[2]

    return first, second


def smoothed_cvar_parts(k, beta, alpha):
    """a -> E f*(a - beta v) and E (f*)'(a - beta v)."""
    if k == 0:
        v, weight = np.zeros(1), np.ones(1)
    else:
        top = math.sqrt(k)
        q, weight = rule(max(0.0, top - 12), top + 12, [top], 0.5)
        with np.errstate(divide="ignore"):
            log_density = (k - 1) * np.log(q / top) - (q * q - top * top) / 2
        weight = weight * np.exp(log_density)
        v, weight = q * q, weight / weight.sum()
    turn = math.log((1 - alpha) / alpha)

    def ratio(a):
        return expit(np.subtract.outer(a, beta * v) - turn) @ weight / alpha

    def conjugate(a):
        return (np.logaddexp(0, np.subtract.outer(a, beta * v) - turn) @ weight + math.log(1 - alpha)) / alpha

    return ratio, conjugate


def penalised(kind, loss, u, y, tau, *, lam, entropy, noise, dim, alpha=0.1):
    """(psi, psi_u, psi_tau) under "chi_square" or "smoothed_cvar"."""
    value, slope, kinks = loss
    T, beta = lam * entropy, noise**2 / entropy
    chi = kind == "chi_square"
    ratio, other = chi_square_parts(dim - 1, beta) if chi else smoothed_cvar_parts(dim - 1, beta, alpha)
    breaks = [(k - u) / tau for k in kinks(y)] if tau > 0 else []

    def argument(s, eta):  # of f*; for chi-square, 1 more
        return (value(u + tau * s, y) - eta) / T - beta * s * s + (1 if chi else 0)

    def nodes(eta):
        if not chi:
            return normal(breaks)
        grid = np.linspace(-14, 14, 2801)
        a = argument(grid, eta)
        turned = np.flatnonzero(np.sign(a[1:]) != np.sign(a[:-1]))
        roots = [brentq(argument, grid[i], grid[i + 1], args=(eta,), xtol=1e-15) for i in turned]
        near = 0.1 * 4.0 ** -np.arange(18)  # F' is only a power of the distance from a root
        return normal([*breaks, *(r + d for r in roots for d in (0.0, *near, *-near))])

    def excess(eta):
        s, weight = nodes(eta)
        return weight @ ratio(argument(s, eta)) - 1

    low = high = float(value(u, y))
    step = T + abs(low) + 1e-3
    while excess(low) < 0:
        low, step = low - step, 2 * step
    while excess(high) > 0:
        high, step = high + step, 2 * step
    eta = brentq(excess, low, high, xtol=1e-14 * max(1, abs(low)), rtol=1e-15, maxiter=300)
    s, weight = nodes(eta)
    a = argument(s, eta)
    r, g = weight * ratio(a), slope(u + tau * s, y)
    conjugate = (weight @ other(a) - 1) / 2 if chi else weight @ other(a)
    return T * conjugate + eta, r @ g, r @ (g * s)
