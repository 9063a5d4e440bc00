"""What minimize asks of an algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from leeward._context import RunContext
    from leeward.domains import Domain
    from leeward.problems import Robust

__all__ = ["Algorithm", "Stochastic"]


class Algorithm(ABC):
    """Base of the algorithms: immutable settings and ``run``. State lives in ``run`` or in what it makes, never here."""

    #: Whether ``run`` does compositions of levels: problems with a value, a gradient and no losses of samples.
    compositions: ClassVar[bool] = False

    @abstractmethod
    def run(self, context: RunContext) -> None:
        """Runs on ``context.problem`` from ``context.w0``; reports through ``record`` and ends by ``finish``."""

    def check(self, problem: Robust, domain: Domain | None) -> None:  # noqa: B027 (nothing to refuse by default)
        """Raises ValueError when the algorithm cannot do this problem or domain, naming the two."""

    def default_budget(self, problem: Robust) -> float | None:
        """Passes when ``max_passes`` is not given; None for no limit."""
        return None

    def default_tol(self, problem: Robust, max_passes: float | None) -> float:
        """Tolerance when ``tol`` is not given; 0 for none."""
        return 1e-6 if problem.smooth else 1e-4


class Stochastic(Algorithm):
    """Base of the algorithms that see a risk through draws: 200 passes to a tolerance of 1e-3, or a given budget in full.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> problem = lw.Robust(lw.LinearModel(np.eye(2), [0, 1]), lw.CVaR(0.5))
    >>> lw.SGD().default_tol(problem, None), lw.SGD().default_tol(problem, 10.0)
    (0.001, 0.0)
    """

    def default_budget(self, problem: Robust) -> float | None:
        return 200.0

    def default_tol(self, problem: Robust, max_passes: float | None) -> float:
        return 1e-3 if max_passes is None else 0.0
