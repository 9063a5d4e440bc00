"""`DualLoss`: a risk as a plain mean of losses, with its dual variables as parameters."""

from __future__ import annotations

import math
from typing import Any

import torch

import leeward as lw
from leeward.torch import _operator  # noqa: F401  registers the operators
from leeward.torch._families import Family, family_of, remember
from leeward.torch._inputs import counted, per_sample

__all__ = ["DualLoss", "conjugate"]


def conjugate(family: Family, s: Any) -> Any:
    """Return f*(s), whose derivative is the ratio of the worst-case weight to the base weight."""
    if family.kind == "cvar":
        return torch.relu(s) / family.alpha
    if family.kind == "kl":
        return torch.expm1(s)
    if family.kind == "power":
        k = family.order
        return (((k - 1) * s + 1).clamp(min=0.0) ** (k / (k - 1)) - 1) / k
    limit = math.log(1 / family.alpha)
    if family.kind == "capped":
        return torch.expm1(s.clamp(max=limit)) + torch.relu(s - limit) / family.alpha
    shift = s + math.log(family.alpha)  # logistic
    return torch.logaddexp(torch.full_like(s, math.log1p(-family.alpha)), shift) / family.alpha


def _plainly() -> bool:
    """Whether numbers can be read: no compiled graph is traced, and no transform is active."""
    return not torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active()


def _check_base(base: torch.Tensor) -> None:
    """ValueError for base weights that are no weights; where they lie on a device nothing is read back, and the mean is NaN."""
    if not (bool((base >= 0).all()) and bool(base.isfinite().all())):
        raise ValueError("sample weights must be finite and not negative")
    if not bool(base.any()):
        raise ValueError(
            "sample_weight must have a positive sum, got all zeros (or a mask that leaves out all samples)"
        )


class DualLoss(torch.nn.Module):
    r"""The dual form of a risk, a mean over the samples in one or two more variables, which are parameters of the layer.

    ``E[nu f*((l - eta)/nu)] + eta + nu rho``, minimised over eta (and nu, for a radius rho) together with the network. Its least value is
    the risk of **all** losses, so small batches, micro-batches and shards can be averaged: the gradient has no bias.

    Parameters
    ----------
    risk : leeward risk
        ``CVaR``, ``KL``, ``ChiSquare``, ``CressieRead`` (penalty, radius or both), ``KLCVaR`` or ``SmoothedCVaR``.
    dtype : torch.dtype, optional
        Of the parameters; PyTorch's default type when left out.

    Attributes
    ----------
    eta : parameter of shape ()
        The dual variable of the weights' sum, in units of the losses.
    log_multiplier : parameter of shape () or None
        Logarithm of nu, the price of the radius; None without a radius.
    weights : tensor (n,)
        Base weights times ``(f*)'`` for the last batch: the gradient in its losses. They sum to 1 at the best eta only.

    Notes
    -----
    * Give the layer's parameters to the optimiser, best with a step of their own: eta moves in units of the loss.
    * The first batch sets eta and nu to its own exact solution; `reset` does so again.
    * Everything is in ``state_dict``: a run that was saved and loaded goes on with the same bits.
    * The weights of KL are exponential in eta; far from its best value they can be huge. ``KLCVaR`` bounds them.
    * Source: Ben-Tal, den Hertog, De Waegenaere, Melenberg and Rennen, 2013; Levy, Carmon, Duchi and Sidford, 2020, appendix A.3.

    Raises
    ------
    ValueError
        For a risk without such a form, and for losses and weights as `RobustLoss` does (weights on a device are not checked).

    Examples
    --------
    >>> import torch
    >>> import leeward as lw
    >>> from leeward.torch import DualLoss
    >>> losses = torch.tensor([0.0, 1.0, 2.0, 3.0])
    >>> layer = DualLoss(lw.CVaR(0.5))
    >>> round(layer(losses).item(), 6), layer.eta.item()  # the first batch sets eta: the mean of the worst half
    (2.5, 2.0)
    """

    def __init__(self, risk: lw.Risk, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        if not isinstance(risk, lw.Risk):
            raise TypeError(f"risk must be a risk such as leeward.CVaR(0.1), got {risk!r}")
        family = family_of(risk)
        if family.kind not in ("cvar", "kl", "power", "capped", "logistic") or family.sign < 0:
            raise ValueError(
                f"{risk!r} is no mean in a dual variable: use CVaR, KL, ChiSquare, CressieRead, KLCVaR or SmoothedCVaR"
            )
        self.risk = risk
        self._family = family
        self._started = False
        self._last: list[Any] = [None]
        self.eta = torch.nn.Parameter(torch.zeros((), dtype=dtype))
        free = family.rho is not None
        self.register_parameter("log_multiplier", torch.nn.Parameter(torch.zeros((), dtype=dtype)) if free else None)

    def forward(
        self, losses: torch.Tensor, *, sample_weight: torch.Tensor | None = None, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the dual form's mean over the batch, a scalar.

        Parameters
        ----------
        losses : tensor of shape (n,)
            One loss a sample.
        sample_weight, mask : tensors of shape (n,), optional
            Base weights, divided by their sum over the batch; False leaves a sample out.
        """
        losses = per_sample(losses)
        if losses.dim() != 1:
            raise ValueError(f"losses must have shape (n,), got {tuple(losses.shape)}")
        losses, base = counted(losses, None, None, sample_weight, mask)
        if base is not None and base.is_cpu and _plainly():
            _check_base(base)
        if not self._started and bool(losses.isfinite().all()):
            self.reset(losses, base)
        value = self._mean(losses, base)
        self._last[0] = (
            losses.detach(),
            base,
            *(None if p is None else p.detach().clone() for p in (self.eta, self.log_multiplier)),
        )
        return value

    def _mean(self, losses: Any, base: Any, eta: Any = None, log_multiplier: Any = None) -> Any:
        kind = losses.dtype
        losses = losses if kind == torch.float64 else losses.float()
        eta = self.eta if eta is None else eta
        log_multiplier = self.log_multiplier if log_multiplier is None else log_multiplier
        nu = self._family.lam or 0.0
        cost: Any = 0.0
        if self._family.rho is not None:
            price = log_multiplier.exp()
            nu, cost = nu + price, price * self._family.rho
        elif not nu:
            nu = 1.0
        terms = nu * conjugate(self._family, (losses - eta) / nu)
        mean = terms.mean() if base is None else (terms * (base / base.sum())).sum()
        return (mean + eta + cost).to(kind)

    @torch.no_grad()
    def reset(self, losses: torch.Tensor, sample_weight: torch.Tensor | None = None) -> None:
        """Set eta (and nu) to the exact solution for these losses, such as those of the whole training set.

        Examples
        --------
        >>> import torch
        >>> import leeward as lw
        >>> from leeward.torch import DualLoss
        >>> layer = DualLoss(lw.ChiSquare(penalty=1.0))
        >>> layer.reset(torch.tensor([0.0, 1.0]))
        >>> layer.eta.item()
        0.5
        """
        losses = per_sample(losses).detach()
        if losses.dim() != 1:
            raise ValueError(f"losses must have shape (n,), got {tuple(losses.shape)}")
        losses, sample_weight = counted(losses, None, None, sample_weight, None)
        losses = losses if losses.dtype == torch.float64 else losses.float()
        value, _, dual = torch.ops.leeward.risk(losses, sample_weight, remember(self.risk), "auto")
        if not bool(value.isfinite()):
            raise ValueError("losses must be finite to start from")
        self.eta.copy_(dual[0])
        if self.log_multiplier is not None:  # a price of 0, with all mass on the maximum, has no logarithm
            least = 1e-6 * (1e-6 + value.abs())
            price = torch.where(dual[1].isfinite(), dual[1], least)
            self.log_multiplier.copy_(torch.maximum(price, least).log())
        self._started = True

    @property
    def weights(self) -> torch.Tensor | None:
        """The gradient of the last value in its losses; None before the first batch."""
        if self._last[0] is None:
            return None
        losses, base, eta, log_multiplier = self._last[0]
        with torch.enable_grad():
            losses = losses.requires_grad_()
            (weights,) = torch.autograd.grad(self._mean(losses, base, eta, log_multiplier), losses)
        return weights

    def get_extra_state(self) -> torch.Tensor:
        """Whether a first batch has been seen, for ``state_dict``."""
        return torch.tensor(self._started)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Take what ``get_extra_state`` gave."""
        self._started = bool(state)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": [None]}

    def extra_repr(self) -> str:
        """What ``print(layer)`` shows."""
        return repr(self.risk)
