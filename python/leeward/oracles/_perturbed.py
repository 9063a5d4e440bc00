"""The inner problems of Sinkhorn DRO as an oracle: its losses are the Psi_i, each over the m points drawn around sample i."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward.oracles._base import Oracle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leeward.oracles._linear import LinearModel

__all__ = ["PerturbedModel"]


class PerturbedModel(Oracle):
    """A linear model whose loss of sample i is ``Psi_i(w)``; made by :class:`leeward.Sinkhorn`, which explains it.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> problem = lw.Sinkhorn(lw.LinearModel(np.eye(2), [0, 1]), "kl", noise=0.1)
    >>> problem.oracle.losses(np.zeros(3)).shape
    (2,)
    """

    def __init__(self, model: LinearModel, core: Any, points: Any) -> None:
        self.model = model
        self.l2, self.penalised, self.sample_weight = model.l2, model.penalised, model.sample_weight
        self.convex, self.smooth = model.convex, model.smooth
        self._core, self._points, self._threads = core, points, model._threads

    def evaluate(
        self, w: NDArray[np.float64], base: NDArray[np.float64] | None, threads: int | None
    ) -> tuple[NDArray[np.float64], ...]:
        """``Psi_i`` (n,), ``sum_i p_i grad Psi_i`` (dim,), inner ``eta_i`` (n,), effective numbers of draws (n,)."""
        answers: tuple[NDArray[np.float64], ...] = self._core.evaluate(w, base, self._thread_count(threads))
        return answers

    def __repr__(self) -> str:
        return f"PerturbedModel({self.model!r})"
