"""The inner problems of Sinkhorn DRO as an oracle: its losses are the Psi_i, each over the m points drawn around sample i."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from leeward import _arrays
from leeward.oracles._base import Oracle

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from leeward.oracles._linear import LinearModel
    from leeward.oracles._point import PointOracle

__all__ = ["Answers", "PerturbedModel"]


class Answers(Protocol):
    """Another way to the ``Psi_i`` than the core's on the common draws."""

    def losses(self, w: NDArray[np.float64], threads: int | None) -> NDArray[np.float64]:
        """``Psi_i(w)`` (n,)."""

    def gradient(
        self, w: NDArray[np.float64], weights: NDArray[np.float64], threads: int | None
    ) -> NDArray[np.float64]:
        """``sum_i weights_i grad Psi_i(w)`` (dim,)."""


class PerturbedModel(Oracle):
    """An oracle whose loss of sample i is ``Psi_i(w)``; made by :class:`leeward.Sinkhorn`, which explains it.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> problem = lw.Sinkhorn(lw.LinearModel(np.eye(2), [0, 1]), "kl", noise=0.1)
    >>> problem.oracle.losses(np.zeros(3)).shape
    (2,)
    """

    def __init__(self, model: LinearModel | PointOracle, core: Any, points: Any) -> None:
        self.model = model
        self.l2, self.penalised, self.sample_weight = model.l2, model.penalised, model.sample_weight
        self.convex, self.smooth = model.convex, model.smooth
        self._core, self._points, self._threads = core, points, model._threads
        self.answers: Answers | None = None  # where it is not the core's Psi on the common draws that is meant

    def evaluate(
        self, w: NDArray[np.float64], base: NDArray[np.float64] | None, threads: int | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """``Psi_i`` (n,), ``sum_i p_i grad Psi_i`` (dim,), inner ``eta_i`` (n,), effective numbers of draws (n,); on the common draws."""
        values, gradient, eta, effective = self._core.evaluate(w, base, self._thread_count(threads))
        return values, gradient, eta, effective

    def losses(
        self,
        w: ArrayLike,
        index: ArrayLike | None = None,
        *,
        out: NDArray[np.float64] | None = None,
        threads: int | None = None,
    ) -> NDArray[np.float64]:
        """``Psi_i(w)`` (m,), as the problem takes them."""
        if self.answers is None:
            return super().losses(w, index, out=out, threads=threads)
        at, rows = _arrays.point(w, self.dim), _arrays.index_array(index)
        values = self.answers.losses(at, threads)
        result = _arrays.output(out, values.shape if rows is None else rows.shape, at)
        result[...] = values if rows is None else values[rows]
        return result

    def gradient(
        self,
        w: ArrayLike,
        weights: ArrayLike,
        index: ArrayLike | None = None,
        *,
        out: NDArray[np.float64] | None = None,
        threads: int | None = None,
    ) -> NDArray[np.float64]:
        """``sum_k weights_k grad Psi_k(w)``, as the problem takes them."""
        if self.answers is None:
            return super().gradient(w, weights, index, out=out, threads=threads)
        at, rows = _arrays.point(w, self.dim), _arrays.index_array(index)
        scale = _arrays.point(weights, self.size if rows is None else len(rows), "weights")
        if rows is not None:
            scale = np.bincount(rows, weights=scale, minlength=self.size).astype(np.float64, copy=False)
        result = _arrays.output(out, (self.dim,), at, scale)
        result[...] = self.answers.gradient(at, scale, threads)
        return result

    def __repr__(self) -> str:
        return f"PerturbedModel({self.model!r})"
