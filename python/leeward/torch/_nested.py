"""`PMVR` and `SMVR` for networks: nested means ``f_K(... f_1(w))`` of modules, with the value of each level followed across steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from leeward.torch._inputs import HALF
from leeward.torch._reduced import Gradients
from leeward.torch._storm import Recursive

__all__ = ["PMVR", "SMVR"]

Levels = Sequence[Callable[..., Any]]


class _Pass:
    """The levels at one point: inputs that gradients go through, and outputs."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def take(self, level: Callable[..., Any], i: int, u: Any) -> Any:
        """Evaluates level i at the value u of the level before; returns its value."""
        with torch.enable_grad():
            at = None if u is None else u.detach().clone().requires_grad_()
            value = level() if at is None else level(at)
            if not isinstance(value, torch.Tensor):
                raise TypeError(f"level {i + 1} must return a torch.Tensor, got {type(value).__name__}")
            if not value.requires_grad:
                goal = "the parameters" if at is None else f"the value of level {i}"
                raise ValueError(f"level {i + 1} must return what a gradient to {goal} goes through")
            if value.dtype in HALF:
                value = value.float()
        self.inputs.append(at)
        self.outputs.append(value)
        return value.detach()

    def pulled(self, params: list[Any], weight: float) -> Gradients:
        """The gradient of the chain, by products from the outside in: weight times the derivative of the last value."""
        total: Gradients = [None] * len(params)
        by = torch.full_like(self.outputs[-1], weight)
        for at, value in zip(reversed(self.inputs), reversed(self.outputs), strict=True):
            found = torch.autograd.grad(value, [*params, *([] if at is None else [at])], by, allow_unused=True)
            for k, g in enumerate(found[: len(params)]):
                total[k] = g if total[k] is None else total[k] if g is None else total[k] + g
            if at is None or found[-1] is None:
                break
            by = found[-1]
        return total

    def jacobians(self, params: list[Any]) -> list[tuple[Gradients, Any]]:
        """Of each level: (m, *shape) for each parameter (None where it has no part), and (m, m_before) for its input."""
        every = []
        for i, (at, value) in enumerate(zip(self.inputs, self.outputs, strict=True)):
            targets = [*params, *([] if at is None else [at])]
            if value.is_complex():
                raise TypeError(
                    f"level {i + 1} must return real numbers, of which there are Jacobians, got {value.dtype}"
                )
            with torch.enable_grad():
                each = value.reshape(-1).unbind()
            rows = [torch.autograd.grad(y, targets, retain_graph=True, allow_unused=True) for y in each]
            stacked: Gradients = [None if g[0] is None else torch.stack(g) for g in zip(*rows, strict=True)]
            inner = None
            if at is not None:
                inner = stacked.pop()
                wanted = (value.numel(), at.numel())
                inner = value.new_zeros(wanted) if inner is None else inner.reshape(wanted)
            every.append((stacked, inner))
        return every


class _Nested(Recursive):
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

    @property
    def values(self) -> list[Any] | None:
        """What the levels' values are estimated to be, inside first; None before the first step."""
        found: list[Any] | None = self._run.get("values")
        return found

    def _check_levels(self, levels: Levels) -> list[Callable[..., Any]]:
        chain = list(levels) if isinstance(levels, Sequence | torch.nn.ModuleList) else []
        if not chain or not all(callable(level) for level in chain):
            raise TypeError(
                f"{type(self).__name__}.step needs the levels of this step's batch, a list of functions or modules, got {levels!r}"
            )
        if self.values is not None and len(self.values) != len(chain):
            raise ValueError(f"levels must be {len(self.values)}, as in the steps before, got {len(chain)}")
        return chain

    def _stale(self, chain: list[Callable[..., Any]]) -> tuple[_Pass, list[Any]]:
        """The levels at the last point, each at the last estimate of the one before."""
        values, there, stale = self.values or [], _Pass(), []
        for i, level in enumerate(chain):
            stale.append(there.take(level, i, values[i - 1] if i else None))
            if stale[i].shape != values[i].shape:
                raise ValueError(
                    f"level {i + 1} must return shape {tuple(values[i].shape)} in each step, got {tuple(stale[i].shape)}"
                )
        return there, stale

    def _fresh(self, chain: list[Callable[..., Any]], stale: list[Any] | None) -> tuple[_Pass, list[Any]]:
        """The levels at the present point, and the new estimates."""
        here, now, u = _Pass(), [], None
        remaining = 1.0 - self._beta(self.param_groups[0])
        for i, level in enumerate(chain):
            u = here.take(level, i, u)
            if stale is not None and self.values is not None:
                u = u + remaining * (self.values[i] - stale[i])
            now.append(u)
        if now[-1].numel() != 1:
            raise ValueError(f"the last level must return one number, got shape {tuple(now[-1].shape)}")
        return here, now


class PMVR(_Nested):
    """Variance reduction for nested means of modules: values of levels and the whole gradient are followed across steps.

    ``F(w) = f_K(... f_2(f_1(w)))``, each level a mean over samples. With one batch ``s_i`` of each level, taken at the present and at
    the last point, and ``g``, ``g_old`` the chain rule's products at the new and at the old values::

        u_i <- f_i(u_{i-1}; s_i) + (1 - beta) (u_i - f_i(u_{i-1}^old; s_i)),    v <- g + (1 - beta) (v - g_old),    w <- w - lr v

    Parameters
    ----------
    params, lr, beta, c, momentum, weight_decay, maximize, max_norm
        As for `STORM`. The values are followed with the beta of the first group.

    Attributes
    ----------
    values : list of tensors or None
        The estimates ``u_i``, inside first.

    Raises
    ------
    TypeError, ValueError
        If levels are no functions of tensors, or change their number or shapes.
    RuntimeError
        On a sparse gradient.

    Notes
    -----
    ``step(levels, scaler=None)``: a list of functions or modules that have this step's samples in them. The first takes nothing; each
    other one takes the value of the one before, a tensor of any shape; the last returns one number. Any of them may use the
    parameters. Draw the batches of different levels independently. No ``backward`` and no ``zero_grad`` is needed: gradients from
    before are replaced, and ``grad`` is the direction afterwards. `step` returns the estimate of F. State: twice the parameters and the
    values. A value behind a logarithm or a root is an estimate, and may leave its range: clamp it in the level.

    References
    ----------
    After Jiang, Li, Gao, Wang, Yang and Zhang, Optimal algorithms for stochastic multi-level compositional optimization, ICML 2022.

    Examples
    --------
    >>> import torch
    >>> from leeward.torch import PMVR
    >>> x = torch.linspace(0, 1, 64, dtype=torch.float64)
    >>> w = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    >>> optimiser = PMVR([w], lr=0.2, beta=0.1)
    >>> for batch in torch.arange(640).remainder(64).split(4):  # (E[w + x] - 2)^2 is least at 1.5
    ...     value = optimiser.step([lambda: (w + x[batch]).mean(), lambda u: (u - 2) ** 2])
    >>> bool(abs(w - 1.5) < 0.1)
    True
    """

    def step(self, levels: Levels, *, scaler: Any = None) -> Any:  # type: ignore[override,unused-ignore]
        """Makes one step; returns the estimate of F."""
        chain, params = self._check_levels(levels), self._trained()
        one = torch.ones((), device=params[0].device if params else None)
        weight = 1.0 if scaler is None else float(scaler.scale(one))
        old: Gradients = [None] * len(params)
        stale = None
        if self.values is not None:
            with self._standing_at("previous"):
                there, stale = self._stale(chain)
                old = there.pulled(params, weight)
        here, now = self._fresh(chain, stale)
        new = here.pulled(params, weight)
        self._check_dense([*old, *new])
        if self._follow(params, new, old, scaler):
            self._run["values"] = now
        return now[-1]


class SMVR(_Nested):
    """Nested variance reduction as in the paper: the value and the Jacobian of each level are followed across steps.

    As `PMVR`, with Jacobians ``V_i`` in the place of the product::

        V_i <- J_i(u_{i-1}; s_i) + (1 - beta) (V_i - J_i(u_{i-1}^old; s_i)),    w <- w - lr V_1^T ... V_K^T

    Parameters
    ----------
    params, lr, beta, c, momentum, weight_decay, maximize, max_norm
        As for `STORM`. The values, and the Jacobians in them, are followed with the beta of the first group.

    Attributes
    ----------
    values : list of tensors or None
        The estimates ``u_i``, inside first.

    Raises
    ------
    TypeError, ValueError
        If levels are no functions of tensors, or change their number or shapes.
    RuntimeError
        On a sparse gradient.

    Notes
    -----
    ``step(levels)`` as for `PMVR`. A Jacobian takes one backward pass for each number of a level's value, and as many times the
    memory of the parameters: for levels with few outputs. It takes no gradient scaler: under autocast use bfloat16. Compiled modules
    allow several backward passes where ``torch._functorch.config.donated_buffer`` is False when they are compiled.

    References
    ----------
    Jiang, Li, Gao, Wang, Yang and Zhang, Optimal algorithms for stochastic multi-level compositional optimization, ICML 2022, algorithm 1.

    Examples
    --------
    >>> import torch
    >>> from leeward.torch import SMVR
    >>> x = torch.linspace(0, 1, 64, dtype=torch.float64)
    >>> w = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    >>> optimiser = SMVR([w], lr=0.2, beta=0.1)
    >>> for batch in torch.arange(640).remainder(64).split(4):
    ...     value = optimiser.step([lambda: (w + x[batch]).mean(), lambda u: (u - 2) ** 2])
    >>> bool(abs(w - 1.5) < 0.1)
    True
    """

    def step(self, levels: Levels) -> Any:  # type: ignore[override,unused-ignore]
        """Makes one step; returns the estimate of F."""
        chain, params = self._check_levels(levels), self._trained()
        old = stale = None
        if self.values is not None:
            with self._standing_at("previous"):
                there, stale = self._stale(chain)
                old = there.jacobians(params)
        here, now = self._fresh(chain, stale)
        new = here.jacobians(params)
        self._check_dense([g for level in new for g in level[0]])
        with torch.no_grad(), torch.autocast(params[0].device.type, enabled=False):
            for p, direction in zip(params, self._tracked(params, new, old, now[-1]), strict=True):
                p.grad = direction
        self._run["values"] = now
        self._go()
        return now[-1]

    def _tracked(self, params: list[Any], new: Any, old: Any, now: Any) -> Gradients:
        """Follows the Jacobians; returns their product."""
        remaining = self._remaining()
        first = 1.0 - self._beta(self.param_groups[0])
        inner = self._run.setdefault("jacobians", [None] * len(new))
        total: Gradients = [None] * len(params)
        by = now.new_ones(1)
        for i in reversed(range(len(new))):
            for k, p in enumerate(params):
                name = f"jacobian_{i}"
                V, J = self._own(p, name), new[i][0][k]
                if V is not None and old is not None:
                    J0 = old[i][0][k]
                    fresh = (0.0 if J is None else J) - (0.0 if J0 is None else remaining[k] * J0)
                    J = fresh + remaining[k] * V
                if J is None:
                    continue
                self.state[p][name] = J
                part = torch.tensordot(by.to(J.dtype), J, dims=1)
                total[k] = part if total[k] is None else total[k] + part
            if i:
                J = new[i][1]
                if inner[i] is not None and old is not None:
                    J = J - first * old[i][1] + first * inner[i]
                inner[i] = J
                by = by.to(J.dtype) @ J
        return total
