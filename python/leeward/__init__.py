"""leeward: distributionally robust and nested stochastic optimisation."""

from __future__ import annotations

from leeward import _core, divergences, losses
from leeward.errors import ConvergenceWarning, LeewardError, OracleError
from leeward.oracles import FunctionOracle, LinearModel, Oracle, from_vjp

__version__: str = _core.__version__
__all__ = [
    "ConvergenceWarning",
    "FunctionOracle",
    "LeewardError",
    "LinearModel",
    "Oracle",
    "OracleError",
    "__version__",
    "divergences",
    "from_vjp",
    "losses",
]
