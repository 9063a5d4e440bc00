"""Robust training with PyTorch: risks of a batch's losses in the place of their mean, optimisers that reduce variance, meta-learning."""

from __future__ import annotations

from leeward.torch import attacks
from leeward.torch._dual import DualLoss
from leeward.torch._maml import MAML
from leeward.torch._mlmc import MLMCLoss, MLMCSampler
from leeward.torch._nested import PMVR, SMVR
from leeward.torch._robust import RobustLoss
from leeward.torch._scsg import SCSG
from leeward.torch._sinkhorn import SinkhornLoss
from leeward.torch._storm import STORM

__all__ = [
    "MAML",
    "PMVR",
    "SCSG",
    "SMVR",
    "STORM",
    "DualLoss",
    "MLMCLoss",
    "MLMCSampler",
    "RobustLoss",
    "SinkhornLoss",
    "attacks",
]
