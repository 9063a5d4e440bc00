"""Levels of a composition: vector functions that are means over samples, with Jacobians or products with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward._threads import thread_request

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["ElementwiseLevel", "FunctionLevel", "Level", "LinearLevel"]

_MAPS = {"identity": 0, "log": 1, "sqrt": 2, "power": 3, "exp": 4}


class Level:
    """Base of the levels of a :class:`Composition`: ``f(u) = (1/n) sum_s f(u; s)`` with u of length ``inputs``.

    Attributes
    ----------
    inputs, outputs : int
        Lengths of u and f(u).
    size : int
        Samples n of the mean; 1 for a level without samples.
    population : int
        Sample numbers that algorithms draw from; more than n where f is an expectation of which n samples are taken for all.
    jacobians : bool
        Whether the level answers Jacobians, not only products with them.
    """

    _core: Any

    def __init__(self) -> None:
        raise TypeError("Level is a base class; use FunctionLevel, FiniteSumLevel, LinearLevel or ElementwiseLevel")

    @property
    def inputs(self) -> int:
        return int(self._core.inputs)

    @property
    def outputs(self) -> int:
        return int(self._core.outputs)

    @property
    def size(self) -> int:
        return int(self._core.size)

    @property
    def population(self) -> int:
        return int(self._core.population)

    @property
    def jacobians(self) -> bool:
        return bool(self._core.jacobians)

    @property
    def pushes(self) -> bool:
        """Whether :meth:`jvp` has an answer."""
        return bool(self._core.pushes)

    def value(self, u: ArrayLike, index: ArrayLike | None = None, *, threads: int | None = None) -> Vector:
        """The (outputs,) mean of ``f(u; s)`` over the sample numbers in index, over all n by default."""
        array: Vector = self._at(u, index, False, threads)[0]
        return array

    def jacobian(self, u: ArrayLike, index: ArrayLike | None = None, *, threads: int | None = None) -> Vector:
        """The (outputs, inputs) mean Jacobian; inputs that pass through have their rows of the identity in it."""
        if not self.jacobians:
            raise ValueError("this level answers products with its Jacobian only: use vjp or jvp")
        rows: Vector = self._at(u, index, True, threads)[1]
        first, kept = self._keep
        return np.vstack([rows, np.eye(self.inputs)[first : first + kept]])

    def vjp(
        self, u: ArrayLike, weights: ArrayLike, index: ArrayLike | None = None, *, threads: int | None = None
    ) -> Vector:
        """``J(u)^T weights`` (inputs,) for weights of the outputs."""
        point = _arrays.point(u, self.inputs, "u")
        by = _arrays.point(weights, self.outputs, "weights")
        array: Vector = self._core.pull(point, by, _samples(index), thread_request(threads))
        return array

    def jvp(
        self, u: ArrayLike, direction: ArrayLike, index: ArrayLike | None = None, *, threads: int | None = None
    ) -> Vector:
        """``J(u) direction`` (outputs,)."""
        if not self.pushes:
            raise ValueError("this level has no jvp")
        point = _arrays.point(u, self.inputs, "u")
        along = _arrays.point(direction, self.inputs, "direction")
        array: Vector = self._core.push(point, along, _samples(index), thread_request(threads))
        return array

    _keep: tuple[int, int] = (0, 0)

    def _at(self, u: ArrayLike, index: ArrayLike | None, jacobian: bool, threads: int | None) -> Any:
        point = _arrays.point(u, self.inputs, "u")
        return self._core.at(point, _samples(index), jacobian, thread_request(threads))


class FunctionLevel(Level):
    """A level from functions of your own, each called once for a whole mini-batch.

    Parameters
    ----------
    value : callable
        ``value(u, index) -> (outputs,)``: the mean of ``f(u; s)`` over the sample numbers in index.
    jacobian : callable, optional
        ``jacobian(u, index) -> (outputs, inputs)``: the mean Jacobian.
    inputs, outputs : int
        Length of u, and of what ``value`` returns.
    vjp : callable, optional
        ``vjp(u, weights, index) -> (inputs,)``: the transposed mean Jacobian times weights (outputs,). Enough in place of
        ``jacobian`` for :class:`PMVR`, :class:`SCSC` and the methods with moving averages. See also :meth:`from_vjp`.
    jvp : callable, optional
        ``jvp(u, direction, index) -> (outputs,)``: the mean Jacobian times direction, for :class:`NLASG` without ``jacobian``.
    size : int, optional
        Samples n. Without it f has no samples, and the functions are called without ``index``.
    population : int, optional
        Sample numbers that may be drawn, n by default; more where f is an expectation: number s then stands for draw s.
    keep : slice, optional
        Inputs that are outputs as they are, behind those of ``value``; their identity block is stored nowhere.
    positive : slice, optional
        Inputs that must be positive, as under a logarithm or a root: estimates of them are kept above ``floor``, and above a tenth
        of what they were a step before; a run says when that happened.
    floor : float, default 0
        The least of these inputs.

    Raises
    ------
    OracleError
        When a function returns something of another shape or kind, or numbers that are not finite; the message names the sample
        numbers. Exceptions of your functions reach you unchanged.

    Notes
    -----
    ``u``, ``weights`` (float64) and ``index`` (int64) are read-only arrays that are refilled from call to call: copy what you want to
    keep. The same arguments must give the same answer. ``leeward.testing.check_level`` finds the usual mistakes.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> A = np.array([[1.0, 0.0], [1.0, 2.0]])
    >>> level = lw.FunctionLevel(
    ...     value=lambda u, index: np.array([np.mean((A[index] @ u) ** 2)]),
    ...     jacobian=lambda u, index: np.array([np.mean(2 * (A[index] @ u)[:, None] * A[index], axis=0)]),
    ...     inputs=2, outputs=1, size=2)
    >>> level.value([1.0, 1.0]), level.jacobian([1.0, 1.0], index=[1])
    (array([5.]), array([[ 6., 12.]]))
    """

    def __init__(
        self,
        value: Callable[..., Any],
        jacobian: Callable[..., Any] | None = None,
        *,
        inputs: int,
        outputs: int,
        vjp: Callable[..., Any] | None = None,
        jvp: Callable[..., Any] | None = None,
        size: int | None = None,
        population: int | None = None,
        keep: slice | None = None,
        positive: slice | None = None,
        floor: float = 0.0,
    ) -> None:
        for function, name in ((value, "value"), (jacobian, "jacobian"), (vjp, "vjp"), (jvp, "jvp")):
            if not callable(function) and (function is not None or name == "value"):
                raise TypeError(f"{name} must be callable, got {type(function).__name__}")
        if jacobian is None and vjp is None:
            raise ValueError("a level needs jacobian or vjp")
        self._functions: tuple[Any, ...] = (value, jacobian)
        self._make(inputs, outputs, vjp, jvp, size, population, keep, positive, floor)

    @classmethod
    def from_vjp(
        cls,
        fun: Callable[..., Any],
        *,
        inputs: int,
        outputs: int,
        size: int | None = None,
        population: int | None = None,
        keep: slice | None = None,
        positive: slice | None = None,
        floor: float = 0.0,
    ) -> FunctionLevel:
        """A level from one function that gives the value and its pullback (reverse-mode differentiation).

        Parameters
        ----------
        fun : callable
            ``fun(u, index) -> (value, pullback)`` with ``pullback(weights) -> (inputs,)`` the transposed mean Jacobian times weights.
            A pullback is called at most once; value and product at a point and draw take one call of fun.
        inputs, outputs, size, population, keep, positive, floor
            As for :class:`FunctionLevel`.

        Examples
        --------
        >>> import numpy as np, leeward as lw
        >>> A = np.array([[1.0, 0.0], [1.0, 2.0]])
        >>> def fun(u, index):
        ...     e = A[index] @ u
        ...     return np.array([np.mean(e**2)]), lambda weights: weights[0] * 2 * e @ A[index] / len(index)
        >>> level = lw.FunctionLevel.from_vjp(fun, inputs=2, outputs=1, size=2)
        >>> level.value([1.0, 1.0]), level.vjp([1.0, 1.0], [1.0], index=[1])
        (array([5.]), array([ 6., 12.]))
        """
        if not callable(fun):
            raise TypeError(f"fun must be callable, got {type(fun).__name__}")
        level: FunctionLevel = object.__new__(cls)
        level._functions = (fun,)
        level._make(inputs, outputs, None, None, size, population, keep, positive, floor)
        return level

    def _make(
        self,
        inputs: int,
        outputs: int,
        vjp: Callable[..., Any] | None,
        jvp: Callable[..., Any] | None,
        size: int | None,
        population: int | None,
        keep: slice | None,
        positive: slice | None,
        floor: float,
    ) -> None:
        d, m = _arrays.count(inputs, "inputs", 1), _arrays.count(outputs, "outputs", 1)
        n = 1 if size is None else _arrays.count(size, "size", 1)
        if population is not None and size is None:
            raise ValueError("population needs size, the number of samples that stand for all")
        drawn = n if population is None else _arrays.count(population, "population", n)
        if drawn >= 2**62:
            raise ValueError(f"population must be below 2**62, got {drawn}")
        first, kept = _range(keep, d, "keep")
        start, length = _range(positive, d, "positive")
        least = _floor(floor)
        if least and not length:
            raise ValueError("floor is the least of the inputs in positive: give positive too")
        self._keep = (first, kept)
        self._settings = {
            "inputs": inputs, "outputs": outputs, "vjp": vjp, "jvp": jvp, "size": size, "population": population,
            "keep": keep, "positive": positive, "floor": floor,
        }  # fmt: skip
        sizes = (d, m, first, kept, n, drawn)
        joint = self._functions[0] if len(self._functions) == 1 else None
        value, jacobian = (None, None) if joint is not None else self._functions
        self._core = _core.PyLevel(value, jacobian, vjp, jvp, joint, sizes, (start, length, least), size is not None)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self._functions, self._settings)

    def __repr__(self) -> str:
        samples = "" if self._settings["size"] is None else f", size={self.size}"
        return f"FunctionLevel(inputs={self.inputs}, outputs={self.outputs}{samples})"


def _rebuilt(functions: Any, settings: dict[str, Any]) -> FunctionLevel:
    if len(functions) == 1:
        shape = {name: value for name, value in settings.items() if name not in ("vjp", "jvp")}
        return FunctionLevel.from_vjp(functions[0], **shape)
    return FunctionLevel(*functions, **settings)


class LinearLevel(Level):
    """``u -> A u + b``, without samples.

    Parameters
    ----------
    A : (m, d) array
    b : (m,) array, optional
        Zeros by default.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> lw.LinearLevel(np.array([[0.25, 0.75]])).value([4.0, 8.0])
    array([7.])
    """

    def __init__(self, A: ArrayLike, b: ArrayLike | None = None) -> None:
        table = _arrays.doubles(A, "A")
        if table.ndim != 2 or 0 in table.shape:
            raise ValueError(f"A must have shape (m, d), got shape {table.shape}")
        shift = np.zeros(table.shape[0]) if b is None else _arrays.numbers(b, "b", table.shape[0])
        if not np.isfinite(table).all():
            raise ValueError("A must hold finite numbers")
        self._arguments = (table, shift)
        self._core = _core.linear_level(table, shift)

    def __reduce__(self) -> tuple[Any, ...]:
        return LinearLevel, self._arguments

    def __repr__(self) -> str:
        return f"LinearLevel(inputs={self.inputs}, outputs={self.outputs})"


class ElementwiseLevel(Level):
    """``u_j -> scale m(u_j) + shift`` for each of n numbers, without samples.

    Parameters
    ----------
    map : "identity", "log", "sqrt", "power" or "exp"
    count : int, default 1
        Numbers n.
    scale, shift : float
    exponent : float, default 1
        Of ``"power"``.
    floor : float, default 1e-300
        The least number that ``"log"``, ``"sqrt"`` and a ``"power"`` that is for positive numbers only are taken of: estimates below
        are put there (see ``positive`` of :class:`FunctionLevel`).

    Examples
    --------
    >>> import leeward as lw
    >>> lw.ElementwiseLevel("log", 2, scale=-0.5).jacobian([1.0, 2.0])
    array([[-0.5 ,  0.  ],
           [ 0.  , -0.25]])
    """

    def __init__(
        self,
        map: str,
        count: int = 1,
        *,
        scale: float = 1.0,
        shift: float = 0.0,
        exponent: float = 1.0,
        floor: float = 1e-300,
    ) -> None:
        if not isinstance(map, str) or map not in _MAPS:
            raise ValueError(f"map must be one of {', '.join(map_ for map_ in _MAPS)}, got {map!r}")
        if floor != 1e-300 and map in ("identity", "exp"):
            raise ValueError(f"floor is for maps of positive numbers, got floor={floor!r} with {map!r}")
        if exponent != 1.0 and map != "power":
            raise ValueError(f"exponent is for 'power', got exponent={exponent!r} with {map!r}")
        given = {"scale": scale, "shift": shift, "exponent": exponent}
        numbers = {name: _arrays.number(v, name) for name, v in given.items()}
        for name, number in numbers.items():
            if not np.isfinite(number):
                raise ValueError(f"{name} must be finite, got {number}")
        n, least = _arrays.count(count, "count", 1), _floor(floor)
        self._arguments = (str(map), n, numbers["scale"], numbers["shift"], numbers["exponent"], least)
        self._core = _core.elementwise_level(
            n, _MAPS[map], numbers["exponent"], numbers["scale"], numbers["shift"], least
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _elementwise, self._arguments

    def __repr__(self) -> str:
        map, n, scale, shift, exponent, _ = self._arguments
        return f"ElementwiseLevel({map!r}, {n}, scale={scale}, shift={shift}, exponent={exponent})"


def _elementwise(map: str, n: int, scale: float, shift: float, exponent: float, floor: float) -> ElementwiseLevel:
    return ElementwiseLevel(map, n, scale=scale, shift=shift, exponent=exponent, floor=floor)


def _samples(index: ArrayLike | None) -> NDArray[np.int64] | None:
    """Sample numbers, at least one: there is no mean over none."""
    numbers = _arrays.index_array(index)
    if numbers is not None and not numbers.size:
        raise ValueError("index must hold at least one sample number, got none; None is all samples")
    return numbers


def _range(part: slice | None, size: int, name: str) -> tuple[int, int]:
    """First and number of the coordinates in a slice."""
    if part is None:
        return 0, 0
    if not isinstance(part, slice):
        raise TypeError(f"{name} must be a slice of the inputs, got {part!r}")
    start, stop, step = part.indices(size)
    if step != 1:
        raise ValueError(f"{name} must be a slice without a step, got {part!r}")
    if stop <= start:
        raise ValueError(f"{name} must hold at least one input, got {part!r} of {size}")
    return start, stop - start


def _floor(value: Any) -> float:
    least = _arrays.number(value, "floor")
    if not (np.isfinite(least) and least >= 0):
        raise ValueError(f"floor must be finite and at least 0, got {value}")
    return least
