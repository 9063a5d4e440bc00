"""A start for small smooth problems that are well enough conditioned: stages of SVRG, whose passes over data in the cache cost less
than an iteration of a method that works in Python.

With kappa = L_max / l2 at most n, a stage of n steps of size ``1/(mean L_i + 1.5 L_max)`` takes the excess down several times
over (Johnson and Zhang 2013). L-BFGS takes over where that is no longer so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leeward._arrays import Csr
from leeward.algorithms._finite_sum_steps import constants
from leeward.algorithms._staged import Rule
from leeward.algorithms.updates import Plain
from leeward.oracles import LinearModel, PartitionedModel
from leeward.problems import Robust
from leeward.risks import Mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["SnapshotPilot"]

_FEWEST = 500  # samples
_LARGEST = 1 << 19  # entries of X
_WORST = 100.0  # kappa / n
_STAGES = 2  # between two looks at the objective
GAIN = 4.0  # by which these must cut the error for the pilot to go on


@dataclass
class SnapshotPilot:
    """Stages of SVRG from a point. ``go`` makes some, within a budget of component gradients, and returns the point."""

    once: bool  # whether further stages would gain little: kappa > n
    _descent: Any
    _size: int
    _threads: int

    @classmethod
    def of(cls, problem: Robust, w: Vector, seed: int, threads: int) -> SnapshotPilot | None:
        """The pilot of a problem that it suits, or None."""
        model = problem.oracle
        if not (isinstance(model, LinearModel) and isinstance(problem.risk, Mean) and problem.groups is None):
            return None
        if not (problem.convex and problem.l2 > 0 and problem.size >= _FEWEST and _entries(model) <= _LARGEST):
            return None
        if isinstance(model, PartitionedModel):  # few rows: they are brought together
            problem = Robust(model.gathered(), problem.risk)
        found = constants(problem, None, threads)
        if found is None or found.largest > _WORST * problem.l2 * problem.size:
            return None
        step = 1.0 / (found.mean + 1.5 * found.largest)
        estimator = problem.staged("SnapshotDifference", Rule(problem.size, 1, length_rule="mean").native(), seed)
        descent = problem.descent(
            estimator,
            Plain().native(),
            w,
            domain=None,
            schedule=(step, 0, 1.0),
            averaging=0,
            output=(0, 0),
            metric=None,
        )
        return cls(found.largest > problem.l2 * problem.size, descent, problem.size, threads)

    def go(self, evaluations: float) -> tuple[Vector, int, int] | None:
        """The point, and component gradients and samples that it took; None without a budget or a finite point."""
        wanted = int(min(evaluations, 3 * _STAGES * self._size))
        before = self._descent.work
        if wanted < self._size or not self._descent.advance(2**62, 1e9, self._threads, wanted):
            return None
        after = self._descent.work
        return self._descent.answer, after[1] - before[1], after[2] - before[2]


def _entries(model: LinearModel) -> int:
    if isinstance(model, PartitionedModel):
        return model.size * model.n_features
    X = model._X
    return int(X.indptr[-1]) if isinstance(X, Csr) else int(X.size)
