"""A level whose samples are rows of data, with functions that answer one row at a time or many at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays
from leeward._returned import returned
from leeward.oracles._level import FunctionLevel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["FiniteSumLevel"]


class FiniteSumLevel(FunctionLevel):
    """``f(u) = (1/n) sum_i f(u; row_i)`` over rows of data, from functions that answer for each row.

    Parameters
    ----------
    data : array (n, ...) or tuple of arrays (n, ...)
        What the samples are made of; the functions get the drawn rows of each.
    value : callable
        ``value(u, *rows) -> (m, outputs)``: f of each of the m rows. The mean over them is taken here.
    jacobian : callable, optional
        ``jacobian(u, *rows) -> (m, outputs, inputs)``.
    vjp : callable, optional
        ``vjp(u, weights, *rows) -> (m, inputs)``: the transposed Jacobian of each row times weights (outputs,).
    inputs, outputs, keep, positive, floor
        As for :class:`FunctionLevel`.

    Examples
    --------
    >>> import numpy as np, leeward as lw
    >>> A = np.array([[1.0, 0.0], [1.0, 2.0]])
    >>> level = lw.FiniteSumLevel(
    ...     A, lambda u, a: (a @ u)[:, None] ** 2, lambda u, a: (2 * (a @ u)[:, None] * a)[:, None, :], inputs=2, outputs=1)
    >>> level.value([1.0, 1.0]), level.size
    (array([5.]), 2)
    """

    def __init__(
        self,
        data: ArrayLike | tuple[ArrayLike, ...],
        value: Callable[..., Any],
        jacobian: Callable[..., Any] | None = None,
        *,
        inputs: int,
        outputs: int,
        vjp: Callable[..., Any] | None = None,
        keep: slice | None = None,
        positive: slice | None = None,
        floor: float = 0.0,
    ) -> None:
        arrays = tuple(np.asarray(part) for part in (data if isinstance(data, tuple) else (data,)))
        lengths = {a.shape[:1] for a in arrays}
        if len(lengths) != 1 or lengths == {()} or lengths == {(0,)}:
            raise ValueError(
                f"data must be arrays with the same number of rows, got shapes {[a.shape for a in arrays]}"
            )
        d, m = _arrays.count(inputs, "inputs", 1), _arrays.count(outputs, "outputs", 1)
        for function, name in ((value, "value"), (jacobian, "jacobian"), (vjp, "vjp")):
            if not callable(function) and (function is not None or name == "value"):
                raise TypeError(f"{name} must be callable, got {type(function).__name__}")
        self._rows = (data, value, jacobian, vjp)
        super().__init__(
            _MeanOf(value, arrays, "value", (m,)),
            None if jacobian is None else _MeanOf(jacobian, arrays, "jacobian", (m, d)),
            inputs=d,
            outputs=m,
            vjp=None if vjp is None else _MeanOf(vjp, arrays, "vjp", (d,)),
            size=int(arrays[0].shape[0]),
            keep=keep,
            positive=positive,
            floor=floor,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        data, value, jacobian, vjp = self._rows
        rest = {k: self._settings[k] for k in ("inputs", "outputs", "keep", "positive", "floor")}
        return _rebuilt, ((data, value, jacobian), {"vjp": vjp, **rest})

    def __repr__(self) -> str:
        return f"FiniteSumLevel(inputs={self.inputs}, outputs={self.outputs}, size={self.size})"


def _rebuilt(arguments: Any, settings: dict[str, Any]) -> FiniteSumLevel:
    return FiniteSumLevel(*arguments, **settings)


class _MeanOf:
    """A function of rows as the mean over sample numbers; picklable where the function is."""

    def __init__(
        self, function: Callable[..., Any], arrays: tuple[NDArray[Any], ...], name: str, shape: tuple[int, ...]
    ) -> None:
        self.function, self.arrays, self.name, self.shape = function, arrays, name, shape

    def __call__(self, u: NDArray[np.float64], *rest: Any) -> Any:
        *weights, index = rest
        answer = self.function(u, *weights, *(a[index] for a in self.arrays))
        shown = ", ".join(str(i) for i in index[:5]) + (", ..." if index.size > 5 else "")
        meaning = f"one answer a row, for samples {shown}"
        return returned(answer, (index.size, *self.shape), self.name, meaning, index, u).mean(axis=0)
