"""What a run returns: the point, what is known about it, and why the run ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from leeward.trace import Trace

__all__ = ["Result", "Status"]


class Status(IntEnum):
    """Why a run ended."""

    CONVERGED = 0  #: the tolerance in force was reached
    BUDGET = 1  #: passes, steps or iterations are used up
    STALLED = 2  #: no further progress is possible in floating point, short of the tolerance
    NON_FINITE = 3  #: the objective or the gradient became NaN or infinite
    DIVERGED = 4  #: the objective exploded
    STOPPED_BY_CALLBACK = 5  #: the callback returned True
    INTERRUPTED = 6  #: Ctrl-C


@dataclass
class Result:
    """The outcome of :func:`leeward.minimize`. Picklable; ``repr`` is a short summary.

    Attributes
    ----------
    x : ndarray (d,)
        The point.
    fun : float
        Objective at x on all samples: ``problem.value(x)`` plus the prox term when ``domain`` is one.
    jac : ndarray (d,)
        (Sub)gradient of ``problem`` at x; the prox term is not in it.
    gap : float or None
        Certified bound: ``fun - P* <= gap``. None when no certificate exists for the problem.
    status : Status
        Why the run ended, as a number.
    message : str
        The same as one full sentence, with the distance from the optimum as far as it is known.
    success : bool
        Whether status is ``CONVERGED``.
    nit : int
        Steps or iterations.
    nfev, njev : int
        Component losses and component gradients evaluated by the algorithm.
    samples : int
        The same work as papers on variance reduction count it: samples drawn, one whose gradient is taken at two points
        counting once (:attr:`Trace.samples`).
    passes : float
        ``max(nfev, njev) / n``.
    eta : float
        Dual variable of the risk at x; NaN for a composition.
    weights : ndarray (n,)
        Worst-case weights of the samples at x; empty for a composition.
    trace : Trace
        The history.
    algorithm : object
        The algorithm that ran, with its settings.
    counts : dict
        For a composition, ``"values"``, ``"jacobians"``, ``"products"`` (evaluations of one sample of one level), ``"samples"``
        (drawn), and ``"guards"`` (numbers that were kept positive); else empty.
    """

    x: NDArray[np.float64]
    fun: float
    jac: NDArray[np.float64]
    gap: float | None
    status: Status
    message: str
    nit: int
    nfev: int
    njev: int
    passes: float
    eta: float
    weights: NDArray[np.float64]
    trace: Trace
    algorithm: Any = field(default=None)
    samples: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def success(self) -> bool:
        return self.status is Status.CONVERGED

    def plot(self, ax: Any = None) -> Any:
        """Draws objective and certified gap against passes (needs matplotlib); returns the axes."""
        from leeward.plot import plot_result

        return plot_result(self, ax=ax)

    def __repr__(self) -> str:
        gap = "none" if self.gap is None else f"{self.gap:.3g}"
        return (
            f"Result({self.status.name}: fun={self.fun:.9g}, gap={gap}, passes={self.passes:.4g}, "
            f"steps={self.nit}, d={len(self.x)}, algorithm={self.algorithm!r})\n  {self.message}"
        )
