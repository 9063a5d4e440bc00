"""`RobustLoss`: per-sample losses in, their risk out, for the training of any network."""

from __future__ import annotations

from typing import Any

import torch

import leeward as lw
from leeward.torch._families import family_of, remember
from leeward.torch._group import check_group, evaluate_group
from leeward.torch._inputs import HALF, counted, per_sample
from leeward.torch._short import Answer, evaluate, evaluate_plain

__all__ = ["RobustLoss"]

REDUCTIONS = ("mean", "sum", "none")


class RobustLoss(torch.nn.Module):
    """The risk of a batch of losses in the place of their mean.

    ``R(l) = max_q sum_i q_i l_i - lam D(q|p)``; the derivative of R in l_i is the worst-case weight q_i, so the backward pass is that
    of a weighted mean. The weights are solved exactly for each batch.

    Parameters
    ----------
    risk : leeward risk
        Any risk of this package, such as ``lw.CVaR(0.1)`` or ``lw.ChiSquare(radius=1.0)``.
    reduction : "mean", "sum" or "none"
        What is done with the risks of rows, for losses of shape (m, n); one batch (n,) gives a scalar always.
    ignore_index : int, optional
        Samples whose target has this value are left out; needs ``target`` in the call.
    process_group : torch.distributed process group or True, optional
        The batch is that of all processes of the group (True: the default group), each with its own share of the samples,
        of any size. Value and weights are those of one process with the whole batch; see Notes.
    averaged : bool
        With a process group: whether gradients are averaged over the processes afterwards, as DDP and FSDP do. The gradient
        of each process is then multiplied by the number of processes, so that the average is the gradient of the value.
    engine : "auto" or "torch"
        "auto": the compiled core for tensors of the CPU, PyTorch operations on the tensor's device for others. "torch":
        PyTorch operations everywhere.

    Attributes
    ----------
    weights : tensor of the losses' shape
        Worst-case weights q of the last batch; they sum to 1 in each row (over all processes of a group). None before the
        first call.
    eta : tensor of shape () or (m,)
        The dual variable of ``sum q = 1``, in units of the losses: for CVaR the quantile.
    last : dict
        ``weights``, ``eta`` and ``multiplier`` (the price of the radius, or the penalty in force) of the last batch.

    Notes
    -----
    * Losses are float32 or float64; bfloat16 and float16 are solved in float32, and the value comes back in their type.
      Sums are double. Large batches use the threads of ``torch.get_num_threads()``.
    * A NaN or an infinite loss makes the value and the weights of its row NaN, as in PyTorch's own losses; samples that a
      mask leaves out may hold anything.
    * ``torch.compile``, ``torch.func.vmap``, ``grad`` and ``jacrev``, and a backward pass through the backward pass work.
      The second derivative is that of the exact solution. It is 0 almost everywhere for risks that are piecewise linear
      (CVaR, Worst, and TotalVariation and Spectral without a penalty), whose weights jump. There are no third derivatives
      and no forward-mode ones, and base weights are constants. Under ``torch.func`` transforms nothing is kept in ``last``.
    * On other devices the solve is a fixed number of PyTorch operations with nothing read back by the host, in double
      precision where the device has it; only ``Spectral`` with a penalty goes through the host. This path is tested on
      tensors of the CPU; it has not been run on a GPU.
    * With a process group there is no second derivative (asking for it raises), ``torch.compile`` breaks its graph here,
      and ``Spectral``, which needs all losses in order, is refused but for its superquantile. All processes must call the
      layer together. A solve takes about twenty all-reduces of a few numbers.
    * The risk of a batch is not a mean over its samples: the average of the risks of micro-batches, or of shards, lies
      below the risk of the whole.

    Raises
    ------
    TypeError
        For losses that are not a dense floating tensor, and for weights, masks and targets that are no tensors.
    ValueError
        For an empty batch, losses of shape (n, 1), more than two dimensions, and, on the CPU, negative base weights or none that is
        positive; other devices and ``engine="torch"`` do not wait for such a look and answer NaN.

    Examples
    --------
    >>> import torch
    >>> import leeward as lw
    >>> from leeward.torch import RobustLoss
    >>> losses = torch.tensor([0.2, 3.0, 1.0], requires_grad=True)
    >>> layer = RobustLoss(lw.CVaR(0.5))
    >>> layer(losses).backward()
    >>> losses.grad
    tensor([0.0000, 0.6667, 0.3333])
    """

    def __init__(
        self,
        risk: lw.Risk,
        reduction: str = "mean",
        *,
        ignore_index: int | None = None,
        process_group: Any = None,
        averaged: bool = True,
        engine: str = "auto",
    ) -> None:
        super().__init__()
        if not isinstance(risk, lw.Risk):
            raise TypeError(f"risk must be a risk such as leeward.CVaR(0.1), got {risk!r}")
        if reduction not in REDUCTIONS:
            raise ValueError(f'reduction must be "mean", "sum" or "none", got {reduction!r}')
        if ignore_index is not None and (isinstance(ignore_index, bool) or not isinstance(ignore_index, int)):
            raise TypeError(f"ignore_index must be an integer or None, got {ignore_index!r}")
        if not isinstance(averaged, bool):
            raise TypeError(f"averaged must be True or False, got {averaged!r}")
        if engine not in ("auto", "torch"):
            raise ValueError(f'engine must be "auto" or "torch", got {engine!r}')
        if engine == "torch" and family_of(risk).kind == "entropic_spectral":
            raise ValueError(f'{risk!r} has no solution of fixed length in PyTorch operations; use engine="auto"')
        self.risk = risk
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.process_group = None if process_group is None else check_group(process_group, risk)
        self.averaged = averaged
        self.engine = engine
        self._name = remember(risk)
        self._found: list[Any] = [None]  # setting an attribute of a module takes longer than a solve

    def forward(
        self,
        losses: torch.Tensor,
        target: torch.Tensor | None = None,
        *,
        sample_weight: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the risk of the losses: a scalar, or (m,) for losses (m, n) and ``reduction="none"``.

        Parameters
        ----------
        losses : tensor of shape (n,) or (m, n)
            One loss a sample; rows are batches of their own, such as groups.
        target : tensor of the losses' shape, optional
            Read for ``ignore_index`` alone, and refused without one.
        sample_weight : tensor of shape (n,) or the losses' shape, optional
            Base weights p, not negative, any scale.
        mask : bool tensor of the losses' shape, optional
            False leaves a sample out.
        """
        if (
            target is None
            and sample_weight is None
            and mask is None
            and self.process_group is None
            and self.ignore_index is None
            and self.engine == "auto"
        ):
            found = evaluate_plain(losses, self.risk)
            if found is not None:
                value, self._found[0] = found
                return value
        losses = per_sample(losses, shard=self.process_group is not None)
        if target is not None or mask is not None or sample_weight is not None:
            losses, base = counted(losses, target, self.ignore_index, sample_weight, mask)
        elif self.ignore_index is not None:
            raise ValueError("a layer with ignore_index needs the target: layer(losses, target)")
        else:
            base = None
        kind = losses.dtype
        half = kind in HALF
        if half:
            losses = losses.float()
        if self.process_group is None:
            value, self._found[0] = evaluate(losses, base, self.risk, self.engine, self._name)
        else:
            value, self._found[0] = evaluate_group(losses, base, self.risk, self.process_group, self.averaged)
        if half:
            value = value.to(kind)
        if value.dim() == 0 or self.reduction == "none":
            return value
        return value.mean() if self.reduction == "mean" else value.sum()

    @property
    def last(self) -> dict[str, torch.Tensor] | None:
        """Weights, eta and multiplier of the last batch; None before the first."""
        (found,) = self._found
        if found is None:
            return None
        weights, dual = (found.weights, found.dual) if isinstance(found, Answer) else found
        return {"weights": weights.clone(), "eta": dual[..., 0].clone(), "multiplier": dual[..., 1].clone()}

    @property
    def weights(self) -> torch.Tensor | None:
        """Worst-case weights of the last batch."""
        last = self.last
        return None if last is None else last["weights"]

    @property
    def eta(self) -> torch.Tensor | None:
        """The dual variable of the last batch."""
        last = self.last
        return None if last is None else last["eta"]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_found": [None]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        remember(self.risk)

    def extra_repr(self) -> str:
        """What ``print(layer)`` shows."""
        return f"{self.risk!r}, reduction={self.reduction!r}"
