"""The one place where arguments become arrays: shapes, dtypes, layout and finite values are checked here.

Data are taken as they come wherever the core can read them; what it cannot read is converted once, and named below.
"""

from __future__ import annotations

import numbers as numbers_abc
import operator
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector: TypeAlias = NDArray[np.float64]

__all__ = [
    "LIMIT",
    "Csr",
    "base",
    "count",
    "doubles",
    "index_array",
    "labels",
    "losses",
    "matrix",
    "number",
    "numbers",
    "output",
    "output_like",
    "point",
    "spectrum",
    "table",
    "weights",
]

# Numbers beyond this overflow when they are squared.
LIMIT = 1e150
_DOUBLE, _LONG = np.dtype(np.float64), np.dtype(np.int64)


@dataclass(frozen=True)
class Csr:
    """The three arrays of a CSR matrix: float32 or float64 data, int32 or int64 indices, int64 indptr."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[np.int64]
    shape: tuple[int, int]

    def to_scipy(self) -> Any:
        """Return the matrix as a scipy CSR array over the same data."""
        from scipy import sparse

        return sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape, copy=False)


def matrix(X: Any, name: str = "X") -> NDArray[Any] | Csr:
    """Return X as rows the core can read.

    Taken without a copy: aligned native float32 or float64 arrays whose columns are contiguous (any distance between rows;
    read-only and memory-mapped arrays too), and CSR matrices of float32 or float64. Converted once: other layouts and
    other sparse formats; float16 to float32; integers, booleans, long double to float64; big-endian to native.
    """
    if _is_sparse(X):
        return _csr(X, name)
    array = _plain_array(X, name)
    if array.ndim != 2:
        raise ValueError(f"{name} must have shape (n, d), got shape {array.shape}")
    _not_empty(array.shape, name)
    array = _real(array, name)
    item = array.itemsize
    columns = array.shape[1] == 1 or array.strides[1] == item
    if not (columns and array.strides[0] % item == 0 and array.flags.aligned):
        array = _plain(array, array.dtype)
    return array


def _is_sparse(X: Any) -> bool:
    sparse = sys.modules.get(
        "scipy.sparse"
    )  # where it was never imported there is no sparse matrix; importing it is slow
    return sparse is not None and bool(sparse.issparse(X))


def _csr(X: Any, name: str) -> Csr:
    if X.ndim != 2:
        raise ValueError(f"{name} must have shape (n, d), got shape {X.shape}")
    _not_empty(X.shape, name)
    csr = X if X.format == "csr" else X.tocsr()
    data, indices = _real(csr.data, f"{name}.data"), csr.indices
    if indices.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        indices = indices.astype(np.int64)
    return Csr(
        _plain(data, data.dtype),
        _plain(indices, indices.dtype.newbyteorder("=")),
        _plain(csr.indptr, np.int64),
        (int(csr.shape[0]), int(csr.shape[1])),
    )


def _not_empty(shape: tuple[int, ...], name: str) -> None:
    if shape[0] == 0 or shape[1] == 0:
        raise ValueError(f"{name} must have at least one row and one column, got shape {tuple(shape)}")


def _plain_array(values: Any, name: str) -> NDArray[Any]:
    """Return the values as an ndarray; ValueError for masked entries and rows of different lengths."""
    if type(values) is np.ndarray:
        return values
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries; fill or drop them first")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of numbers ({error})") from error


def _real(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the array as native float32 or float64, itself where it is one."""
    kind = array.dtype.kind
    if kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must hold real numbers, got objects that are not ({error})") from error
    if kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if kind == "f" and array.dtype.itemsize <= 4:
        return array.astype(np.float32, copy=False)
    return array.astype(np.float64, copy=False)


def numbers(values: ArrayLike, name: str, size: int | None = None) -> Vector:
    """Return a contiguous float64 array of shape (size,) of finite numbers of magnitude at most 1e150."""
    array = _plain_array(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if size is not None and array.shape[0] != size:
        raise ValueError(f"{name} must have shape ({size},), got shape {array.shape}")
    vector = _plain(_real(array, name), np.float64)
    good = np.abs(vector) <= LIMIT
    if not good.all():
        k = int(np.argmin(good))
        if np.isfinite(vector[k]):
            raise ValueError(
                f"{name}[{k}] is {vector[k]:g}; numbers beyond {LIMIT:g} overflow when squared: rescale {name}"
            )
        raise ValueError(f"{name} must hold finite numbers, got {vector[k]} at position {k}")
    return vector


def weights(values: ArrayLike | None, size: int, name: str = "sample_weight") -> Vector | None:
    """Return sample weights as float64 of shape (size,): finite, not negative, not all zero; None stays None."""
    if values is None:
        return None
    vector = numbers(values, name, size)
    if vector.min() < 0:
        k = int(np.argmax(vector < 0))
        raise ValueError(f"{name} must not be negative, got {vector[k]:g} at position {k}")
    if not vector.max() > 0:
        raise ValueError(f"{name} must have a positive sum, got all zeros")
    return vector


def point(w: ArrayLike, dim: int, name: str = "w") -> Vector:
    """Return a contiguous float64 vector of length dim; its values are not looked at."""
    vector = doubles(w, name)
    if vector.shape != (dim,):
        raise ValueError(f"{name} must have shape ({dim},), got shape {vector.shape}")
    return vector


def table(values: ArrayLike, shape: tuple[int, ...], name: str) -> Vector:
    """Return a contiguous float64 array of the given shape; its values are not looked at."""
    array = doubles(values, name)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got shape {array.shape}")
    return array


def doubles(values: ArrayLike, name: str) -> Vector:
    """Return real numbers of any shape as a contiguous float64 array; their values are not looked at."""
    array = _plain_array(values, name)
    if array.dtype != _DOUBLE:
        array = _real(array, name)
    return _plain(array, _DOUBLE)


def number(value: Any, name: str) -> float:
    """Return a real number as a float, NaN and infinity included; TypeError for anything else."""
    if isinstance(value, numbers_abc.Real) or (isinstance(value, np.ndarray) and value.ndim == 0):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise TypeError(f"{name} must be a number, got {value!r}")


def count(value: Any, name: str, least: int = 0) -> int:
    """Return an integer of at least `least`; TypeError for anything that is not an integer."""
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    whole = operator.index(value)
    if whole < least:
        raise ValueError(f"{name} must be at least {least}, got {whole}")
    return whole


def index_array(index: ArrayLike | None) -> NDArray[np.int64] | None:
    """Return sample numbers as a contiguous int64 vector; None stays None (all samples). The core checks their range."""
    if index is None:
        return None
    array = _plain_array(index, "index")
    if array.ndim != 1:
        raise ValueError(f"index must be one-dimensional, got shape {array.shape}")
    if array.dtype.kind not in "iu" and (array.size or array.dtype.kind not in "f"):
        raise TypeError(f"index must hold sample numbers, got dtype {array.dtype}")
    return _plain(array, _LONG)


def output(out: NDArray[np.float64] | None, shape: tuple[int, ...], *read: NDArray[Any]) -> Vector:
    """Return `out` if it is a writable, contiguous float64 array of the shape apart from what is read; new if it is None."""
    if out is None:
        return np.empty(shape)
    if (
        not isinstance(out, np.ndarray)
        or out.dtype != np.float64
        or not out.flags.c_contiguous
        or not out.flags.aligned
        or not out.flags.writeable
    ):
        raise TypeError("out must be a writable, C-contiguous float64 array on aligned memory")
    if out.shape != shape:
        raise ValueError(f"out must have shape {shape}, got shape {out.shape}")
    if any(np.may_share_memory(out, array) for array in read):
        raise ValueError("out must not share memory with w or weights, which are read while it is written")
    return out


def _real_array(value: Any, name: str) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array; fill or drop the masked entries first")
    array = _plain_array(value, name)
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must hold real numbers, got objects that are not ({error})") from error
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array


def _plain(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return the numbers as an exact, contiguous, aligned, native ndarray; no copy if they are one already."""
    flags = array.flags
    if type(array) is np.ndarray and array.dtype == dtype and flags.c_contiguous and flags.aligned:
        return array  # np.require finds the same, in ten times the time
    return np.require(array, dtype=dtype, requirements=["C", "A"]).view(np.ndarray)


def labels(values: Any, name: str) -> NDArray[Any]:
    """Return the labels of groups as an array of any shape and dtype."""
    return _plain_array(values, name)


def losses(values: ArrayLike, name: str = "losses") -> tuple[NDArray[Any], np.dtype[Any] | None]:
    """Return losses of shape (n,) or (m, n) as float32 or float64 that the core can read, and the dtype of their weights.

    float32 stays float32; other real types are read as float64. float16 wants its weights back in float16; the second
    item is None where weights have the dtype of the first. Whether entries are finite is checked by the core.
    """
    array = _real_array(values, name)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} must have shape (n,) or (m, n), got shape {array.shape}")
    if array.shape[-1] == 0:
        raise ValueError(f"{name} must have at least one entry, got shape {array.shape}")
    native = array.dtype.newbyteorder("=")
    if native == np.float32:
        return _plain(array, np.float32), None
    return _plain(array, _DOUBLE), (native if native == np.float16 else None)


def base(values: ArrayLike | None, size: int, name: str = "sample_weight") -> Vector | None:
    """Return base weights of shape (size,) as float64; None stays None. The core checks that they are finite and >= 0."""
    if values is None:
        return None
    array = _real_array(values, name)
    if array.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got shape {array.shape}")
    return _plain(array, _DOUBLE)


def output_like(out: Any, array: NDArray[Any]) -> NDArray[Any]:
    """Return `out` if weights can be written into it: an exact ndarray with the shape and dtype of `array`."""
    if type(out) is not np.ndarray:
        raise TypeError(f"out must be a numpy.ndarray, got {type(out).__name__}")
    if out.dtype != array.dtype or out.shape != array.shape:
        raise ValueError(
            f"out must have shape {array.shape} and dtype {array.dtype}, got shape {out.shape} and dtype {out.dtype}"
        )
    if not (out.flags.c_contiguous and out.flags.aligned and out.flags.writeable):
        raise ValueError("out must be a writable, aligned, C-contiguous array")
    return out


def spectrum(values: ArrayLike, name: str = "weights") -> Vector:
    """Return a spectrum as float64 of shape (m,): finite, not negative, not decreasing, not all zero."""
    array = _plain(_real_array(values, name), np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must have shape (m,) with m at least 1, got shape {array.shape}")
    bad = np.flatnonzero(~np.isfinite(array) | (array < 0))
    if bad.size:
        raise ValueError(f"{name}[{bad[0]}] is {array[bad[0]]}; a spectrum must be finite and not negative")
    falls = np.flatnonzero(np.diff(array) < 0)
    if falls.size:
        k = int(falls[0])
        raise ValueError(f"{name} must not decrease, got {array[k]} before {array[k + 1]} at position {k}")
    if array[-1] == 0:
        raise ValueError(f"{name} must have a positive sum, got all zeros")
    return array
