"""Points of a run: what is kept of them, what a callback sees of them, and the exception that ends a run at one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leeward._certificate import certify
from leeward.oracles import LinearModel
from leeward.result import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.domains import Domain
    from leeward.problems import Evaluation, Robust
    from leeward.trace import Trace

    Vector = NDArray[np.float64]

__all__ = ["Point", "State", "StopRun", "best_gap", "certified_gap", "pack", "unpack"]

# Strengths of smoothing at which dual points are tried, over the spread of the losses.
_STRENGTHS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4)


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

    @property
    def known_gap(self) -> float | None:
        """The gap, or None where it is not known."""
        return self.gap if self.gap is not None and math.isfinite(self.gap) else None


def certified_gap(
    problem: Robust, w: Vector, evaluation: Evaluation | None, domain: Domain | None, threads: int | None
) -> float | None:
    """The certificate's gap, never negative; None where none exists."""
    gap = certify(problem, w, evaluation=evaluation, domain=domain, threads=threads).gap
    return None if gap is None or not math.isfinite(gap) else max(float(gap), 0.0)


def best_gap(
    problem: Robust, w: Vector, evaluation: Evaluation, domain: Domain | None, threads: int | None
) -> float | None:
    """The smallest of several certificates: for a non-smooth problem the dual points of smoothed ones are tried too."""
    best = certified_gap(problem, w, evaluation, domain, threads)
    spread = float(np.ptp(evaluation.losses))
    if best is None or problem.smooth or spread == 0:
        return best
    for strength in _STRENGTHS:
        try:
            soft = problem.smoothed(strength * spread)
        except ValueError:  # a risk that has no smoothing
            return best
        q = soft.evaluate(w, threads=threads).weights
        slopes = soft.oracle.slopes(w, threads=threads) if isinstance(soft.oracle, LinearModel) else None
        gap = certify(problem, w, evaluation, domain, q=q, slopes=slopes, threads=threads).gap
        best = best if gap is None or math.isnan(gap) else min(best, max(float(gap), 0.0))
    return best


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
