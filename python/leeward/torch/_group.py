"""The risk of a batch that is spread over the processes of a group: exact weights by all-reduces of a few numbers."""

from __future__ import annotations

from typing import Any

import torch

import leeward as lw
from leeward.torch._families import family_of
from leeward.torch._solve import solve
from leeward.torch._sums import GroupSums

__all__ = ["check_group", "evaluate_group"]


def check_group(group: Any, risk: lw.Risk) -> Any:
    """Return the group that ``process_group`` names; ValueError for risks that need all losses in order."""
    import torch.distributed as dist

    if family_of(risk).kind in ("spectral", "entropic_spectral"):
        raise ValueError(f"{risk!r} needs all losses in order: gather them, or use a risk without a spectrum")
    if group is not True:
        if dist.is_available() and isinstance(group, dist.ProcessGroup):
            return group
        raise TypeError(f"process_group must be a torch.distributed process group, True or None, got {group!r}")
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError("process_group=True needs torch.distributed.init_process_group first")
    return dist.group.WORLD


def evaluate_group(
    losses: Any, base: Any | None, risk: lw.Risk, group: Any, averaged: bool
) -> tuple[Any, tuple[Any, Any]]:
    """Return the value of the whole batch, with a gradient in this process's losses, and (weights, dual)."""
    import torch.distributed as dist

    found: list[Any] = []
    value = _Global.apply(losses, base, risk, group, dist.get_world_size(group) if averaged else 1, found)
    if losses.is_cpu and bool(value.isnan().all()):
        count = torch.tensor([losses.shape[-1]])
        dist.all_reduce(count, group=group)
        if not int(count):
            raise ValueError("losses must have at least one entry, got an empty batch in every process")
    return value, (found[0], found[1])


class _Global(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, losses: Any, base: Any, risk: Any, group: Any, times: int, found: list[Any]) -> Any:
        shape = losses.shape
        rows = losses.detach().reshape(shape[0] if losses.dim() == 2 else 1, shape[-1])
        if base is not None:
            base = base.expand(shape).reshape(rows.shape)
        s = solve(rows, base, family_of(risk), GroupSums(group))
        kind = losses.dtype
        weights = s.weights.reshape(shape).to(kind)
        found += [weights, torch.stack([s.eta, s.multiplier], dim=-1).reshape(*shape[:-1], 2).to(kind)]
        ctx.weights = weights * times
        ctx.save_for_backward(losses)
        return s.value.reshape(shape[:-1]).to(kind)

    @staticmethod
    def backward(ctx: Any, by_value: Any) -> Any:
        weights = ctx.weights
        if torch.is_grad_enabled():
            weights = _Fixed.apply(*ctx.saved_tensors, weights)
        return by_value.unsqueeze(-1) * weights, None, None, None, None, None


class _Fixed(torch.autograd.Function):
    """Weights whose own derivative is refused: dropping it without a word would make gradient penalties wrong."""

    @staticmethod
    def forward(ctx: Any, losses: Any, weights: Any) -> Any:
        return weights.clone()

    @staticmethod
    def backward(ctx: Any, vector: Any) -> Any:
        raise RuntimeError("a risk over a process group has no second derivative")
