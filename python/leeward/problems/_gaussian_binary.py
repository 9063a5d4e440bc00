"""Softmax of two classes under Gaussian noise: the logistic loss of the difference of the scores, which has a table of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays
from leeward.losses import Softmax
from leeward.oracles import LinearModel
from leeward.problems._gaussian import GaussianSmoothing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from leeward import divergences

    Array = NDArray[np.float64]

__all__ = ["BinarySmoothing"]


class BinarySmoothing:
    """The answers of :class:`GaussianSmoothing` for softmax of two classes, at coefficients (2, d) and intercepts (2,)."""

    def __init__(
        self, model: LinearModel, divergence: divergences.Divergence, lam: float, entropy: float, noise: float
    ) -> None:
        self.model = model
        # l2 (|w_0|^2 + |w_1|^2) is l2 |w_1 - w_0|^2 / 2 where w_0 + w_1 = 0, as it is at the minimum
        settings: Any = {"l2": 0.5 * model.l2, "intercept": model.intercept, "sample_weight": model.sample_weight}
        y = 2.0 * model.targets() - 1.0
        logistic: Any = LinearModel(model._X, y, "logistic", threads=model._threads or None, **settings)
        self._one = GaussianSmoothing(logistic, divergence, lam, entropy, noise)
        self.constant = self._one.constant

    @staticmethod
    def supported(model: Any, divergence: Any) -> bool:
        """Whether the class covers this model and divergence."""
        two = isinstance(model, LinearModel) and isinstance(model.loss, Softmax) and model.n_outputs == 2
        return two and GaussianSmoothing.divergent(divergence)

    def evaluate(self, w: ArrayLike, *, threads: int | None = None) -> tuple[float, Array, Array]:
        """The objective without the l2 term, its gradient (dim,) and ``Psi_i`` (n,)."""
        value, gradient, values = self._one.evaluate(self._difference(w), threads=threads)
        return value, self._both(gradient), values

    def weighted(
        self, w: ArrayLike, weights: ArrayLike, index: ArrayLike | None = None, *, threads: int | None = None
    ) -> Array:
        """``sum_k weights_k grad Psi_index[k](w)``, (dim,)."""
        return self._both(self._one.weighted(self._difference(w), weights, index, threads=threads))

    def bound(self, w: ArrayLike, *, threads: int | None = None) -> float:
        """A lower bound of the regularised minimum."""
        return self._one.bound(self._difference(w), threads=threads)

    def error(self, w: ArrayLike, *, threads: int | None = None) -> None:
        """None: the bound allows for quadrature."""
        return

    def _difference(self, w: ArrayLike) -> Array:
        w, d = _arrays.point(w, self.model.dim), self.model.n_features
        return np.concatenate([w[d : 2 * d] - w[:d], w[2 * d + 1 :] - w[2 * d : 2 * d + 1]])

    def _both(self, gradient: Array) -> Array:
        d = self.model.n_features
        return np.concatenate([-gradient[:d], gradient[:d], -gradient[d:], gradient[d:]])
