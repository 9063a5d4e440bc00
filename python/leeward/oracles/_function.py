"""The user's own losses and gradients as an oracle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward.oracles._base import Oracle, strength

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["FunctionOracle", "from_vjp"]


class FunctionOracle(Oracle):
    """An oracle from two functions of your own, each called once for a whole mini-batch.

    Parameters
    ----------
    losses : callable
        ``losses(w, index) -> array (m,)``: the loss at w of each sample in index.
    gradient : callable
        ``gradient(w, weights, index) -> array (dim,)``: ``sum_k weights[k] * grad l_{index[k]}(w)``, without l2 terms.
    size, dim : int
        Number of samples n and length d of w.
    l2 : float, default 0.0
        Strength of ``(l2/2) |w[:penalised]|^2``, added by the problem and not by your functions.
    penalised : int, optional
        Number of leading coordinates under l2; all by default.
    convex : bool, default False
        State that every loss is convex in w: certificates of optimality need it.
    smooth : bool, default True
        State that every loss has a continuous gradient.
    sample_weight : array (n,), optional
        Base weights of the samples, not negative, not all zero, any scale.

    Raises
    ------
    OracleError
        When a function returns something of another shape or kind, or numbers that are not finite; the message names the
        sample numbers. Exceptions of your functions reach you unchanged.

    Notes
    -----
    ``w``, ``weights`` (float64) and ``index`` (int64) are read-only arrays that are kept and refilled from call to call:
    copy what you want to keep. Functions may be called from other threads than the one that made the oracle; give
    different answers for the same arguments and everything built on them fails, so draw noise from ``index``, or not at
    all. ``leeward.testing.check_oracle`` finds the usual mistakes.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> a = np.array([1.0, 2.0, 4.0])
    >>> def losses(w, index):
    ...     return 0.5 * (w[0] - a[index]) ** 2
    >>> def gradient(w, weights, index):
    ...     return np.array([np.sum(weights * (w[0] - a[index]))])
    >>> oracle = lw.FunctionOracle(losses=losses, gradient=gradient, size=3, dim=1, convex=True)
    >>> oracle.losses([2.0])
    array([0.5, 0. , 2. ])
    >>> oracle.gradient([2.0], [1.0, 1.0], index=[0, 2])
    array([-1.])
    """

    def __init__(
        self,
        losses: Callable[..., Any],
        gradient: Callable[..., Any],
        size: int,
        dim: int,
        *,
        l2: float = 0.0,
        penalised: int | None = None,
        convex: bool = False,
        smooth: bool = True,
        sample_weight: ArrayLike | None = None,
    ) -> None:
        for function, name in ((losses, "losses"), (gradient, "gradient")):
            if not callable(function):
                raise TypeError(f"{name} must be callable, got {type(function).__name__}")
        n, d = _arrays.count(size, "size", 1), _arrays.count(dim, "dim", 1)
        leading = d if penalised is None else _arrays.count(penalised, "penalised")
        if leading > d:
            raise ValueError(f"penalised must be in [0, {d}], got {penalised}")
        self._threads = 0
        self.l2 = strength(l2)
        self.penalised = leading
        self.convex, self.smooth = bool(convex), bool(smooth)
        self.sample_weight = _arrays.weights(sample_weight, n)
        self._functions = (losses, gradient)
        self._core = _core.PyOracle(losses, gradient, n, d)

    def __repr__(self) -> str:
        return f"FunctionOracle(size={self.size}, dim={self.dim}, l2={self.l2!r}, convex={self.convex})"

    def __reduce__(self) -> tuple[Any, ...]:
        settings = {name: getattr(self, name) for name in ("l2", "penalised", "convex", "smooth", "sample_weight")}
        return _rebuild, (*self._functions, self.size, self.dim, settings)


def _rebuild(losses: Any, gradient: Any, size: int, dim: int, settings: dict[str, Any]) -> FunctionOracle:
    return FunctionOracle(losses, gradient, size, dim, **settings)


class _Pullbacks:
    """Losses and gradient from one function that returns the losses and their pullback.

    A pullback made by `losses` serves the next `gradient` at the same point in the same thread, and is called once.
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun
        self._last = threading.local()

    def _call(self, w: Any, index: Any) -> tuple[Any, Any]:
        returned = self.fun(w, index)
        if not (isinstance(returned, tuple | list) and len(returned) == 2 and callable(returned[1])):
            from leeward.errors import OracleError

            raise OracleError(
                f"fun(w, index) must return (losses, pullback) with a callable pullback(weights), "
                f"got {type(returned).__name__}"
            )
        return returned[0], returned[1]

    def losses(self, w: Any, index: Any) -> Any:
        self._last.call = None
        losses, pullback = self._call(w, index)
        self._last.call = (w.copy(), index.copy(), pullback)
        return losses

    def gradient(self, w: Any, weights: Any, index: Any) -> Any:
        last = getattr(self._last, "call", None)
        self._last.call = None
        if last is None or not (np.array_equal(last[0], w) and np.array_equal(last[1], index)):
            return self._call(w, index)[1](weights)
        return last[2](weights)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Pullbacks, (self.fun,)


def from_vjp(
    fun: Callable[..., Any],
    size: int,
    dim: int,
    *,
    l2: float = 0.0,
    penalised: int | None = None,
    convex: bool = False,
    smooth: bool = True,
    sample_weight: ArrayLike | None = None,
) -> FunctionOracle:
    """Return an oracle from one function that gives losses and their pullback (reverse-mode differentiation).

    Parameters
    ----------
    fun : callable
        ``fun(w, index) -> (losses, pullback)`` with ``losses`` of shape (m,) and ``pullback(weights) -> array (dim,)`` the
        weighted sum of gradients at that w and index. Each pullback is called at most once, and only with the weights of
        its own batch.
    size, dim, l2, penalised, convex, smooth, sample_weight
        As for ``FunctionOracle``.

    Returns
    -------
    FunctionOracle

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> A = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> def fun(w, index):
    ...     residual = A[index] @ w - 1.0
    ...     return 0.5 * residual**2, lambda weights: (weights * residual) @ A[index]
    >>> oracle = lw.from_vjp(fun, size=3, dim=2, convex=True)
    >>> oracle.losses([1.0, 1.0])
    array([0. , 0.5, 2. ])
    >>> oracle.gradient([1.0, 1.0], [1.0, 1.0, 1.0])
    array([3., 5.])
    """
    if not callable(fun):
        raise TypeError(f"fun must be callable, got {type(fun).__name__}")
    pair = _Pullbacks(fun)
    return FunctionOracle(
        pair.losses,
        pair.gradient,
        size,
        dim,
        l2=l2,
        penalised=penalised,
        convex=convex,
        smooth=smooth,
        sample_weight=sample_weight,
    )
