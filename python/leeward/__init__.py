"""leeward: distributionally robust and nested stochastic optimisation."""

from __future__ import annotations

from leeward import _core, divergences, losses
from leeward.errors import ConvergenceWarning, LeewardError, OracleError
from leeward.oracles import FunctionOracle, LinearModel, Oracle, from_vjp
from leeward.risks import (
    KL,
    ChiSquare,
    CressieRead,
    CVaR,
    KLCVaR,
    Mean,
    Risk,
    RiskSolution,
    SmoothedCVaR,
    Spectral,
    Tilted,
    TotalVariation,
    Worst,
)

__version__: str = _core.__version__
__all__ = [
    "KL",
    "CVaR",
    "ChiSquare",
    "ConvergenceWarning",
    "CressieRead",
    "FunctionOracle",
    "KLCVaR",
    "LeewardError",
    "LinearModel",
    "Mean",
    "Oracle",
    "OracleError",
    "Risk",
    "RiskSolution",
    "SmoothedCVaR",
    "Spectral",
    "Tilted",
    "TotalVariation",
    "Worst",
    "__version__",
    "divergences",
    "from_vjp",
    "losses",
]
