"""Robust training with PyTorch: a risk of the batch's losses in the place of their mean."""

from __future__ import annotations

from leeward.torch._robust import RobustLoss

__all__ = ["RobustLoss"]
