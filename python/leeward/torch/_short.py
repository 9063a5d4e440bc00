"""The short way of eager calls: one autograd function around the solve.

The dispatch of an operator written in Python costs more than the solve of a mini-batch; the answers are the same.
"""

from __future__ import annotations

from typing import Any

import torch

import leeward as lw
from leeward.torch._families import remember
from leeward.torch._inputs import FULL
from leeward.torch._operator import product, transformed
from leeward.torch._rows import LARGE, solve_rows

__all__ = ["Answer", "evaluate", "evaluate_plain"]

PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
# Looked up once: each call asks all of them.
_compiling = torch.compiler.is_compiling
_transforms = torch._C._are_functorch_transforms_active
_modes = torch._C._len_torch_dispatch_stack
_unwrap = torch._C._functorch.unwrap_if_dead
_STRIDED = torch.strided


class _Weights(torch.autograd.Function):
    """Weights as a function of the losses, made when a backward pass is itself to be differentiated."""

    @staticmethod
    def forward(ctx: Any, losses: Any, base: Any, weights: Any, dual: Any, risk: Any) -> Any:
        ctx.save_for_backward(losses)
        ctx.rest = base, weights, dual, risk
        return weights.clone()

    @staticmethod
    def backward(ctx: Any, vector: Any) -> Any:
        (losses,) = ctx.saved_tensors
        base, weights, dual, risk = ctx.rest
        return product(losses, base, weights, dual, vector, remember(risk)), None, None, None, None


class _Short(torch.autograd.Function):
    """The value, with the weights found kept for the backward pass and for the layer."""

    @staticmethod
    def forward(ctx: Any, losses: Any, answer: Any) -> Any:
        ctx.save_for_backward(losses)
        ctx.answer = answer
        return answer.find(losses)

    @staticmethod
    def backward(ctx: Any, by_value: Any) -> Any:
        answer = ctx.answer
        weights = answer.weights
        if torch.is_grad_enabled():
            weights = _Weights.apply(*ctx.saved_tensors, answer.base, weights, answer.dual, answer.risk)
        if weights.dim() > 1:
            by_value = by_value.unsqueeze(-1)
        return weights * by_value, None


# `Function.apply` asks whether there is a transform, which was done before anything comes to this.
_apply = super(torch.autograd.Function, _Short).apply


class Answer:
    """A question about losses and what its solve found; the numbers of the dual are made into a tensor when asked for."""

    __slots__ = ("_dual", "base", "engine", "risk", "weights")

    def __init__(self, base: Any, risk: lw.Risk, engine: str) -> None:
        self.base, self.risk, self.engine = base, risk, engine

    def find(self, losses: Any) -> Any:
        """Solve, keep the weights and return the value."""
        value, self.weights, self._dual = solve_rows(losses.detach(), self.base, self.risk, self.engine)
        return value

    @property
    def dual(self) -> Any:
        """Eta and multiplier, ``(..., 2)``."""
        if not isinstance(self._dual, torch.Tensor):
            self._dual = torch.tensor((self._dual.eta, self._dual.multiplier), dtype=self.weights.dtype)
        return self._dual


class PlainAnswer(Answer):
    """The same for a mini-batch of the CPU with uniform base weights, where little but the solve should take time."""

    __slots__ = ()
    base, engine = None, "auto"

    def __init__(self, risk: lw.Risk) -> None:
        self.risk = risk

    def find(self, losses: Any) -> Any:
        try:
            self._dual = s = self.risk.solve(losses.numpy(force=True))
        except ValueError:  # losses that are not finite
            return super().find(losses)
        self.weights = torch.from_numpy(s.weights)
        return torch.scalar_tensor(s.value, dtype=losses.dtype)


def evaluate_plain(losses: Any, risk: lw.Risk) -> tuple[Any, Answer] | None:
    """Return the value and what was found, or None where losses are no plain mini-batch, or a program or a transform is made."""
    if (
        _compiling()
        or type(losses) not in PLAIN
        or losses.dim() != 1
        or not losses.is_cpu
        or not 0 < losses.numel() < LARGE
        or losses.dtype not in FULL
        or losses.layout != _STRIDED
        or _transforms()
        or _modes()
    ):
        return None
    answer = PlainAnswer(risk)
    return _apply(_unwrap(losses), answer), answer


def evaluate(losses: Any, base: Any | None, risk: lw.Risk, engine: str, name: str) -> tuple[Any, Any]:
    """Return the value, which autograd can differentiate twice, and what was found: an `Answer`, (weights, dual), or None."""
    if base is None and engine == "auto":
        found = evaluate_plain(losses, risk)
        if found is not None:
            return found
    compiling, within = _compiling(), _transforms()
    if not compiling and not within and type(losses) in PLAIN and not _modes():
        answer = Answer(base, risk, engine)
        return _apply(_unwrap(losses), answer), answer
    value, weights, dual = transformed(losses, base, name, engine)
    if within and not compiling:  # tensors of a transform do not outlive it
        return value, None
    return value, (weights.detach(), dual.detach())
