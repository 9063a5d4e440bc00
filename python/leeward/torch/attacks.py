r"""Perturbations of the inputs that raise the loss of any module: those of `leeward.attacks` for networks.

Each attack answers a copy of x in which every sample has moved within ``|x' - x| <= epsilon``, along the gradient g of its own loss::

    fgsm   x' = x + epsilon sign(g)                                                    one step
    pgd    x' <- project(x' + step sign(g))       or  project(x' + step g/|g|_2)       l-infinity or l2
    mim    v <- momentum v + g/|g|_1,  x' <- project(x' + step sign(v))

Norms are over all dimensions of x but the first. Modules are attacked in evaluation mode and left in the mode they were in; parameters
and their gradients are not touched.

Sources: Goodfellow, Shlens and Szegedy, 2015 (FGSM); Madry, Makelov, Schmidt, Tsipras and Vladu, 2018 (PGD); Dong, Liao, Pang, Su, Zhu, Hu
and Li, 2018 (MIM).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["fgsm", "mim", "pgd"]

Model = Callable[[torch.Tensor], torch.Tensor]
Losses = Callable[[torch.Tensor, Any], torch.Tensor]
_SHARE = 0.25  # of epsilon that a step moves by default


def fgsm(
    model: Model, x: torch.Tensor, y: Any, epsilon: float, *, loss: Losses | None = None, bounds: Any = None
) -> torch.Tensor:
    """The fast gradient sign method: one step of length epsilon in every coordinate.

    Parameters
    ----------
    model : module or callable
        ``model(x)`` gives the outputs of a batch.
    x : tensor (b, ...)
        Inputs to be moved, of a floating type.
    y : tensor (b,) or anything that the loss takes
        Their labels.
    epsilon : float
        Largest change of a coordinate.
    loss : callable, optional
        ``loss(model(x), y)`` gives one loss a sample, (b,); cross-entropy by default.
    bounds : (lower, upper), optional
        Numbers or tensors between which inputs stay, such as (0, 1) for images.

    Returns
    -------
    moved : tensor (b, ...)
        Without a graph.

    Raises
    ------
    TypeError
        If x is not a tensor of a floating type.
    ValueError
        If epsilon is negative or not finite, inputs lie outside bounds, or the loss does not answer one number a sample.

    Examples
    --------
    >>> import torch
    >>> from leeward.torch import attacks
    >>> net = torch.nn.Linear(2, 2, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, -2.0], [-1.0, 2.0]]))
    >>> attacks.fgsm(net, torch.zeros(2, 2), torch.tensor([0, 1]), 0.5)
    tensor([[-0.5000,  0.5000],
            [ 0.5000, -0.5000]])
    """
    with _target(model, x, y, epsilon, loss, bounds) as target:
        return target.within(target.x + target.epsilon * target.gradient(target.x).sign())


def pgd(
    model: Model,
    x: torch.Tensor,
    y: Any,
    epsilon: float,
    *,
    norm: str = "linf",
    steps: int = 20,
    step: float | None = None,
    random_start: bool = False,
    seed: int = 0,
    loss: Losses | None = None,
    bounds: Any = None,
) -> torch.Tensor:
    """Projected gradient ascent in the ball of radius epsilon around each sample.

    Parameters
    ----------
    model, x, y, epsilon, loss, bounds : as for :func:`fgsm`
        With norm "l2" epsilon is the largest Euclidean length of a sample's change.
    norm : "linf" or "l2", default "linf"
        Norm of the ball.
    steps : int, default 20
        Number of steps.
    step : float, optional
        Length of a step, ``epsilon/4`` by default.
    random_start : bool, default False
        Start from a random point of the ball instead of the sample itself.
    seed : int, default 0
        Of that start.

    Returns
    -------
    moved : tensor (b, ...)

    Raises
    ------
    TypeError, ValueError
        As for :func:`fgsm`.

    Examples
    --------
    >>> import torch
    >>> from leeward.torch import attacks
    >>> net = torch.nn.Linear(2, 2, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[3.0, -4.0], [-3.0, 4.0]]))
    >>> attacks.pgd(net, torch.zeros(2, 2), torch.tensor([0, 1]), 0.5, norm="l2")
    tensor([[-0.3000,  0.4000],
            [ 0.3000, -0.4000]])
    """
    if norm not in ("linf", "l2"):
        raise ValueError(f"norm must be 'linf' or 'l2', got {norm!r}")
    if not isinstance(random_start, bool):
        raise TypeError(f"random_start must be True or False, got {random_start!r}")
    with _target(model, x, y, epsilon, loss, bounds) as target:
        length, moved = _length(steps, step, target.epsilon), target.x
        if random_start:
            moved = target.within(moved + _inside(moved, target.epsilon, norm, seed))
        for _ in range(steps):
            g = target.gradient(moved)
            if norm == "linf":
                moved = target.within(moved + length * g.sign())
            else:
                move = moved + length * _unit(g) - target.x
                moved = target.within(target.x + _unit(move) * _size(move, 2).clamp(max=target.epsilon))
        return moved


def mim(
    model: Model,
    x: torch.Tensor,
    y: Any,
    epsilon: float,
    *,
    steps: int = 20,
    step: float | None = None,
    momentum: float = 1.0,
    loss: Losses | None = None,
    bounds: Any = None,
) -> torch.Tensor:
    """The momentum iterative method: signs of the accumulated, normalised gradients.

    Parameters
    ----------
    model, x, y, epsilon, loss, bounds : as for :func:`fgsm`
    steps : int, default 20
        Number of steps.
    step : float, optional
        Length of a step, ``epsilon/4`` by default.
    momentum : float, default 1.0
        Weight of the gradients so far.

    Returns
    -------
    moved : tensor (b, ...)

    Raises
    ------
    TypeError, ValueError
        As for :func:`fgsm`.

    Examples
    --------
    >>> import torch
    >>> from leeward.torch import attacks
    >>> net = torch.nn.Linear(2, 2, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, -2.0], [-1.0, 2.0]]))
    >>> attacks.mim(net, torch.zeros(1, 2), torch.tensor([0]), 0.5)
    tensor([[-0.5000,  0.5000]])
    """
    if not (isinstance(momentum, int | float) and math.isfinite(momentum) and momentum >= 0):
        raise ValueError(f"momentum must be finite and at least 0, got {momentum!r}")
    with _target(model, x, y, epsilon, loss, bounds) as target:
        length, moved, past = _length(steps, step, target.epsilon), target.x, torch.zeros_like(target.x)
        for _ in range(steps):
            g = target.gradient(moved)
            size = _size(g, 1)
            past = momentum * past + g / torch.where(size > 0, size, 1.0)
            moved = target.within(moved + length * past.sign())
        return moved


class _Target:
    """The loss of each sample as a function of the inputs, and where they may lie."""

    def __init__(self, model: Model, x: Any, y: Any, epsilon: Any, loss: Losses | None, bounds: Any) -> None:
        if not isinstance(x, torch.Tensor) or not x.dtype.is_floating_point:
            found = x.dtype if isinstance(x, torch.Tensor) else type(x).__name__
            raise TypeError(f"x must be a tensor of a floating type, got {found}")
        if x.dim() == 0:
            raise ValueError("x must have a dimension of samples, got a number")
        if not (isinstance(epsilon, int | float) and math.isfinite(epsilon) and epsilon >= 0):
            raise ValueError(f"epsilon must be finite and at least 0, got {epsilon!r}")
        saved = isinstance(y, torch.Tensor) and y.is_inference()  # such a tensor cannot be saved for a backward pass
        self.model, self.y, self.epsilon = model, y.clone() if saved else y, float(epsilon)
        self.loss = _cross_entropy if loss is None else loss
        self.x = x.detach().clone()
        self.low: Any = None
        self.high: Any = None
        if bounds is not None:
            if not isinstance(bounds, tuple | list) or len(bounds) != 2 or any(bound is None for bound in bounds):
                raise TypeError(f"bounds must be a pair (lower, upper) of numbers or tensors, got {bounds!r}")
            self.low, self.high = (torch.as_tensor(b, dtype=x.dtype, device=x.device) for b in bounds)
        if bounds is not None and not bool(((self.x >= self.low) & (self.x <= self.high)).all()):
            raise ValueError("inputs lie outside bounds")

    def gradient(self, x: Any) -> Any:
        """The gradient of each sample's loss in the sample."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            losses = self.loss(self.model(x), self.y)
            if not isinstance(losses, torch.Tensor) or losses.shape != x.shape[:1]:
                found = tuple(losses.shape) if isinstance(losses, torch.Tensor) else type(losses).__name__
                raise ValueError(
                    f'loss must return one loss a sample, shape ({len(x)},), got {found}: use reduction="none"'
                )
            (g,) = torch.autograd.grad(losses.sum(), x)
        return g

    def within(self, x: Any) -> Any:
        """x inside the l-infinity ball and the bounds. (The l2 ball lies in the former.)"""
        near = torch.minimum(torch.maximum(x, self.x - self.epsilon), self.x + self.epsilon)
        return near if self.low is None else near.clamp(self.low, self.high)


@contextmanager
def _target(model: Model, *rest: Any) -> Iterator[_Target]:
    """The target with its module in evaluation mode; every part gets its own mode back."""
    parts = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    modes = [part.training for part in parts]
    with torch.inference_mode(False):
        target = _Target(model, *rest)
        try:
            for part in parts:
                part.training = False
            yield target
        finally:
            for part, mode in zip(parts, modes, strict=True):
                part.training = mode


def _cross_entropy(scores: torch.Tensor, y: Any) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(scores, y, reduction="none")


def _size(t: Any, order: float) -> Any:
    """Norms of the samples, with dimensions of length 1 behind the first."""
    return torch.linalg.vector_norm(_rows(t), order, dim=1).view(-1, *[1] * (t.dim() - 1))


def _rows(t: Any) -> Any:
    return t.reshape(len(t), max(t[:1].numel(), 1))


def _unit(t: Any) -> Any:
    """Samples of length 1, also where their squares overflow or vanish; zeros stay."""
    for order in (math.inf, 2):
        size = _size(t, order)
        t = t / torch.where(size > 0, size, 1.0)
    return t


def _inside(x: Any, epsilon: float, norm: str, seed: int) -> Any:
    """A random point of the ball for each sample."""
    generator = torch.Generator(device=x.device).manual_seed(seed)
    settings = {"generator": generator, "device": x.device, "dtype": x.dtype}
    if norm == "linf":
        return epsilon * (2 * torch.rand(x.shape, **settings) - 1)
    share = torch.rand((len(x), *[1] * (x.dim() - 1)), **settings) ** (1.0 / max(x[:1].numel(), 1))
    return epsilon * share * _unit(torch.randn(x.shape, **settings))


def _length(steps: Any, step: Any, epsilon: float) -> float:
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number of at least 1, got {steps!r}")
    if step is None:
        return _SHARE * epsilon
    if not (isinstance(step, int | float) and math.isfinite(step) and step > 0):
        raise ValueError(f"step must be positive and finite, got {step!r}")
    return float(step)
