"""The operators registered with PyTorch: ``leeward::risk`` and its second derivative ``leeward::risk_curve``.

Compiled and exported programs and tensor subclasses call them; they have fake, autograd and vmap rules. The transforms of ``torch.func``
take autograd functions in place of operators, so `transformed` wraps them.
"""

from __future__ import annotations

from typing import Any

import torch

from leeward.torch._families import risk_named
from leeward.torch._rows import bend, solve_rows

__all__ = ["product", "transformed"]


RISK = "(Tensor losses, Tensor? base, str risk, str engine) -> (Tensor value, Tensor weights, Tensor dual)"
_NO_THIRD = "a risk has no third derivative here"
CURVE = "(Tensor losses, Tensor? base, Tensor weights, Tensor dual, Tensor vector, str risk) -> Tensor"


@torch.library.custom_op("leeward::risk", mutates_args=(), schema=RISK)
def _risk(losses: Any, base: Any, risk: str, engine: str) -> Any:
    return solve_rows(losses.detach(), base, risk_named(risk), engine)


@_risk.register_fake
def _(losses: Any, base: Any, risk: str, engine: str) -> Any:
    shape = losses.shape
    return losses.new_empty(shape[:-1]), losses.new_empty(shape), losses.new_empty((*shape[:-1], 2))


@torch.library.custom_op("leeward::risk_curve", mutates_args=(), schema=CURVE)
def _curve(losses: Any, base: Any, weights: Any, dual: Any, vector: Any, risk: str) -> Any:
    return bend(losses.detach(), base, weights.detach(), dual.detach(), vector.detach(), risk_named(risk))


@_curve.register_fake
def _(losses: Any, base: Any, weights: Any, dual: Any, vector: Any, risk: str) -> Any:
    return losses.new_empty(vector.shape)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    losses, base, ctx.risk, _ = inputs
    _, weights, dual = output
    ctx.mark_non_differentiable(dual)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(losses, base, weights, dual)


def _backward(ctx: Any, by_value: Any, by_weights: Any, by_dual: Any) -> Any:
    losses, base, weights, dual = ctx.saved_tensors
    grad = None if by_value is None else by_value.unsqueeze(-1) * weights
    if by_weights is not None:
        second = product(losses, base, weights, dual, by_weights, ctx.risk)
        grad = second if grad is None else grad + second
    return grad, None, None, None


_risk.register_autograd(_backward, setup_context=_save)


def _save_curve(ctx: Any, inputs: Any, output: Any) -> None:
    losses, base, weights, dual, _, ctx.risk = inputs
    ctx.save_for_backward(losses, base, weights, dual)


def _backward_curve(ctx: Any, by_product: Any) -> Any:
    if ctx.needs_input_grad[0] and torch.is_grad_enabled():
        raise NotImplementedError(_NO_THIRD)
    losses, base, weights, dual = ctx.saved_tensors
    by_vector = product(losses, base, weights, dual, by_product, ctx.risk)  # H is symmetric
    return None, None, None, None, by_vector, None


_curve.register_autograd(_backward_curve, setup_context=_save_curve)


def _front(tensor: Any, dim: int | None, size: int) -> Any:
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _fold(size: int, in_dims: Any, losses: Any, base: Any) -> tuple[Any, Any, Any]:
    """Return losses and base weights with every dimension before the last one as rows, and the shape of the losses."""
    losses = _front(losses, in_dims[0], size)
    shape = losses.shape
    if base is not None:
        base = _front(base, in_dims[1], size)
        if base.dim() < losses.dim():
            base = base.unsqueeze(1)
        base = base.expand(shape).reshape(-1, shape[-1])
    return losses.reshape(-1, shape[-1]), base, shape


def _risk_rows(info: Any, in_dims: Any, losses: Any, base: Any, risk: str, engine: str) -> Any:
    rows, base, shape = _fold(info.batch_size, in_dims, losses, base)
    value, weights, dual = transformed(rows, base, risk, engine)
    return (value.reshape(shape[:-1]), weights.reshape(shape), dual.reshape(*shape[:-1], 2)), (0, 0, 0)


def _curve_rows(
    info: Any, in_dims: Any, losses: Any, base: Any, weights: Any, dual: Any, vector: Any, risk: str
) -> Any:
    rows, base, shape = _fold(info.batch_size, in_dims, losses, base)
    weights, dual, vector = (
        _front(tensor, dim, info.batch_size) for tensor, dim in zip((weights, dual, vector), in_dims[2:5], strict=True)
    )
    weights, vector = weights.reshape(rows.shape), vector.expand(shape).reshape(rows.shape)
    return product(rows, base, weights, dual.reshape(-1, 2), vector, risk).reshape(shape), 0


_risk.register_vmap(_risk_rows)
_curve.register_vmap(_curve_rows)


class _Transformed(torch.autograd.Function):
    """``leeward::risk`` for the transforms of ``torch.func``."""

    @staticmethod
    def forward(losses: Any, base: Any, risk: str, engine: str) -> Any:
        return torch.ops.leeward.risk(losses, base, risk, engine)

    setup_context = staticmethod(_save)
    backward = staticmethod(_backward)
    vmap = staticmethod(_risk_rows)


class _TransformedCurve(torch.autograd.Function):
    """``leeward::risk_curve`` for the transforms of ``torch.func``."""

    @staticmethod
    def forward(losses: Any, base: Any, weights: Any, dual: Any, vector: Any, risk: str) -> Any:
        return torch.ops.leeward.risk_curve(losses, base, weights, dual, vector, risk)

    setup_context = staticmethod(_save_curve)
    backward = staticmethod(_backward_curve)
    vmap = staticmethod(_curve_rows)


def transformed(losses: Any, base: Any, risk: str, engine: str) -> Any:
    """Return value, weights and dual by the operator, under transforms or not."""
    if torch._C._are_functorch_transforms_active() and not torch.compiler.is_compiling():
        return _Transformed.apply(losses, base, risk, engine)
    return torch.ops.leeward.risk(losses, base, risk, engine)


class _Twice(torch.autograd.Function):
    """Losses whose second derivative is taken: a gradient that comes back to them is part of a third one."""

    @staticmethod
    def forward(ctx: Any, losses: Any) -> Any:
        return losses.view_as(losses)

    @staticmethod
    def backward(ctx: Any, _: Any) -> Any:
        raise NotImplementedError(_NO_THIRD)


def product(losses: Any, base: Any, weights: Any, dual: Any, vector: Any, risk: str) -> Any:
    """Return the second derivative times a vector by the operator, under transforms or not."""
    if torch.compiler.is_compiling():
        return torch.ops.leeward.risk_curve(losses, base, weights, dual, vector, risk)
    if torch._C._are_functorch_transforms_active():
        return _TransformedCurve.apply(losses, base, weights, dual, vector, risk)
    if torch.is_grad_enabled() and losses.requires_grad:
        losses = _Twice.apply(losses)
    return torch.ops.leeward.risk_curve(losses, base, weights, dual, vector, risk)
