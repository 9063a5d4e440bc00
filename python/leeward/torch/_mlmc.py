"""`MLMCLoss` and `MLMCSampler`: multi-level estimates of a risk, without the bias of small batches, and the batches that they need."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import leeward as lw
from leeward.torch._families import remember
from leeward.torch._inputs import HALF, per_sample
from leeward.torch._short import evaluate

__all__ = ["MLMCLoss", "MLMCSampler"]


class _Levels:
    """``n0`` and the number of levels above it, checked."""

    def __init__(self, n0: int, n_max: int) -> None:
        self.levels = lw.MLMC(n0, n_max).levels  # the same rules and messages
        self.n0 = int(n0)

    def level(self, size: int) -> int:
        """Return J of a batch of ``2^J n0`` samples."""
        for j in range(1, self.levels + 1):
            if size == self.n0 << j:
                return j
        wanted = ", ".join(str(self.n0 << j) for j in range(1, self.levels + 1))
        raise ValueError(f"a batch must have {wanted} samples, as MLMCSampler draws them, got {size}")

    def chance(self, level: int) -> float:
        """Return P(J = level)."""
        return 2.0 ** -min(level, self.levels - 1)


class MLMCLoss(torch.nn.Module):
    """The multi-level Monte Carlo estimate of a risk: its gradient has the mean of that of ``n_max`` samples, at the mean cost of few.

    On a batch of ``k = 2^J n0`` independent draws, with R the risk::

        R(l_1..l_n0) + (R(l_1..l_k) - R(l_1..l_k/2)/2 - R(l_k/2+1..l_k)/2) / P(J)

    Parameters
    ----------
    risk : leeward risk
        CVaR, KLCVaR and penalty forms; radius forms warn.
    n0 : int
        Samples of the lowest level.
    n_max : int
        Samples of the highest one, rounded down to ``2^levels n0``.

    Attributes
    ----------
    weights : tensor (k,)
        The gradient of the last value in its losses: signed, with sum 1.

    Warns
    -----
    UserWarning
        On a radius form and on ``Worst``, whose estimates have no bounded variance.

    Raises
    ------
    ValueError
        If a batch has another size than one of ``2^j n0``.

    Notes
    -----
    The batches are those of `MLMCSampler`; a batch in another order of its samples is one too. Source: Levy, Carmon, Duchi and Sidford,
    Large-scale methods for distributionally robust optimization, 2020, section 4.

    Examples
    --------
    >>> import torch
    >>> import leeward as lw
    >>> from leeward.torch import MLMCLoss
    >>> layer = MLMCLoss(lw.CVaR(0.5), n0=1, n_max=4)  # P(J = 1) = P(J = 2) = 1/2
    >>> layer(torch.tensor([1.0, 3.0])).item()  # 1 + (3 - 1/2 - 3/2) / (1/2)
    3.0
    """

    def __init__(self, risk: lw.Risk, n0: int = 8, n_max: int = 4096) -> None:
        super().__init__()
        if not isinstance(risk, lw.Risk):
            raise TypeError(f"risk must be a risk such as leeward.CVaR(0.1), got {risk!r}")
        if isinstance(risk, lw.Worst) or (
            getattr(risk, "radius", None) is not None and getattr(risk, "penalty", None) is None
        ):
            warnings.warn(
                f"the multi-level estimates of {risk!r} have no bounded variance: use a penalty form, or RobustLoss on large batches",
                UserWarning,
                stacklevel=2,
            )
        self.risk = risk
        self._levels = _Levels(n0, n_max)
        self._name = remember(risk)
        self._last: list[Any] = [None]

    def forward(self, losses: torch.Tensor) -> torch.Tensor:
        """Return the estimate for the losses (k,) of a batch, a scalar."""
        losses = per_sample(losses)
        if losses.dim() != 1:
            raise ValueError(f"losses must have shape (k,), got {tuple(losses.shape)}")
        size = losses.shape[0]
        chance = self._levels.chance(self._levels.level(size))
        kind = losses.dtype
        if kind in HALF:
            losses = losses.float()
        half = size // 2
        parts = (slice(0, self._levels.n0), slice(0, size), slice(0, half), slice(half, size))
        factors = (1.0, 1 / chance, -0.5 / chance, -0.5 / chance)
        value: Any = 0.0
        found = []
        for part, factor in zip(parts, factors, strict=True):
            risk, answer = evaluate(losses[part], None, self.risk, "auto", self._name)
            value = value + factor * risk
            found.append((part, factor, answer))
        self._last[0] = size, found
        return value.to(kind)

    @property
    def weights(self) -> torch.Tensor | None:
        """Signed weights of the last batch; None before the first."""
        if self._last[0] is None:
            return None
        size, found = self._last[0]
        total: Any = None
        for part, factor, answer in found:
            if answer is None:  # within a transform
                return None
            weights = answer[0] if isinstance(answer, tuple) else answer.weights
            total = weights.new_zeros(size) if total is None else total
            total[part] += factor * weights
        return total

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": [None]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        remember(self.risk)

    def extra_repr(self) -> str:
        """What ``print(layer)`` shows."""
        return f"{self.risk!r}, n0={self._levels.n0}, levels={self._levels.levels}"


class MLMCSampler(torch.utils.data.Sampler[list[int]]):
    """Batches for `MLMCLoss`, for a loader's ``batch_sampler``: a random level J, then ``2^J n0`` samples with replacement.

    ``P(J = j) = 2^-j`` below the highest level, which has the rest. The mean size of a batch is ``n0 (1 + levels)``.

    Parameters
    ----------
    size : int
        Samples in the data set.
    n0, n_max : int
        As for `MLMCLoss`.
    steps : int
        Batches in one pass over the sampler.
    seed : int
        Batch t is a value of (seed, t).

    Notes
    -----
    ``state_dict`` holds the number of the next batch. A loader with workers draws ahead: save the number of batches used yourself, and
    load ``{"step": number}``.

    Examples
    --------
    >>> from leeward.torch import MLMCSampler
    >>> sampler = MLMCSampler(1000, n0=4, n_max=64, steps=5)
    >>> [len(batch) for batch in sampler], sampler.state_dict()
    ([8, 32, 32, 8, 8], {'step': 5})
    """

    def __init__(self, size: int, n0: int = 8, n_max: int = 4096, *, steps: int, seed: int = 0) -> None:
        for name, value, least in (("size", size, 1), ("steps", steps, 1), ("seed", seed, 0)):
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise TypeError(f"{name} must be an integer, got {value!r}")
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        self.size = int(size)
        self.steps = int(steps)
        self.seed = int(seed)
        self.step = 0
        self._levels = _Levels(n0, n_max)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.steps - self.step % self.steps):  # a pass that was left goes on
            batch = self.batch(self.step)
            self.step += 1
            yield batch

    def batch(self, step: int) -> list[int]:
        """Return the sample numbers of batch ``step``."""
        draws = np.random.Generator(np.random.Philox(key=[self.seed, step]))
        level = min(int(draws.geometric(0.5)), self._levels.levels)
        chosen: list[int] = draws.integers(self.size, size=self._levels.n0 << level).tolist()
        return chosen

    def state_dict(self) -> dict[str, int]:
        """Return the number of the next batch."""
        return {"step": self.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on with the batch of a saved state."""
        self.step = int(state["step"])
