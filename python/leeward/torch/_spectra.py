"""Spectral weights by sorting, in PyTorch operations: what a spectrum gives to the samples between two levels."""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["spectral_weights"]


def spectral_weights(y: Any, p: Any, kind: str, parameter: Any) -> Any:
    """Return q ``(m, n)``: ``Phi(mass up to l_i) - Phi(mass below l_i)``, shared by ties in proportion to p."""
    order = y.argsort(dim=-1)
    sorted_y = y.gather(-1, order)
    mass = p.gather(-1, order).cumsum(dim=-1)
    mass = torch.cat([torch.zeros_like(mass[..., :1]), mass / mass[..., -1:]], dim=-1)
    below = mass.gather(-1, torch.searchsorted(sorted_y, y, right=False))
    up_to = mass.gather(-1, torch.searchsorted(sorted_y, y, right=True))
    own = up_to - below
    share = _cumulated(up_to, kind, parameter) - _cumulated(below, kind, parameter)
    return torch.where(p > 0, share * p / torch.where(own > 0, own, 1.0), 0.0)


def _cumulated(u: Any, kind: str, parameter: Any) -> Any:
    """Phi(u), the integral of the spectrum up to u."""
    if kind == "extremile":
        return u**parameter
    if kind == "exponential":  # (e^(r u) - 1) / (e^r - 1), without overflow
        return torch.exp(parameter * (u - 1)) * torch.expm1(-parameter * u) / math.expm1(-parameter)
    cells = torch.tensor(parameter, device=u.device, dtype=u.dtype)
    total = torch.cat([torch.zeros_like(cells[:1]), cells.cumsum(dim=0) / cells.sum()])
    place = u * cells.numel()
    cell = place.floor().clamp(0, cells.numel() - 1).to(torch.int64)
    return total[cell] + (place - cell) * (total[cell + 1] - total[cell])
