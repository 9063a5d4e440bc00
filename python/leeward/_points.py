"""Points of a run: what is kept of them, what a callback sees of them, and the exception that ends a run at one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leeward.result import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.domains import Domain
    from leeward.problems import Evaluation, Robust
    from leeward.trace import Trace

    Vector = NDArray[np.float64]

__all__ = ["Point", "State", "StopRun", "certified_gap", "pack", "unpack"]


class StopRun(Exception):
    """Ends a run from inside ``record``; carries the status and the reason as a clause."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class State:
    """What a callback sees: one recorded point. ``w`` is read-only and stays valid."""

    step: int
    passes: float
    w: Vector
    objective: float
    gap: float | None
    gradient_norm: float
    trace: Trace


@dataclass(frozen=True)
class Point:
    """A recorded point, as the run keeps it."""

    w: Vector
    objective: float
    gap: float | None
    gradient_norm: float
    evaluation: Evaluation | None
    step: int


def certified_gap(
    problem: Robust, w: Vector, evaluation: Evaluation | None, domain: Domain | None, threads: int | None
) -> float | None:
    """The certificate's gap, never negative; None where none exists."""
    try:
        from leeward._certificate import certify
    except ImportError:
        return None
    gap = certify(problem, w, evaluation=evaluation, domain=domain, threads=threads).gap
    return None if gap is None or not math.isfinite(gap) else max(float(gap), 0.0)


def pack(name: str, point: Point | None) -> dict[str, NDArray[np.float64]]:
    """A point as named arrays, for a checkpoint; its evaluation is left out."""
    if point is None:
        return {}
    gap = math.nan if point.gap is None else point.gap
    numbers = np.array([point.objective, gap, point.gradient_norm, point.step])
    return {f"{name}.w": point.w, f"{name}.numbers": numbers}


def unpack(name: str, arrays: dict[str, NDArray[np.float64]]) -> Point | None:
    """The inverse of :func:`pack`."""
    if f"{name}.w" not in arrays:
        return None
    objective, gap, norm, step = (float(v) for v in arrays[f"{name}.numbers"])
    return Point(arrays[f"{name}.w"], objective, None if math.isnan(gap) else gap, norm, None, int(step))
