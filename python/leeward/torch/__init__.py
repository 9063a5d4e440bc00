"""Robust training with PyTorch: a risk of the batch's losses in the place of their mean, and optimisers that reduce variance."""

from __future__ import annotations

from leeward.torch._dual import DualLoss
from leeward.torch._mlmc import MLMCLoss, MLMCSampler
from leeward.torch._nested import PMVR, SMVR
from leeward.torch._robust import RobustLoss
from leeward.torch._scsg import SCSG
from leeward.torch._sinkhorn import SinkhornLoss
from leeward.torch._storm import STORM

__all__ = ["PMVR", "SCSG", "SMVR", "STORM", "DualLoss", "MLMCLoss", "MLMCSampler", "RobustLoss", "SinkhornLoss"]
