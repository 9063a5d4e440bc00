"""What all losses have in common, and labels -1/+1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from leeward import _arrays

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Loss", "signs"]


@dataclass(frozen=True)
class Loss:
    """What all losses have in common.

    Attributes
    ----------
    name : str
        The name ``LinearModel(loss=...)`` takes.
    convex : bool
        Whether the loss is convex in the score. Problems with a loss that is not have no certificate.
    smooth : bool
        Whether the slope is continuous in the score.
    smoothing : float
        Moreau parameter mu of a smoothed loss, 0 for the loss itself.
    smoothing_gap : float
        The constant g with ``l_mu <= l <= l_mu + mu g``; 0 for smooth losses.
    """

    name: ClassVar[str]
    convex: ClassVar[bool] = True

    @property
    def smoothing(self) -> float:
        return 0.0

    @property
    def smooth(self) -> bool:
        return True

    @property
    def parameter(self) -> float:
        """The loss's own parameter, 0 where it has none."""
        return 0.0

    @property
    def smoothing_gap(self) -> float:
        return 0.0

    def smoothed(self, mu: float) -> Self:
        """Return the Moreau envelope ``l_mu(z) = min_u l(u) + (z - u)^2 / (2 mu)``; a smooth loss returns itself.

        The envelope of an envelope adds the parameters. Its conjugate is ``l*(s) + mu s^2 / 2``.
        """
        if not (np.isfinite(_arrays.number(mu, "mu")) and mu > 0):
            raise ValueError(f"mu must be positive and finite, got {mu}")
        return self

    def labels(self, y: ArrayLike, size: int | None = None) -> tuple[NDArray[np.float64], int]:
        """Return the labels as the core reads them, checked, and the number of scores a sample."""
        return _arrays.numbers(y, "y", size), 1


def signs(y: ArrayLike, size: int | None, name: str) -> NDArray[np.float64]:
    """Return labels -1/+1 from labels -1/+1 or 0/1."""
    values = _arrays.numbers(y, "y", size)
    for low in (-1.0, 0.0):
        good = (values == 1.0) | (values == low)
        if good.all():
            return np.where(values == 1.0, 1.0, -1.0)
    bad = (values != 1.0) & (values != -1.0) & (values != 0.0)
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(f"y must hold labels -1/+1 or 0/1 for the {name} loss, got {values[k]:g} at position {k}")
    raise ValueError(f"y must hold labels -1/+1 or 0/1 for the {name} loss, got -1, 0 and 1 together")
