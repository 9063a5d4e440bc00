"""`STORM` for networks: a direction followed by the difference of this batch's gradients at the present and at the last point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from leeward.torch._reduced import Gradients, VarianceReduced, check_number, difference

__all__ = ["STORM", "Recursive"]


class Recursive(VarianceReduced):
    """Base of what follows ``d <- g + (1 - beta)(d - g_old)``: beta by groups, and the state after a step."""

    def __init__(
        self,
        params: Any,
        lr: float,
        beta: float,
        c: float | None,
        momentum: float,
        weight_decay: float,
        maximize: bool,
        max_norm: float | None,
    ) -> None:
        defaults = {
            "lr": lr, "beta": beta, "c": c, "momentum": momentum, "weight_decay": weight_decay, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults, max_norm)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_number("beta", group["beta"], 0.0, 1.0, open_below=True)
        check_number("c", group["c"], 0.0, open_below=True, optional=True)

    @staticmethod
    def _beta(group: dict[str, Any]) -> float:
        """The weight of this step: c times the square of the last step's lr, where c is given."""
        if group["c"] is None:
            return float(group["beta"])
        return min(1.0, float(group["c"]) * float(group.get("last_lr", group["lr"])) ** 2)

    def _remaining(self) -> list[float]:
        """1 - beta for each parameter that trains."""
        return [1.0 - self._beta(group) for group in self.param_groups for p in group["params"] if p.requires_grad]

    @torch.no_grad()
    def _follow(self, params: list[Any], new: Gradients, old: Gradients, scaler: Any) -> bool:
        """Makes the new direction from the gradients at both points, and moves along it; False where it is left out."""
        remaining = self._remaining()
        before = [self._own(p, "direction") for p in params]
        kept: Gradients = [None] * len(params)
        known = [k for k, d in enumerate(before) if d is not None]
        if known:
            parts = torch._foreach_mul([before[k] for k in known], [remaining[k] for k in known])
            for k, part in zip(known, parts, strict=True):
                kept[k] = part
        old = [None if d is None else g for g, d in zip(old, before, strict=True)]  # first gradients start afresh
        if not self._direct(params, difference(new, old, remaining), kept, scaler):
            return False
        self._store("direction", [p for p in params if p.grad is not None], lambda p: p.grad)
        self._go()
        return True

    @torch.no_grad()
    def _go(self) -> None:
        """Moves along the directions in ``grad``, and remembers from where and with which lr."""
        everyone = [p for group in self.param_groups for p in group["params"]]
        here = [p for p in everyone if self._own(p, "previous") is not None or (p.requires_grad and p.grad is not None)]
        self._store("previous", here, lambda p: p.detach())
        for group in self.param_groups:
            group["last_lr"] = float(group["lr"])
        self._move()

    def _store(self, name: str, params: list[Any], what: Callable[[Any], Any]) -> None:
        """Copies something of each parameter into its state."""
        for p in params:
            if self._own(p, name) is None:
                self.state[p][name] = torch.empty_like(p, requires_grad=False)
        self._put([self.state[p][name] for p in params], [what(p) for p in params])


class STORM(Recursive):
    """Stochastic recursive momentum: variance falls from step to step, without large batches.

    With a batch S a step, taken at the present point w and at the one before::

        d <- grad f_S(w) + (1 - beta) (d - grad f_S(w_before)),      w <- w - lr d

    Parameters
    ----------
    params : iterable
        Tensors, or groups with their own lr, beta, c, momentum, weight_decay and maximize.
    lr : float
    beta : float in (0, 1]
        1 is plain SGD.
    c : float, optional
        ``beta = min(1, c lr^2)`` instead, with the lr of the step before, so that beta falls with the lr of a scheduler.
    momentum, weight_decay : float
        As in ``torch.optim.SGD``. The decay is exact, beside the estimate.
    maximize : bool
    max_norm : float, optional
        Steps along directions with a larger norm, over all parameters, are as along one of this norm; the recursion goes on with d.

    Raises
    ------
    TypeError
        If `step` gets no closure.
    RuntimeError
        On a sparse gradient.

    Notes
    -----
    ``step(closure, scaler=None)`` calls the closure twice, once in the first step; see `SCSG` for what a closure does, and for
    scalers, dropout and gradients of None. The first direction is the gradient of the first batch: a larger first batch helps.

    References
    ----------
    Cutkosky and Orabona, Momentum-based variance reduction in non-convex SGD, NeurIPS 2019.

    Examples
    --------
    >>> import torch
    >>> from leeward.torch import STORM
    >>> x = torch.linspace(-1, 1, 64, dtype=torch.float64)
    >>> w = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    >>> optimiser = STORM([w], lr=0.2, beta=0.1)
    >>> for batch in torch.arange(320).remainder(64).split(4):
    ...     def closure():
    ...         loss = ((w - 3) * x[batch]).square().mean()
    ...         loss.backward()
    ...         return loss
    ...     loss = optimiser.step(closure)
    >>> bool(abs(w - 3) < 0.1)
    True
    """

    def __init__(
        self,
        params: Any,
        lr: float = 0.01,
        *,
        beta: float = 0.1,
        c: float | None = None,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        maximize: bool = False,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(params, lr, beta, c, momentum, weight_decay, maximize, max_norm)

    def step(self, closure: Callable[[], Any], *, scaler: Any = None) -> Any:  # type: ignore[override,unused-ignore]
        """Makes one step; returns the loss at the present point."""
        closure = self._needs(closure)
        params = self._trained()
        old: list[Any] = [None] * len(params)
        if any(self._own(p, "direction") is not None for p in params):
            with self._standing_at("previous"):
                old = [None if g is None else g.clone() for g in self._gradients(closure, params)[1]]
        loss, new = self._gradients(closure, params)
        self._follow(params, new, old, scaler)
        return loss
