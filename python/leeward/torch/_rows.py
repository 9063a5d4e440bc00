"""One solve of each row, and one product with its second derivative: by the core on the CPU, by PyTorch operations elsewhere."""

from __future__ import annotations

import math
from typing import Any

import torch

import leeward as lw
from leeward.torch._families import family_of
from leeward.torch._second import curve
from leeward.torch._solve import solve
from leeward.torch._sums import Sums

__all__ = ["LARGE", "bend", "solve_rows"]

LARGE = 65536  # losses from which the core uses more than one thread


def solve_rows(losses: Any, base: Any | None, risk: lw.Risk, engine: str = "auto") -> tuple[Any, Any, Any]:
    """Return value ``(...)``, weights ``(..., n)`` and dual ``(..., 2)`` (eta and multiplier) of losses ``(n,)`` or ``(m, n)``.

    Losses are float32 or float64 without a graph. Tensors of the CPU are read by the core where they lie; others, and all with
    the engine "torch", take the solver of PyTorch operations. Losses that are not finite answer NaN in their row.
    """
    if engine == "torch" or (not losses.is_cpu and family_of(risk).kind != "entropic_spectral"):
        return _by_operations(losses, base, risk)
    if not losses.is_cpu:  # pooling of neighbours has no form of fixed length
        value, weights, dual = solve_rows(losses.cpu(), None if base is None else base.cpu(), risk)
        return value.to(losses.device), weights.to(losses.device), dual.to(losses.device)
    read = losses.numpy(force=True)  # resolves lazy negation
    if base is not None:
        base = base.to(torch.float64)
        if base.dim() == 2 and losses.dim() == 2:
            return _row_by_row(losses, base, risk)
        base = base.numpy(force=True)
    try:
        s = risk.solve(read, base, threads=torch.get_num_threads() if losses.numel() >= LARGE else None)
    except ValueError:
        if bool(losses.isfinite().all()):
            raise
        return _row_by_row(losses, base if base is None else torch.from_numpy(base), risk)
    if losses.dim() == 1:
        return (
            _scalar(s.value, losses),
            torch.from_numpy(s.weights),
            torch.tensor((s.eta, s.multiplier), dtype=losses.dtype),
        )
    dual = torch.stack([torch.from_numpy(s.eta), torch.from_numpy(s.multiplier)], dim=-1)
    return torch.from_numpy(s.value).to(losses.dtype), torch.from_numpy(s.weights), dual.to(losses.dtype)


def _scalar(value: float, like: Any) -> Any:
    return torch.scalar_tensor(value, dtype=like.dtype)


def _row_by_row(losses: Any, base: Any | None, risk: lw.Risk) -> tuple[Any, Any, Any]:
    """Rows with base weights of their own, or with losses that are not finite."""
    if losses.dim() == 1:
        return _scalar(math.nan, losses), torch.full_like(losses, torch.nan), losses.new_full((2,), torch.nan)
    rows = [
        solve_rows(row, None if base is None else (base[i] if base.dim() == 2 else base), risk)
        for i, row in enumerate(losses)
    ]
    value, weights, dual = (torch.stack(part) for part in zip(*rows, strict=True))
    return value, weights, dual


def _by_operations(losses: Any, base: Any | None, risk: lw.Risk) -> tuple[Any, Any, Any]:
    rows = losses.reshape(-1, losses.shape[-1])
    if base is not None:
        base = base.expand(losses.shape).reshape(rows.shape)
    s = solve(rows, base, family_of(risk), Sums(losses.shape[-1]))
    dual = torch.stack([s.eta, s.multiplier], dim=-1).reshape(*losses.shape[:-1], 2)
    kind = losses.dtype
    return s.value.reshape(losses.shape[:-1]).to(kind), s.weights.reshape(losses.shape).to(kind), dual.to(kind)


def bend(losses: Any, base: Any | None, weights: Any, dual: Any, vector: Any, risk: lw.Risk) -> Any:
    shape = losses.shape
    rows = losses.reshape(-1, shape[-1])
    if base is not None:
        base = base.expand(shape).reshape(rows.shape)
    found = curve(
        family_of(risk),
        rows,
        base,
        weights.reshape(rows.shape),
        dual.reshape(-1, 2)[:, 1],
        vector.expand(shape).reshape(rows.shape),
    )
    return found.reshape(shape)
