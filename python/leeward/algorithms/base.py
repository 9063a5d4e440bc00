"""What minimize asks of an algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leeward._context import RunContext
    from leeward.domains import Domain
    from leeward.problems import Robust

__all__ = ["Algorithm"]


class Algorithm(ABC):
    """Base of the algorithms: immutable settings and ``run``. State lives in ``run`` or in what it makes, never here."""

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
