"""Robust training with PyTorch: a risk of the batch's losses in the place of their mean."""

from __future__ import annotations

from leeward.torch._dual import DualLoss
from leeward.torch._mlmc import MLMCLoss, MLMCSampler
from leeward.torch._robust import RobustLoss
from leeward.torch._sinkhorn import SinkhornLoss

__all__ = ["DualLoss", "MLMCLoss", "MLMCSampler", "RobustLoss", "SinkhornLoss"]
