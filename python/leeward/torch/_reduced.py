"""What the optimisers that reduce variance share: gradients at two points of one batch, directions made from them, and the move.

A direction is ``fresh + kept``: fresh comes from gradients of this step, and carries the factor of a gradient scaler until it is
taken out; kept is a part of the optimiser's state.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch

__all__ = ["Gradients", "VarianceReduced", "check_number", "difference"]

Gradients = list[Any]  # of the parameters that train, in their order; None where there is none


def check_number(
    name: str, value: Any, least: float, most: float = math.inf, *, open_below: bool = False, optional: bool = False
) -> None:
    """TypeError unless value is a number; ValueError unless it is between least and most."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number{' or None' if optional else ''}, got {value!r}")
    below = value <= least if open_below else value < least
    if math.isnan(value) or below or value > most or value == math.inf:
        ends = f"{'(' if open_below else '['}{least:g}, {most:g}{')' if most == math.inf else ']'}"
        raise ValueError(f"{name} must be in {ends}, got {value!r}")


class VarianceReduced(torch.optim.Optimizer):
    """Base: parameter groups with lr, momentum and weight_decay, evaluations, and the move by a direction."""

    _settings: ClassVar[tuple[str, ...]] = ("max_norm",)  # of the whole optimiser, not of groups

    def __init__(self, params: Any, defaults: dict[str, Any], max_norm: float | None) -> None:
        check_number("max_norm", max_norm, 0.0, open_below=True, optional=True)
        self.max_norm = max_norm
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters; its options are the optimiser's where it has none of its own."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            check_number("lr", group["lr"], 0.0)
            check_number("momentum", group["momentum"], 0.0, 1.0)
            check_number("weight_decay", group["weight_decay"], 0.0)
            self._check_group(group)
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def _check_group(self, group: dict[str, Any]) -> None:
        """Checks the options that the optimiser has beside those of all."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), **{name: getattr(self, name) for name in self._settings}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a saved state, which is copied."""
        super().load_state_dict(copy.deepcopy(state_dict))

    @property
    def _run(self) -> dict[str, Any]:
        """What the run holds beside the parameters' own state: counters, and values of levels."""
        run: dict[str, Any] = self.state["run"]  # the optimiser's state may have keys that are no parameters
        return run

    def _trained(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"] if p.requires_grad]

    def _frozen(self) -> list[Any]:
        """The parameters that do not train now, but hold something of when they did."""
        return [p for group in self.param_groups for p in group["params"] if not p.requires_grad and p in self.state]

    def _own(self, p: Any, name: str) -> Any:
        """What is stored for a parameter, or None."""
        return self.state[p].get(name) if p in self.state else None

    def _options(self, name: str) -> list[Any]:
        """A group's option for each parameter that trains."""
        return [group[name] for group in self.param_groups for p in group["params"] if p.requires_grad]

    def _gradients(self, closure: Callable[[], Any], params: list[Any]) -> tuple[Any, Gradients]:
        """The closure's loss and its gradients, which are nobody else's."""
        for p in params:
            p.grad = None
        with torch.enable_grad():
            loss = closure()
        found = [p.grad for p in params]
        for p in params:
            p.grad = None
        self._check_dense(found)
        return loss, found

    def _check_dense(self, gradients: Gradients) -> None:
        for gradient in gradients:
            if gradient is not None and gradient.layout != torch.strided:
                raise RuntimeError(
                    f"{type(self).__name__} takes no sparse gradients, got one of shape {tuple(gradient.shape)}: "
                    "use sparse=False in the embedding"
                )

    @contextlib.contextmanager
    def _standing_at(self, name: str) -> Iterator[None]:
        """The parameters at the points stored under this name, with PyTorch's random numbers as they are now, before and after."""
        stored = [p for group in self.param_groups for p in group["params"] if self._own(p, name) is not None]
        here = [p.detach().clone() for p in stored]
        cards = sorted({p.device.index for p in stored if p.device.type == "cuda"})
        with torch.random.fork_rng(devices=cards):
            try:
                self._put(stored, [self.state[p][name] for p in stored])
                yield
            finally:
                self._put(stored, here)

    @staticmethod
    def _put(params: list[Any], values: list[Any]) -> None:
        if params:
            with torch.no_grad():
                torch._foreach_copy_(params, values)
            torch.clear_autocast_cache()  # it holds the parameters as they were

    @torch.no_grad()
    def _direct(self, params: list[Any], fresh: Gradients, kept: Gradients, scaler: Any) -> bool:
        """Puts fresh + kept into the parameters' ``grad``; False where fresh is not finite and a scaler is to see to that."""
        for p, gradient in zip(params, fresh, strict=True):
            p.grad = gradient
        if scaler is not None and scaler.is_enabled():
            scaler.unscale_(self)
            found = [g for g in fresh if g is not None]
            largest = [norm.cpu() for norm in torch._foreach_norm(found, math.inf)] if found else []
            if not all(bool(norm.isfinite()) for norm in largest):
                return False
        there = [(p, part) for p, part in zip(params, kept, strict=True) if part is not None]
        both = [(p.grad, part) for p, part in there if p.grad is not None]
        if both:
            torch._foreach_add_([gradient for gradient, _ in both], [part for _, part in both])
        for p, part in there:
            if p.grad is None:
                p.grad = part.clone()
        return True

    @torch.no_grad()
    def _move(self, factor: float = 1.0) -> None:
        """A step along the directions in ``grad``, by the rules of ``torch.optim.SGD``, its lr times a factor."""
        if self.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._trained(), self.max_norm)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.requires_grad and p.grad is not None]
            if not params:
                continue
            along = [p.grad for p in params]
            if group["maximize"]:
                along = torch._foreach_neg(along)
            if group["weight_decay"]:
                along = torch._foreach_add(along, params, alpha=group["weight_decay"])
            if group["momentum"]:
                for p, direction in zip(params, along, strict=True):
                    if self._own(p, "momentum") is None:
                        self.state[p]["momentum"] = torch.zeros_like(direction)
                buffers = [self.state[p]["momentum"] for p in params]
                torch._foreach_mul_(buffers, group["momentum"])
                torch._foreach_add_(buffers, along)
                along = buffers
            torch._foreach_add_(params, along, alpha=-float(group["lr"]) * factor)
        torch.clear_autocast_cache()

    def _needs(self, closure: Any) -> Callable[[], Any]:
        if not callable(closure):
            raise TypeError(
                f"{type(self).__name__}.step needs a closure that evaluates the loss of this step's batch, calls backward and returns "
                f"the loss, got {closure!r}"
            )
        found: Callable[[], Any] = closure
        return found


def difference(new: Gradients, old: Gradients, factors: list[float]) -> Gradients:
    """``new - factor old``, None counted as 0 where only one is there; the result is nobody else's."""
    out: Gradients = [None] * len(new)
    both = [k for k, (a, b) in enumerate(zip(new, old, strict=True)) if a is not None and b is not None]
    if both:
        parts = torch._foreach_mul([old[k] for k in both], [-factors[k] for k in both])
        torch._foreach_add_(parts, [new[k] for k in both])
        for k, part in zip(both, parts, strict=True):
            out[k] = part
    for k, (a, b) in enumerate(zip(new, old, strict=True)):
        if a is None and b is not None:
            out[k] = b * -factors[k]
        elif b is None and a is not None:
            out[k] = a
    return out
