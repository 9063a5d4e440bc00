"""The exact Gaussian objective against plain Monte Carlo over the score's and the cost's Gaussian parts."""

from __future__ import annotations

import math

import numpy as np
import pytest

import leeward as lw
from leeward.problems._gaussian import GaussianSmoothing

LAM, ENTROPY, NOISE, TAU, SCORE = 1.5, 0.4, 0.3, 0.8, 0.6
DIVERGENCES = {
    "kl": (lw.divergences.KL(), lambda T: lw.KL(penalty=T)),
    "chi_square": (lw.divergences.ChiSquare(), lambda T: lw.ChiSquare(penalty=T)),
    "smoothed_cvar": (lw.divergences.SmoothedCVaR(0.2), lambda T: lw.SmoothedCVaR(0.2, T)),
}


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("dim", [1, 2, 5, 50, 500])
@pytest.mark.parametrize("draws", [300_000])
def test_monte_carlo_is_within_four_standard_errors(name, dim, draws):
    """At the eta of the drawn points the sample mean of the dual integrand is unbiased up to O(1/draws); its deviation is known."""
    divergence, risk = DIVERGENCES[name]
    T = LAM * ENTROPY
    rng = np.random.default_rng(dim)
    s = rng.normal(size=draws)
    v = rng.chisquare(dim - 1, size=draws) if dim > 1 else 0.0
    z = SCORE + TAU * s
    shifted = np.logaddexp(0.0, -z) - LAM * NOISE**2 * (s * s + v)
    solution = risk(T).solve(shifted)
    r = draws * solution.weights
    centred = shifted - shifted.mean()
    if name == "kl":
        integrand = T * r  # T log E exp: relative error of the mean of exp
    elif name == "chi_square":
        integrand = T * r * r / 2
    else:
        integrand = T * divergence.conjugate((shifted - solution.eta) / T)
    slope = -1.0 / (1.0 + np.exp(z))
    model = lw.LinearModel(np.zeros((1, dim)), np.ones(1))
    value, derivative, spread = GaussianSmoothing(model, divergence, LAM, ENTROPY, NOISE)._solve(
        np.array([SCORE]), TAU, 1
    )
    constant = GaussianSmoothing(model, divergence, LAM, ENTROPY, NOISE).constant
    error = integrand.std() / math.sqrt(draws)
    assert abs(value[0] + constant - solution.value) < 4 * error + 1e-9
    assert error < 0.05 * abs(centred).max()
    for exact, sample in ((derivative[0], slope), (spread[0], slope * s)):
        mean = float(np.sum(solution.weights * sample))
        # the derivative's error with eta solved on the draws, by the delta method with r'(x) at most of the order of r
        deviation = np.sqrt(np.mean((r * (sample - mean)) ** 2)) + np.std(sample)
        assert abs(exact - mean) < 4 * deviation / math.sqrt(draws)
