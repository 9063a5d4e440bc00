"""The user's own losses and gradients as an oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leeward import _arrays, _core
from leeward.oracles._base import UserOracle

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["FunctionOracle", "from_vjp"]


class FunctionOracle(UserOracle):
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
        sample numbers. Infinite numbers in the middle of a run count as a step that is too large instead. Exceptions of your
        functions reach you unchanged.

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
        self._settle(size, dim, l2, penalised, convex, smooth, sample_weight)
        self._functions = (losses, gradient)
        n, d = _arrays.count(size, "size", 1), _arrays.count(dim, "dim", 1)
        self._core = _core.PyOracle(losses, gradient, n, d, None, n)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._functions, self.size, self.dim, self._settings())


def _rebuild(functions: Any, size: int, dim: int, settings: dict[str, Any]) -> FunctionOracle:
    make: Any = from_vjp if len(functions) == 1 else FunctionOracle
    made: FunctionOracle = make(*functions, size, dim, **settings)
    return made


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
        its own batch: losses followed by a gradient at the same w and index, in the same thread, take one call of fun.
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
    oracle = object.__new__(FunctionOracle)
    oracle._settle(size, dim, l2, penalised, convex, smooth, sample_weight)
    oracle._functions = (fun,)
    n, d = _arrays.count(size, "size", 1), _arrays.count(dim, "dim", 1)
    oracle._core = _core.PyVjpOracle(fun, n, d, None, n)
    return oracle
