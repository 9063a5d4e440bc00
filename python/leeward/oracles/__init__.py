"""Oracles: per-sample losses of a batch, and one weighted sum of their gradients."""

from __future__ import annotations

from leeward.oracles._base import Oracle
from leeward.oracles._cfunction import CFunctionOracle
from leeward.oracles._dual import dual_oracle
from leeward.oracles._finite_sum_level import FiniteSumLevel
from leeward.oracles._function import FunctionOracle, from_vjp
from leeward.oracles._level import ElementwiseLevel, FunctionLevel, Level, LinearLevel
from leeward.oracles._linear import LinearModel
from leeward.oracles._partitioned import PartitionedModel, Parts
from leeward.oracles._point import PointOracle
from leeward.oracles._sampler import Draws, SamplerOracle

__all__ = [
    "CFunctionOracle",
    "Draws",
    "ElementwiseLevel",
    "FiniteSumLevel",
    "FunctionLevel",
    "FunctionOracle",
    "Level",
    "LinearLevel",
    "LinearModel",
    "Oracle",
    "PartitionedModel",
    "Parts",
    "PointOracle",
    "SamplerOracle",
    "dual_oracle",
    "from_vjp",
]
