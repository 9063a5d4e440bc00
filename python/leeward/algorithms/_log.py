"""The evaluations of a run on the full data, in order: what a checkpoint of a full-batch run holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward.algorithms._rounds import Measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["Log"]


class Log:
    """Values and gradients by order of evaluation, with a checksum of each point.

    Parameters
    ----------
    dim : int
        Length of w.
    saved : dict or None
        ``arrays()`` of an earlier run, to be replayed.
    kept : bool
        Whether anything is kept: not where there is no checkpoint.
    """

    def __init__(self, dim: int, saved: dict[str, NDArray[Any]] | None, kept: bool = True) -> None:
        self._kept = kept
        self._numbers: list[tuple[float, ...]] = []
        self._gradients: list[Vector] = []
        self._at = 0
        if saved is not None:
            self._numbers = [tuple(float(v) for v in row) for row in saved["numbers"]]
            self._gradients = list(saved["gradients"].reshape(-1, dim))

    @property
    def replaying(self) -> bool:
        """Whether evaluations of the earlier run are left."""
        return self._at < len(self._numbers)

    def next(self, w: Vector) -> tuple[float, Measure, Vector] | None:
        """Value, measure and gradient at w when the earlier run has been here; else None.

        Points that differ from the earlier run's (another processor's arithmetic) end the replay.
        """
        if not self.replaying:
            return None
        check, value, *measure = self._numbers[self._at]
        if check != _checksum(w):
            del self._numbers[self._at :], self._gradients[self._at :]
            return None
        gradient = self._gradients[self._at]
        self._at += 1
        return value, Measure(*measure), gradient

    def add(self, w: Vector, value: float, measure: Measure, gradient: Vector) -> None:
        """Appends an evaluation."""
        if not self._kept:
            return
        self._numbers.append((_checksum(w), value, measure.error, measure.allowed, measure.smoothing))
        self._gradients.append(gradient)
        self._at += 1

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The log as arrays."""
        return {"numbers": np.array(self._numbers), "gradients": np.array(self._gradients)}


def _checksum(w: Vector) -> float:
    return float(np.sum(w * (1.0 + (np.arange(len(w)) % 7))))
