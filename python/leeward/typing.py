"""Types for annotations in user code: arrays of the package's precision and the functions a `FunctionOracle` takes."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["FloatVector", "GradientFunction", "IndexVector", "LossFunction", "Pullback", "VjpFunction"]

FloatVector: TypeAlias = NDArray[np.float64]
"""Iterates, losses, weights and gradients: float64, whatever the data's element type."""

IndexVector: TypeAlias = NDArray[np.int64]
"""Sample numbers of a batch."""


class LossFunction(Protocol):
    """The losses of a batch: ``f(w, index) -> (m,)`` for w ``(d,)`` and index ``(m,)``, both read-only.

    Examples
    --------
    >>> import numpy as np
    >>> from leeward.typing import FloatVector, IndexVector, LossFunction
    >>> centres = np.array([0.0, 1.0, 4.0])
    >>> def squared(w: FloatVector, index: IndexVector) -> FloatVector:
    ...     return 0.5 * (w[0] - centres[index]) ** 2
    >>> f: LossFunction = squared
    >>> f(np.array([2.0]), np.array([0, 2]))
    array([2., 2.])
    """

    def __call__(self, w: FloatVector, index: IndexVector, /) -> ArrayLike:
        """Return the losses of the samples in index at w."""
        ...


class GradientFunction(Protocol):
    """The weighted gradient of a batch: ``g(w, weights, index) -> (d,)``, the sum of ``weights[k] grad l(w; index[k])``.

    Examples
    --------
    >>> import numpy as np
    >>> from leeward.typing import FloatVector, GradientFunction, IndexVector
    >>> centres = np.array([0.0, 1.0, 4.0])
    >>> def slope(w: FloatVector, weights: FloatVector, index: IndexVector) -> FloatVector:
    ...     return np.array([weights @ (w[0] - centres[index])])
    >>> g: GradientFunction = slope
    >>> g(np.array([2.0]), np.array([0.5, 0.5]), np.array([0, 2]))
    array([0.])
    """

    def __call__(self, w: FloatVector, weights: FloatVector, index: IndexVector, /) -> ArrayLike:
        """Return the weighted sum of the gradients of the samples in index at w."""
        ...


class Pullback(Protocol):
    """From weights ``(m,)`` to the weighted gradient ``(d,)``, at the point where the losses were taken.

    Examples
    --------
    >>> import numpy as np
    >>> from leeward.typing import Pullback
    >>> pullback: Pullback = lambda weights: np.array([weights.sum()])
    >>> pullback(np.array([0.25, 0.75]))
    array([1.])
    """

    def __call__(self, weights: FloatVector, /) -> ArrayLike:
        """Return the weighted sum of gradients."""
        ...


class VjpFunction(Protocol):
    """Losses with their pullback: ``fun(w, index) -> (losses, pullback)``.

    Examples
    --------
    >>> import numpy as np
    >>> from leeward.typing import FloatVector, IndexVector, Pullback, VjpFunction
    >>> centres = np.array([0.0, 1.0, 4.0])
    >>> def fun(w: FloatVector, index: IndexVector) -> tuple[FloatVector, Pullback]:
    ...     residual = w[0] - centres[index]
    ...     return 0.5 * residual**2, lambda weights: np.array([weights @ residual])
    >>> typed: VjpFunction = fun
    >>> losses, pullback = typed(np.array([2.0]), np.array([0, 2]))
    """

    def __call__(self, w: FloatVector, index: IndexVector, /) -> tuple[ArrayLike, Pullback]:
        """Return the losses of the samples in index at w, and the function that pulls weights back to a gradient."""
        ...
