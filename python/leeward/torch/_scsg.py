"""`SCSG` for networks: stages of a snapshot's gradient and a geometric number of steps along corrected gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import leeward as lw
from leeward.torch._reduced import VarianceReduced, check_number, difference

__all__ = ["SCSG"]


class SCSG(VarianceReduced):
    """Stochastically controlled stochastic gradient: each step's batch is taken at the present point and at a snapshot.

    Stage j = 1, 2, ... takes the present parameters for its snapshot ``w~`` and spends the next m calls of `step` on
    ``g = (1/m) sum_k grad f_{S_k}(w~)``, without moving. It then draws a length N with ``P(N = k) = gamma^k (1 - gamma)``,
    ``gamma = m/(m+1)`` (mean m, zero allowed), and makes N steps, each on a batch S of its own::

        v = grad f_S(w) - grad f_S(w~) + g,      w <- w - lr m^(-exponent) v

    Parameters
    ----------
    params : iterable
        Tensors, or groups with their own lr, momentum, weight_decay and maximize.
    lr : float
    batches : int
        m: mini-batches of a snapshot, the paper's B/b.
    growing : bool
        ``min(ceil(j^1.5), batches)`` mini-batches at stage j instead.
    inner : "geometric" or "mean"
        The number of steps of a stage: drawn, or always m.
    exponent : float in [0, 1]
        2/3 in the paper's theory.
    momentum, weight_decay : float
        As in ``torch.optim.SGD``. The decay is exact, beside the estimate.
    maximize : bool
    max_norm : float, optional
        Directions with a larger norm, over all parameters, are scaled to it.
    seed : int
        The length of stage j is a value of (seed, j).

    Attributes
    ----------
    collecting : bool
        Whether the next call of `step` goes into a snapshot.

    Raises
    ------
    TypeError
        If `step` gets no closure.
    RuntimeError
        On a sparse gradient.

    Notes
    -----
    ``step(closure, scaler=None)``: the closure evaluates the loss **of one batch**, calls ``backward`` and returns the loss. It is
    called twice, at the snapshot and at the present point, and must use the same batch both times; PyTorch's random numbers
    (dropout) are the same both times. Gradients from before are set to None; afterwards ``grad`` is the direction. Parameters that
    are frozen, or never had a gradient, stay as they are; otherwise a gradient of None counts as 0. A gradient scaler goes into
    `step`, which takes out its scale and leaves the parameters alone where gradients are not finite; the closure calls
    ``scaler.scale(loss).backward()``.

    References
    ----------
    Lei, Ju, Chen and Jordan, Non-convex finite-sum optimization via SCSG methods, NeurIPS 2017.

    Examples
    --------
    >>> import torch
    >>> from leeward.torch import SCSG
    >>> x = torch.linspace(-1, 1, 64, dtype=torch.float64)
    >>> w = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    >>> optimiser = SCSG([w], lr=0.5, batches=8)
    >>> for batch in (torch.arange(320) * 13).remainder(64).split(4):
    ...     def closure():
    ...         loss = ((w - 3) * x[batch]).square().mean()
    ...         loss.backward()
    ...         return loss
    ...     loss = optimiser.step(closure)
    >>> bool(abs(w - 3) < 0.1)
    True
    """

    _settings: ClassVar[tuple[str, ...]] = ("max_norm", "batches", "growing", "inner", "exponent", "seed")

    def __init__(
        self,
        params: Any,
        lr: float = 0.01,
        *,
        batches: int = 16,
        growing: bool = False,
        inner: str = "geometric",
        exponent: float = 0.0,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        maximize: bool = False,
        max_norm: float | None = None,
        seed: int = 0,
    ) -> None:
        for name, value, least in (("batches", batches, 1), ("seed", seed, 0)):
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise TypeError(f"{name} must be an integer, got {value!r}")
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        if inner not in ("geometric", "mean"):
            raise ValueError(f"inner must be 'geometric' or 'mean', got {inner!r}")
        check_number("exponent", exponent, 0.0, 1.0)
        self.batches, self.growing, self.inner = int(batches), bool(growing), inner
        self.exponent, self.seed = float(exponent), int(seed)
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults, max_norm)

    @property
    def collecting(self) -> bool:
        return not self._run.get("left", 0)

    def _batches(self, stage: int) -> int:
        return min(math.ceil(stage * math.sqrt(stage)), self.batches) if self.growing else self.batches

    def _length(self, stage: int, m: int) -> int:
        """N of a stage: P(N >= k) = P(u <= gamma^k) for a uniform u."""
        if self.inner == "mean":
            return m
        u = float(lw.Draws([stage], self.seed).uniform()[0])
        return int(math.log(u) / math.log1p(-1.0 / (m + 1)))

    def step(self, closure: Callable[[], Any], *, scaler: Any = None) -> Any:  # type: ignore[override,unused-ignore]
        """Takes one batch into the snapshot, or makes one step; returns the loss at the present point."""
        closure = self._needs(closure)
        return self._collect(closure, scaler) if self.collecting else self._inner(closure, scaler)

    def _collect(self, closure: Callable[[], Any], scaler: Any) -> Any:
        run, params = self._run, self._trained()
        loss, found = self._gradients(closure, params)
        if not self._direct(params, found, [None] * len(params), scaler):
            return loss
        if run.get("collected", 0) == 0:
            run["stage"] = run.get("stage", 0) + 1
            run["batches"] = self._batches(run["stage"])  # of the stage, whatever batches a run that goes on has
            for p in params:
                self.state[p]["snapshot"] = p.detach().clone()
                self.state[p].pop("mean", None)
        for p in self._frozen():  # they stand where they are, and wait for the next stage when they train again
            self.state[p].pop("snapshot", None)
            self.state[p].pop("mean", None)
        m = run["batches"]
        for p, gradient in zip(params, found, strict=True):
            if gradient is None or self._own(p, "snapshot") is None:
                continue
            mean = self._own(p, "mean")
            if mean is None:
                self.state[p]["mean"] = gradient / m
            else:
                mean.add_(gradient, alpha=1.0 / m)
        run["collected"] = run.get("collected", 0) + 1
        if run["collected"] == m:
            run["collected"], run["left"] = 0, self._length(run["stage"], m)
        return loss

    def _inner(self, closure: Callable[[], Any], scaler: Any) -> Any:
        run, params = self._run, self._trained()
        with self._standing_at("snapshot"):
            old = [None if g is None else g.clone() for g in self._gradients(closure, params)[1]]
        loss, new = self._gradients(closure, params)
        joined = [self._own(p, "snapshot") is not None for p in params]  # others wait for the next stage
        new = [g if there else None for g, there in zip(new, joined, strict=True)]
        old = [g if there else None for g, there in zip(old, joined, strict=True)]
        kept = [self._own(p, "mean") for p in params]
        if self._direct(params, difference(new, old, [1.0] * len(params)), kept, scaler):
            self._move(run["batches"] ** -self.exponent)
            run["left"] -= 1
        return loss

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}batches: {self.batches}, growing: {self.growing}, inner: {self.inner}\n)"
