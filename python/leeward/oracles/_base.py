"""What every oracle answers, and the calls into the core that all of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays
from leeward._threads import thread_request

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Oracle"]


class Oracle:
    """Base of ``LinearModel`` and ``FunctionOracle``: n losses of a vector w of length d, and their gradients.

    Attributes
    ----------
    size : int
        Number of samples n.
    dim : int
        Length d of w.
    l2 : float
        Strength of the model's regulariser ``(l2/2) |w[:penalised]|^2``. It is part of a problem's objective and never
        of an oracle's losses and gradients.
    penalised : int
        Number of leading coordinates of w under l2.
    sample_weight : ndarray (n,) or None
        Base weights of the samples (any scale); None for uniform.
    convex, smooth : bool
        Whether every loss is convex in w, and whether its gradient is continuous.
    """

    l2: float
    penalised: int
    sample_weight: NDArray[np.float64] | None
    convex: bool
    smooth: bool
    _core: Any
    _threads: int

    def __init__(self) -> None:
        raise TypeError(
            "Oracle is a base class; use LinearModel, FunctionOracle, CFunctionOracle, SamplerOracle, PointOracle or from_vjp"
        )

    @property
    def size(self) -> int:
        return int(self._core.size)

    @property
    def dim(self) -> int:
        return int(self._core.dim)

    @property
    def population(self) -> int:
        """Number of samples that mini-batches are drawn from: n, except for a ``SamplerOracle``, which has no end of them."""
        return int(self._core.population)

    def losses(
        self,
        w: ArrayLike,
        index: ArrayLike | None = None,
        *,
        out: NDArray[np.float64] | None = None,
        threads: int | None = None,
    ) -> NDArray[np.float64]:
        """Per-sample losses ``l_i(w)``.

        Parameters
        ----------
        w : array (dim,)
        index : int array (m,), optional
            Sample numbers, in any order and repeated as you like; all samples by default.
        out : float64 array (m,), optional
            Where to write the result.
        threads : int, optional
            Number of threads; the result does not depend on it.

        Returns
        -------
        ndarray (m,)

        Raises
        ------
        IndexError
            If index has a number outside ``[0, size)``.
        ValueError, TypeError
            If an array has the wrong shape or kind.
        """
        rows = _arrays.index_array(index)
        at = _arrays.point(w, self.dim)
        result = _arrays.output(out, (self.size if rows is None else rows.shape[0],), at)
        self._core.losses(at, rows, result, self._thread_count(threads))
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
        """Weighted sum of gradients, ``sum_k weights[k] grad l_{index[k]}(w)``.

        Parameters
        ----------
        w : array (dim,)
        weights : array (m,)
            One weight for each entry of index, of any sign.
        index : int array (m,), optional
            Sample numbers; all samples by default.
        out : float64 array (dim,), optional
            Where to write the result.
        threads : int, optional
            Number of threads; the result does not depend on it.

        Returns
        -------
        ndarray (dim,)

        Raises
        ------
        IndexError
            If index has a number outside ``[0, size)``.
        ValueError, TypeError
            If an array has the wrong shape or kind.
        """
        rows = _arrays.index_array(index)
        count = self.size if rows is None else rows.shape[0]
        scale = _arrays.point(weights, count, "weights")
        at = _arrays.point(w, self.dim)
        result = _arrays.output(out, (self.dim,), at, scale)
        self._core.gradient(at, scale, rows, result, self._thread_count(threads))
        return result

    def _thread_count(self, threads: int | None) -> int:
        return self._threads if threads is None else thread_request(threads)


class UserOracle(Oracle):
    """An oracle of the user's own functions: settings that they all have."""

    _functions: tuple[Any, ...]

    def _settle(
        self,
        size: int,
        dim: int,
        l2: float,
        penalised: int | None,
        convex: bool,
        smooth: bool,
        sample_weight: ArrayLike | None,
    ) -> None:
        """Check and keep them."""
        n, d = _arrays.count(size, "size", 1), _arrays.count(dim, "dim", 1)
        leading = d if penalised is None else _arrays.count(penalised, "penalised")
        if leading > d:
            raise ValueError(f"penalised must be in [0, {d}], got {penalised}")
        for name, value in (("convex", convex), ("smooth", smooth)):
            if not isinstance(value, bool | np.bool_):
                raise TypeError(f"{name} must be True or False, got {value!r}")
        self._threads = 0
        self.l2 = strength(l2)
        self.penalised = leading
        self.convex, self.smooth = bool(convex), bool(smooth)
        self.sample_weight = _arrays.weights(sample_weight, n)

    def _settings(self) -> dict[str, Any]:
        """The settings by name, for copies."""
        return {name: getattr(self, name) for name in ("l2", "penalised", "convex", "smooth", "sample_weight")}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, dim={self.dim}, l2={self.l2!r}, convex={self.convex})"


def strength(l2: float) -> float:
    """Return the l2 strength, checked."""
    value = _arrays.number(l2, "l2")
    if not (np.isfinite(value) and value >= 0):
        raise ValueError(f"l2 must be finite and not negative, got {l2}")
    return value
