"""Risks: objects that turn a vector of losses into a value and the worst-case weights that attain it."""

from __future__ import annotations

from leeward.risks._base import Risk, RiskSolution
from leeward.risks._divergence import KL, ChiSquare, CressieRead, Tilted
from leeward.risks._spectral import Spectral
from leeward.risks._tail import CVaR, KLCVaR, Mean, SmoothedCVaR, TotalVariation, Worst

__all__ = [
    "KL",
    "CVaR",
    "ChiSquare",
    "CressieRead",
    "KLCVaR",
    "Mean",
    "Risk",
    "RiskSolution",
    "SmoothedCVaR",
    "Spectral",
    "Tilted",
    "TotalVariation",
    "Worst",
]
