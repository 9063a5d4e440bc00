"""What functions of the user return to Python code of the package: checked for kind, shape and finite numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from leeward import _arrays
from leeward.errors import InfiniteError, OracleError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["returned"]

_FAR = 1e100  # where functions may leave the range of their numbers


def returned(
    value: Any,
    shape: tuple[int, ...],
    call: str,
    meaning: str,
    samples: NDArray[np.int64] | None = None,
    at: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """The value as a float64 array of this shape. ``samples`` numbers its rows in messages.

    OracleError for another kind or shape and for NaN, its subclass InfiniteError for infinite numbers, and for NaN where the function
    was asked at a point ``at`` beyond 1e100.
    """
    wanted = f"{call} must return an array of shape {shape}, {meaning}"
    if isinstance(value, np.ma.MaskedArray):
        raise OracleError(f"{wanted}; got a masked array: fill or drop the masked entries")
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of lists of different lengths
        raise OracleError(f"{wanted}; got an object of type {type(value).__name__}") from error
    if array.dtype.kind not in "fiub":
        what = (
            f"an object of type {type(value).__name__}" if array.dtype == object else f"an array of dtype {array.dtype}"
        )
        raise OracleError(f"{wanted}; got {what}")
    if array.shape != shape:
        raise OracleError(f"{wanted}; got shape {array.shape}")
    numbers = _arrays.doubles(array, call)
    finite = np.isfinite(numbers)
    if not finite.all():
        first = tuple(int(k) for k in np.argwhere(~finite)[0])
        where = f"position {first[0] if len(first) == 1 else first}"
        of = "" if samples is None else f" for a point of sample {int(samples[first[0]])}"
        far = at is not None and not (np.abs(at) <= _FAR).all()
        kind = OracleError if np.isnan(numbers[first]) and not far else InfiniteError
        raise kind(f"{call} must return finite numbers, got {numbers[first]}{of} ({where})")
    return numbers
