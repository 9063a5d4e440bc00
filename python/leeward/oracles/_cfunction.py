"""C functions as an oracle: by ctypes, numba, SciPy or plain address."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays, _core
from leeward.oracles._base import UserOracle

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["CFunctionOracle"]

_FUNCTION: Any = ctypes.CFUNCTYPE(None).__base__  # of all function pointers
_DOUBLES, _NUMBERS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int64)


class CFunctionOracle(UserOracle):
    """An oracle from two compiled functions, called through their addresses and without the GIL.

    The functions have these types, in C::

        int losses(const double *w, int64_t dim, const int64_t *index, int64_t count, double *out, void *user);
        int gradient(const double *w, int64_t dim, const double *weights,
                     const int64_t *index, int64_t count, double *out, void *user);

    ``losses`` writes ``out[k]``, the loss at w of sample ``index[k]``, for ``k < count``. ``gradient`` adds
    ``sum_k weights[k] * grad l_{index[k]}(w)``, without l2 terms, to ``out[0], ..., out[dim - 1]``, which are zero when it is
    called. Both return 0; any other number ends the run with an ``OracleError``.

    Parameters
    ----------
    losses, gradient : object
        The functions: a numba ``cfunc``, a ctypes function pointer (of a loaded library, or made by
        ``CFunctionOracle.LOSSES(f)`` and ``CFunctionOracle.GRADIENT(f)``), a ``scipy.LowLevelCallable``, or an address as an
        integer. It is kept alive with the oracle.
    size, dim : int
        Number of samples n and length d of w.
    user_data : object, optional
        What the functions get as ``user``: a NumPy array (its data), a ctypes pointer, array or structure (its address), or
        an address as an integer; NULL by default. It is kept alive. The user data of a ``LowLevelCallable`` is used where
        this is None.
    parallel : bool, default False
        Whether the functions may run in several threads at once. Results have the same bits either way.
    l2, penalised, convex, smooth, sample_weight
        As for ``FunctionOracle``.

    Raises
    ------
    OracleError
        When a function returns another status than 0 or leaves numbers that are not finite; the message names the samples.

    Notes
    -----
    A batch comes in calls of at most 4096 samples, between which Ctrl-C is seen. Functions of another type than these crash
    the process: only the number of arguments is checked, and only where ctypes or SciPy know it. An oracle of addresses cannot
    be pickled.

    Examples
    --------
    A function written in Python, for the sake of an example; compiled ones need no ``LOSSES`` and ``GRADIENT``:

    >>> import leeward as lw
    >>> @lw.CFunctionOracle.LOSSES
    ... def losses(w, dim, index, count, out, user):
    ...     for k in range(count):
    ...         out[k] = 0.5 * (w[0] - index[k]) ** 2
    ...     return 0
    >>> @lw.CFunctionOracle.GRADIENT
    ... def gradient(w, dim, weights, index, count, out, user):
    ...     for k in range(count):
    ...         out[0] += weights[k] * (w[0] - index[k])
    ...     return 0
    >>> oracle = lw.CFunctionOracle(losses, gradient, size=5, dim=1, convex=True)
    >>> oracle.losses([1.0])
    array([0.5, 0. , 0.5, 2. , 4.5])
    >>> lw.minimize(oracle).x
    array([2.])
    """

    LOSSES = ctypes.CFUNCTYPE(
        ctypes.c_int, _DOUBLES, ctypes.c_int64, _NUMBERS, ctypes.c_int64, _DOUBLES, ctypes.c_void_p
    )
    """The ctypes type of ``losses``."""
    GRADIENT = ctypes.CFUNCTYPE(
        ctypes.c_int, _DOUBLES, ctypes.c_int64, _DOUBLES, _NUMBERS, ctypes.c_int64, _DOUBLES, ctypes.c_void_p
    )
    """The ctypes type of ``gradient``."""

    def __init__(
        self,
        losses: Any,
        gradient: Any,
        size: int,
        dim: int,
        *,
        user_data: Any = None,
        parallel: bool = False,
        l2: float = 0.0,
        penalised: int | None = None,
        convex: bool = False,
        smooth: bool = True,
        sample_weight: ArrayLike | None = None,
    ) -> None:
        self._settle(size, dim, l2, penalised, convex, smooth, sample_weight)
        user = _address_of_data(user_data)
        first, second = _address(losses, "losses", 6, user), _address(gradient, "gradient", 7, user)
        self._functions = (losses, gradient, user_data)  # keeps them alive
        n, d = _arrays.count(size, "size", 1), _arrays.count(dim, "dim", 1)
        self._core = _core.CFunctionOracle(first, second, n, d, bool(parallel))

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a CFunctionOracle cannot be pickled: addresses of functions mean nothing in another process")


def _address(function: Any, name: str, arguments: int, user: int) -> tuple[int, int]:
    """Return the address of a function and that of its user data."""
    if isinstance(function, tuple) and type(function).__name__ == "LowLevelCallable":
        return _capsule(tuple.__getitem__(function, 0), name, arguments, user)
    known: int | None = None  # number of arguments
    if isinstance(function, _FUNCTION):
        known = None if function.argtypes is None else len(function.argtypes)
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
    elif hasattr(function, "address") and not isinstance(function, type):  # numba
        address = int(function.address)
    elif hasattr(function, "__index__") and not isinstance(function, bool):
        address = int(function)
    else:
        raise TypeError(
            f"{name} must be a numba cfunc, a ctypes function pointer, a scipy.LowLevelCallable or an address, "
            f"got {type(function).__name__}"
        )
    _check_arguments(known, name, arguments)
    if not 0 < address < 2**64:
        raise ValueError(f"{name} must be the address of a function, got {address}")
    return address, user


def _capsule(capsule: Any, name: str, arguments: int, user: int) -> tuple[int, int]:
    """The same for the capsule of a LowLevelCallable, whose name is the function's type in C."""
    api = ctypes.pythonapi
    label = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))(capsule)
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    context = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyCapsule_GetContext", api))
    if label is not None and b"(" in label:
        _check_arguments(label.count(b",") + 1, name, arguments)
    return pointer(capsule, label) or 0, user or context(capsule) or 0


def _check_arguments(known: int | None, name: str, wanted: int) -> None:
    if known is not None and known != wanted:
        raise TypeError(f"{name} must be a function of {wanted} arguments, got one of {known}")


def _address_of_data(data: Any) -> int:
    if data is None:
        return 0
    if isinstance(data, np.ndarray):
        return int(data.ctypes.data)
    if isinstance(data, ctypes.c_void_p):
        return data.value or 0
    if isinstance(data, ctypes._Pointer):
        return ctypes.cast(data, ctypes.c_void_p).value or 0
    if isinstance(data, ctypes.Array | ctypes.Structure | ctypes._SimpleCData):
        return ctypes.addressof(data)
    if hasattr(data, "__index__") and not isinstance(data, bool) and 0 <= int(data) < 2**64:
        return int(data)
    raise TypeError(f"user_data must be an array, a ctypes pointer or structure, or an address, got {data!r}")
