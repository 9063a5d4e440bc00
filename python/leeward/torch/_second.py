"""The second derivative of a risk applied to a vector, from its worst-case weights.

Where the weights are ``q_i = p_i g((l_i - eta) / nu)`` they move by ``dq_i = c_i (dl_i - deta - s_i dnu)`` with
``c_i = p_i g'(s_i) / nu``; eta keeps their sum, and nu, where a radius binds, the divergence. So the derivative is C less its
projections on 1 and s in the metric of C. Risks with a spectrum or a moved mass and an entropic penalty do this in each block of
samples that share an eta. Risks that are piecewise linear have the derivative 0 almost everywhere.
"""

from __future__ import annotations

from typing import Any

import torch

from leeward.torch._families import Family

__all__ = ["curve"]


def curve(family: Family, losses: Any, base: Any | None, weights: Any, multiplier: Any, vector: Any) -> Any:
    """Return H v ``(m, n)`` for losses, weights and vector ``(m, n)``, multiplier ``(m,)`` and base weights ``(m, n)`` or None."""
    if family.kind in ("mean", "worst", "cvar", "move", "spectral"):
        return torch.zeros_like(vector)
    real = torch.float32 if losses.device.type == "mps" else torch.float64
    q, v, nu = weights.to(real), vector.to(real), multiplier.to(real).unsqueeze(-1)
    p = torch.ones_like(q) if base is None else base.to(real).expand_as(q)
    p = p / p.sum(dim=-1, keepdim=True)
    r = torch.where(p > 0, q / torch.where(p > 0, p, 1.0), 0.0)
    if family.kind.startswith("entropic"):
        found = _in_blocks(family, losses.to(real), p, q, r, v)
    else:
        found = _projected(family, p, q, r, nu, v)
    return found.to(vector.dtype)


def _projected(family: Family, p: Any, q: Any, r: Any, nu: Any, v: Any) -> Any:
    both = family.lam is not None and family.rho is not None
    total = nu + family.lam if both else nu
    held = total > 0  # all mass on the maximum otherwise: constant weights
    slope, s = _slope(family, p, q, r)
    c = torch.where(held, slope / torch.where(held, total, 1.0), 0.0) * family.sign
    out = c * _centred(c, v)
    if family.rho is not None:
        s = _centred(c, s)
        norm = (c * s * s).sum(dim=-1, keepdim=True)
        along = (out * s).sum(dim=-1, keepdim=True) / torch.where(norm > 0, norm, 1.0)
        binds = (norm > 0) & (nu > 0) if both else norm > 0
        out = out - torch.where(binds, along, 0.0) * c * s
    return out


def _centred(c: Any, v: Any) -> Any:
    """v less its mean under c."""
    mass = c.sum(dim=-1, keepdim=True)
    return v - (c * v).sum(dim=-1, keepdim=True) / torch.where(mass != 0, mass, 1.0)


def _slope(family: Family, p: Any, q: Any, r: Any) -> tuple[Any, Any]:
    """Return ``p g'(s)`` and s, up to a constant, as functions of the weights."""
    zero = torch.zeros_like(q)
    if family.kind == "kl":
        return q, torch.where(r > 0, torch.log(torch.where(r > 0, r, 1.0)), 0.0)
    if family.kind == "power":
        k = family.order
        safe = torch.where(r > 0, r, 1.0)
        return torch.where(r > 0, p * safe ** (2 - k), 0.0), torch.where(r > 0, safe ** (k - 1) / (k - 1), 0.0)
    if family.kind == "capped":
        return torch.where(r * family.alpha < 1 - 1e-9, q, 0.0), zero
    return q * (1 - family.alpha * r).clamp(min=0.0), zero  # logistic


def _in_blocks(family: Family, l: Any, p: Any, q: Any, r: Any, v: Any) -> Any:
    """Blocks are the samples with one ``eta_i = l_i - lam log r_i``; the mass of a block stays."""
    lam = family.lam or 1.0
    inside = r > 0
    eta = torch.where(inside, l - lam * torch.log(torch.where(inside, r, 1.0)), torch.nan)
    if family.kind == "entropic_move":  # samples that kept their weight do not move, unless nothing holds the mass
        moved = 0.5 * (q - p).abs().sum(dim=-1, keepdim=True)
        binds = moved >= (family.rho or 0.0) * (1 - 1e-6)
        kept = binds & ((r - 1).abs() < 1e-9)
        inside = inside & ~kept
    size = torch.where(torch.isfinite(eta), eta.abs(), 0.0).amax(dim=-1, keepdim=True) + lam
    order = torch.where(inside, eta, torch.inf).argsort(dim=-1)
    ranked = torch.where(inside, eta, torch.inf).gather(-1, order)
    step = ranked[..., 1:] - ranked[..., :-1] > _tolerance(l) * size
    block = torch.cat([torch.zeros_like(order[..., :1]), step.to(order.dtype).cumsum(dim=-1)], dim=-1)
    weight = torch.where(inside, q, 0.0).gather(-1, order)
    mass = torch.zeros_like(weight).scatter_add(-1, block, weight)
    mean = torch.zeros_like(weight).scatter_add(-1, block, weight * v.gather(-1, order)) / torch.where(
        mass > 0, mass, 1.0
    )
    out = weight * (v.gather(-1, order) - mean.gather(-1, block)) / lam
    return torch.zeros_like(out).scatter(-1, order, out)


def _tolerance(l: Any) -> float:
    return 1e-9 if l.dtype == torch.float64 else 1e-5
