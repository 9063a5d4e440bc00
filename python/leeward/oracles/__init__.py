"""Oracles: per-sample losses of a batch, and one weighted sum of their gradients."""

from __future__ import annotations

from leeward.oracles._base import Oracle
from leeward.oracles._function import FunctionOracle, from_vjp
from leeward.oracles._linear import LinearModel

__all__ = ["FunctionOracle", "LinearModel", "Oracle", "from_vjp"]
