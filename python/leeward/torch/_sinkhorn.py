"""`SinkhornLoss`: generalised Sinkhorn DRO for any network: perturb, solve each sample's inner problem, weight (docs/maths/sinkhorn.md)."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any

import torch

import leeward as lw
from leeward import divergences
from leeward.torch._dual import conjugate
from leeward.torch._families import family_of, remember
from leeward.torch._rows import solve_rows
from leeward.torch._short import evaluate

__all__ = ["SinkhornLoss"]

COSTS = ("sqeuclidean", "euclidean", "l1", "linf")


def _inner(divergence: Any, penalty: float) -> lw.Risk:
    """The risk of penalty ``lam eps`` with this divergence."""
    named: dict[Any, Callable[[], lw.Risk]] = {
        "kl": lambda: lw.KL(penalty=penalty),
        "chi2": lambda: lw.ChiSquare(penalty=penalty),
        "pearson": lambda: lw.ChiSquare(penalty=2 * penalty),
        divergences.KL: lambda: lw.KL(penalty=penalty),
        divergences.ChiSquare: lambda: lw.ChiSquare(penalty=penalty),
        divergences.KLCVaR: lambda: lw.KLCVaR(divergence.alpha, penalty),
        divergences.SmoothedCVaR: lambda: lw.SmoothedCVaR(divergence.alpha, penalty),
        divergences.CressieRead: lambda: lw.CressieRead(divergence.k, penalty=penalty),
    }
    make = named.get(divergence if isinstance(divergence, str) else type(divergence))
    if make is None:
        raise ValueError(
            'divergence must be "kl", "chi2", "pearson" or KL(), ChiSquare(), KLCVaR(alpha), SmoothedCVaR(alpha) or CressieRead(k) of '
            f"leeward.divergences, got {divergence!r}"
        )
    return make()


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {number}")
    return number


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    whole = int(value)
    if whole < least:
        raise ValueError(f"{name} must be at least {least}, got {whole}")
    return whole


def _box(bounds: Any) -> tuple[float, float] | None:
    if bounds is None:
        return None
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2 and all(isinstance(b, numbers.Real) for b in bounds)
    if not pair or not bounds[0] < bounds[1]:
        raise ValueError(f"bounds must be two numbers (lower, upper) with lower < upper, got {bounds!r}")
    return float(bounds[0]), float(bounds[1])


def _check_numbers(index: Any, size: int) -> None:
    if not isinstance(index, torch.Tensor) or index.dtype not in (torch.int64, torch.int32) or index.shape != (size,):
        found = (
            f"{index.dtype} of shape {tuple(index.shape)}" if isinstance(index, torch.Tensor) else type(index).__name__
        )
        raise TypeError(f"index must be an int64 tensor of shape ({size},), the number of each sample, got {found}")


class SinkhornLoss(torch.nn.Module):
    r"""The loss of the worst points near each sample, at a price for moving them.

    With points ``xi_ij = x_i + noise`` around sample i, a transport cost c and a divergence f::

        mean_i Psi_i,   Psi_i = min_eta  mean_j[ lam eps f*((l(xi_ij) - lam c(x_i, xi_ij) - eta)/(lam eps)) ] + eta

    Parameters
    ----------
    divergence : "kl", "chi2", "pearson" or a divergence of ``leeward.divergences``
        As for ``leeward.Sinkhorn``.
    lam : float
        Price of a unit of transport cost, in units of the loss.
    entropy : float
        eps, the weight of the divergence, in units of the cost.
    noise : float
        Standard deviation of the Gaussian noise on each coordinate of x.
    cost : "sqeuclidean", "euclidean", "l1" or "linf"
        ``|xi - x|^2``, or its 2-norm, 1-norm or largest coordinate, over all dimensions of x but the first.
    draws : int
        Points around each sample. With one point every weight is 1, and the loss is plain noise augmentation.
    inner : "exact" or "sgd"
        How Psi is solved on the drawn points: exactly, or by gradient steps on a remembered eta for each sample, as the paper's
        algorithm 1 does with the eta of smallest residual kept.
    inner_steps : int, optional
        Steps on eta, for "sgd"; 8 by default.
    inner_step : float, optional
        Their size; by default ``lam eps`` over the smoothness of f* (1, or ``1 / (4 alpha)`` for SmoothedCVaR below alpha = 1/4).
    size : int, optional
        Samples in the data set, for "sgd".
    bounds : (lower, upper), optional
        Numbers to which points are clipped, such as (0, 1) for pictures.
    seed : int
        Points of call t are a value of (seed, t). Processes of a group need seeds of their own.

    Attributes
    ----------
    eta : tensor (size,) or None
        With "sgd" the remembered eta of each sample, NaN where it was not seen yet; part of ``state_dict``.
    weights : tensor (b, draws)
        Weights of the points of the last batch; with "exact" each row sums to 1.
    effective_draws : tensor (b,)
        ``(sum_j q_ij)^2 / sum_j q_ij^2``: from how many points a worst case is made. Near 1, more draws or a larger entropy are needed.

    Warns
    -----
    UserWarning
        When ``draws`` is 1.

    Notes
    -----
    The loss is a mean over the samples, so micro-batches and shards can be averaged. ``state_dict`` holds the number of the
    next call and eta: a run that was saved and loaded goes on with the same bits. The network sees a batch of ``b * draws``
    points; layers that mix the samples of a batch, such as batch normalisation, see them together.
    Source: Yang, Zhou and Lu, Nested stochastic algorithm for generalized Sinkhorn distance-regularized distributionally robust
    optimization, 2025.

    Examples
    --------
    >>> import torch
    >>> from leeward.torch import SinkhornLoss
    >>> x, y = torch.randn(32, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(32, dtype=torch.int64)
    >>> net = torch.nn.Linear(4, 3)
    >>> layer = SinkhornLoss("kl", lam=10.0, entropy=0.1, noise=0.1, draws=8)
    >>> loss = layer(lambda points, labels: torch.nn.functional.cross_entropy(net(points), labels, reduction="none"), x, y)
    >>> loss.backward()
    >>> layer.weights.shape
    torch.Size([32, 8])
    """

    eta: torch.Tensor | None

    def __init__(
        self,
        divergence: Any = "kl",
        *,
        lam: float = 1.0,
        entropy: float = 0.1,
        noise: float = 0.2,
        cost: str = "sqeuclidean",
        draws: int = 8,
        inner: str = "exact",
        inner_steps: int | None = None,
        inner_step: float | None = None,
        size: int | None = None,
        bounds: tuple[float, float] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.lam, self.entropy, self.noise = (
            _positive("lam", lam),
            _positive("entropy", entropy),
            _positive("noise", noise),
        )
        if cost not in COSTS:
            raise ValueError(f"cost must be one of {', '.join(map(repr, COSTS))}, got {cost!r}")
        if inner not in ("exact", "sgd"):
            raise ValueError(f'inner must be "exact" or "sgd", got {inner!r}')
        self.draws, self.seed = _whole("draws", draws, 1), _whole("seed", seed, 0)
        if (inner == "sgd") != (size is not None):
            raise ValueError('size, the number of samples in the data set, goes with inner="sgd"')
        if inner != "sgd" and not (inner_step is None and inner_steps is None):
            raise ValueError('inner_step and inner_steps are for inner="sgd"')
        if draws == 1:
            warnings.warn(
                "with one draw every weight is 1: the loss is plain noise augmentation", UserWarning, stacklevel=2
            )
        self.inner = _inner(divergence, self.lam * self.entropy)
        self.cost, self.bounds = cost, _box(bounds)
        self.inner_steps = 8 if inner_steps is None else _whole("inner_steps", inner_steps, 1)
        self._family = family_of(self.inner)
        self._name = remember(self.inner)
        reach = self._family.lam or 1.0
        smooth = min(1.0, 4 * self._family.alpha) if self._family.kind == "logistic" else 1.0
        self.inner_step = reach * smooth if inner_step is None else _positive("inner_step", inner_step)
        self.register_buffer(
            "eta", None if size is None else torch.full((_whole("size", size, 1),), torch.nan, dtype=torch.float64)
        )
        self.step = 0
        self._last: list[Any] = [None]

    def perturb(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return points ``(b * draws, ...)`` around x ``(b, ...)``, those of a sample together, and their costs ``(b, draws)``."""
        generator = torch.Generator(device=x.device).manual_seed(
            (self.seed * 0x9E3779B97F4A7C15 + self.step) % (1 << 63)
        )
        self.step += 1
        shape = (x.shape[0], self.draws, *x.shape[1:])
        points = x.unsqueeze(1) + self.noise * torch.randn(shape, generator=generator, device=x.device, dtype=x.dtype)
        if self.bounds is not None:
            points = points.clamp(*self.bounds)
        moved = (points - x.unsqueeze(1)).detach().reshape(x.shape[0], self.draws, -1)
        moved = moved if moved.dtype == torch.float64 else moved.float()
        if self.cost == "sqeuclidean":
            cost = (moved * moved).sum(dim=-1)
        else:
            cost = torch.linalg.vector_norm(moved, {"euclidean": 2, "l1": 1, "linf": torch.inf}[self.cost], dim=-1)
        return points.flatten(0, 1), cost

    def forward(
        self, losses: Callable[..., torch.Tensor], x: torch.Tensor, *arguments: Any, index: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the mean of Psi over a batch, a scalar.

        Parameters
        ----------
        losses : callable
            ``losses(points, *arguments)`` gives one loss a point, (b * draws,).
        x : tensor (b, ...)
            Features, of a floating type.
        *arguments
            Handed on to ``losses``; tensors, such as labels, have b entries, and each is repeated for the points of its sample.
        index : int tensor (b,), optional
            Numbers of the samples in the data set, for ``inner="sgd"``.
        """
        if not callable(losses):
            raise TypeError(f"losses must be a function of the points, got {type(losses).__name__}")
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"x must be a torch.Tensor, got {type(x).__name__}")
        if not x.dtype.is_floating_point:
            raise TypeError(f"x must have a floating type to be perturbed, got {x.dtype}")
        if x.dim() == 0 or x.shape[0] == 0:
            raise ValueError(f"x must have at least one sample, got shape {tuple(x.shape)}")
        if (index is None) != (self.eta is None):
            raise ValueError('index, the numbers of the samples, goes with inner="sgd"')
        if index is not None:
            _check_numbers(index, x.shape[0])
        points, cost = self.perturb(x)
        repeated = [a.repeat_interleave(self.draws, dim=0) if isinstance(a, torch.Tensor) else a for a in arguments]
        values = losses(points, *repeated)
        if not isinstance(values, torch.Tensor) or values.shape != points.shape[:1]:
            found = tuple(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
            raise ValueError(f"losses must return one loss a point, shape ({points.shape[0]},), got {found}")
        if not values.dtype.is_floating_point:
            raise TypeError(f"losses must return numbers of a floating type, got {values.dtype}")
        shifted = values.view(-1, self.draws)
        shifted = shifted if shifted.dtype == torch.float64 else shifted.float()
        shifted = shifted - self.lam * cost.to(shifted.dtype)
        if index is None:
            psi, self._last[0] = evaluate(shifted, None, self.inner, "auto", self._name)
        else:
            psi = self._remembered(shifted, index)
        return psi.mean().to(values.dtype)

    def _remembered(self, shifted: Any, index: Any) -> Any:
        """Psi by steps on the eta of each sample, whose weights need not sum to 1."""
        lam = self._family.lam or 1.0
        assert self.eta is not None
        with torch.no_grad():
            eta = self.eta[index].to(shifted.dtype)
            new = eta.isnan()
            if bool(new.any()):  # a sample's first visit starts from its exact solution
                eta = torch.where(new, solve_rows(shifted.detach(), None, self.inner)[2][..., 0], eta)
            best, least = eta, torch.full_like(eta, torch.inf)
            for k in range(self.inner_steps + 1):
                residual = 1 - self._ratios(shifted.detach(), eta).mean(dim=-1)
                better = residual.abs() < least
                best, least = torch.where(better, eta, best), torch.where(better, residual.abs(), least)
                if k < self.inner_steps:
                    eta = eta - self.inner_step * residual
            self.eta[index] = best.to(self.eta.dtype)
            self._last[0] = (self._ratios(shifted.detach(), best) / self.draws, None)
        return (lam * conjugate(self._family, (shifted - best.unsqueeze(-1)) / lam)).mean(dim=-1) + best

    def _ratios(self, shifted: Any, eta: Any) -> Any:
        lam = self._family.lam or 1.0
        with torch.enable_grad():
            s = ((shifted - eta.unsqueeze(-1)) / lam).requires_grad_()
            (ratios,) = torch.autograd.grad(conjugate(self._family, s).sum(), s)
        return ratios

    @property
    def weights(self) -> torch.Tensor | None:
        """Weights of the points of the last batch; None before the first."""
        last = self._last[0]
        if last is None:
            return None
        weights: torch.Tensor = last[0] if isinstance(last, tuple) else last.weights
        return weights

    @property
    def effective_draws(self) -> torch.Tensor | None:
        """From how many points each worst case of the last batch is made."""
        q = self.weights
        return None if q is None else q.sum(dim=-1) ** 2 / (q * q).sum(dim=-1)

    def get_extra_state(self) -> torch.Tensor:
        """The number of the next call, for ``state_dict``."""
        return torch.tensor(self.step)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Take what ``get_extra_state`` gave."""
        self.step = int(state)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": [None]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        remember(self.inner)

    def extra_repr(self) -> str:
        """What ``print(layer)`` shows."""
        return f"{self.inner!r}, lam={self.lam}, noise={self.noise}, draws={self.draws}"
