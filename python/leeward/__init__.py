"""leeward: distributionally robust and nested stochastic optimisation."""

from __future__ import annotations

from leeward import _core, divergences
from leeward.errors import ConvergenceWarning, LeewardError, OracleError

__version__: str = _core.__version__
__all__ = ["ConvergenceWarning", "LeewardError", "OracleError", "__version__", "divergences"]
