"""What a layer accepts: per-sample losses of a type that has an answer, and which of them count for how much."""

from __future__ import annotations

import warnings
from typing import Any

import torch

__all__ = ["HALF", "counted", "per_sample"]

HALF = (torch.bfloat16, torch.float16)
FULL = (torch.float32, torch.float64)


def per_sample(losses: Any, *, shard: bool = False) -> Any:
    """Return losses of shape (n,) or (m, n) of a type that has an answer; anything else is refused with what to do."""
    if not isinstance(losses, torch.Tensor):
        raise TypeError(f"losses must be a torch.Tensor, got {type(losses).__name__}")
    if losses.dtype not in FULL and losses.dtype not in HALF:
        raise TypeError(f"losses must be float32, float64, bfloat16 or float16, got {losses.dtype}")
    if losses.layout != torch.strided:
        raise TypeError(f"losses must be a dense tensor, got layout {losses.layout}: use losses.to_dense()")
    if losses.dim() == 0:
        warnings.warn(
            'losses is one number, a batch of one: was the mean taken already? Use reduction="none" in the loss before.',
            UserWarning,
            stacklevel=3,
        )
        losses = losses.reshape(1)
    if losses.dim() > 2:
        raise ValueError(
            f"losses must have shape (n,) or (m, n), got {tuple(losses.shape)}: flatten what one risk is to cover"
        )
    if losses.dim() == 2 and losses.shape[1] == 1 and losses.shape[0] > 1 and not shard:
        raise ValueError(
            f"losses of shape {tuple(losses.shape)} would be {losses.shape[0]} batches of one loss each; use losses.squeeze(1)"
        )
    if losses.numel() == 0 and not shard:
        raise ValueError(f"losses must have at least one entry, got an empty batch of shape {tuple(losses.shape)}")
    return losses


def counted(losses: Any, target: Any, ignore_index: int | None, sample_weight: Any, mask: Any) -> tuple[Any, Any]:
    """Return the losses with 0 where they are left out, and the base weights."""
    for name, value in (("sample_weight", sample_weight), ("mask", mask), ("target", target)):
        if value is not None and not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(value).__name__}")
    if target is not None and ignore_index is None:
        raise ValueError(
            "target is read for ignore_index only, and the layer has none: give the losses alone, one a sample"
        )
    if sample_weight is not None:
        if sample_weight.is_complex():
            raise TypeError(f"sample_weight must hold real numbers, got {sample_weight.dtype}")
        if sample_weight.requires_grad:
            raise ValueError("sample_weight must not require a gradient: base weights are constants")
        if sample_weight.shape not in (losses.shape, losses.shape[-1:]):
            raise ValueError(
                f"sample_weight must have shape {tuple(losses.shape[-1:])} or {tuple(losses.shape)}, got {tuple(sample_weight.shape)}"
            )
    kept = None
    if mask is not None:
        if mask.dtype != torch.bool or mask.shape != losses.shape:
            raise ValueError(
                f"mask must be a bool tensor of shape {tuple(losses.shape)}, got {mask.dtype} of shape {tuple(mask.shape)}"
            )
        kept = mask
    if target is not None:
        if target.shape != losses.shape:
            raise ValueError(f"target must have the losses' shape {tuple(losses.shape)}, got {tuple(target.shape)}")
        counted = target != ignore_index
        kept = counted if kept is None else kept & counted
    if kept is None:
        return losses, sample_weight
    losses = torch.where(kept, losses, torch.zeros_like(losses))
    if sample_weight is None:
        return losses, kept.to(torch.float32)
    return losses, torch.where(kept, sample_weight, torch.zeros_like(sample_weight))
