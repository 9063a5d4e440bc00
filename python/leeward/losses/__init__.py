"""Losses of linear models: what is measured between a score ``z = x.w + b`` and a label ``y``.

An object here is a description (immutable, hashable, picklable) that ``LinearModel`` takes by name or by value; the
numbers are computed by the core (csrc/include/leeward/hd/scalar_loss.hpp).
"""

from __future__ import annotations

from typing import Any

from leeward.losses._base import Loss
from leeward.losses._bounded import Cauchy, GemanMcClure, Sigmoid, Tukey
from leeward.losses._convex import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
)

__all__ = [
    "Absolute",
    "Cauchy",
    "GemanMcClure",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Poisson",
    "Quantile",
    "Sigmoid",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "Tukey",
    "get_loss",
]

_CONVEX = (Squared, Huber, Absolute, Quantile, Logistic, Softmax, Hinge, SquaredHinge, Poisson)
_KINDS: dict[str, type[Loss]] = {kind.name: kind for kind in (*_CONVEX, Sigmoid, Cauchy, GemanMcClure, Tukey)}


def get_loss(loss: str | Loss) -> Loss:
    """Return the loss object of a name; an object is returned as it is.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.losses.get_loss("huber")
    Huber(delta=1.0)
    """
    if isinstance(loss, Loss):
        return loss
    kind: Any = _KINDS.get(loss) if isinstance(loss, str) else None
    if kind is None:
        raise ValueError(f"loss must be one of {', '.join(sorted(_KINDS))} or a loss object, got {loss!r}")
    made: Loss = kind()
    return made
