"""The risks that the tests of the PyTorch layer go through, and losses for them."""

from __future__ import annotations

import numpy as np

import leeward as lw
from reference.risk_catalogue import one_of_each

RISKS = [spec.risk for spec in one_of_each()] + [
    lw.TotalVariation(0.25, penalty=0.3),
    lw.Spectral.extremile(2.5, penalty=0.3),
    lw.Spectral([0.0, 0.1, 0.2, 0.7], penalty=0.3),
]
SMOOTH = [risk for risk in RISKS if risk.smooth]
BY_SUMS = [risk for risk in RISKS if not (isinstance(risk, lw.Spectral) and risk.penalty)]  # solved on any device


def batch(*shape: int, seed: int = 0) -> np.ndarray:
    """Return losses without ties."""
    return np.random.default_rng(seed).normal(size=shape)
