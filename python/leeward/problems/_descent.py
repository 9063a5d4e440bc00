"""The native descent of a problem (csrc/include/leeward/descent/driver.hpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.domains import Domain

__all__ = ["native_descent"]


def native_descent(
    problem: Any,
    estimator: Any,
    update: tuple[str, list[float]],
    start: NDArray[np.float64],
    *,
    domain: Domain | None,
    schedule: tuple[float, int, float],
    averaging: int,
    output: tuple[int, int],
    metric: NDArray[np.float64] | None,
) -> Any:
    """A native descent along the estimator's directions plus the problem's l2 term."""
    none = np.zeros(1)
    first, second = (none, none) if domain is None else domain.parameters(problem.penalised)
    kind = 0 if domain is None else domain.kind
    settings = ((kind, first, second), schedule, averaging, output, problem.l2, problem.penalised, metric)
    return _core.Descent(estimator, update, start, *settings)
