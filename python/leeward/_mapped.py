"""Arrays that lie in a memory-mapped file, whose pages can be given back to the system behind a pass."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["give_back", "is_mapped"]


def is_mapped(array: Any) -> bool:
    """Whether the array is (a view of) a ``numpy.memmap`` that shares its pages with the file.

    A copy-on-write map (``mode="c"``) keeps what was written to it in its own pages, which must not be given back.
    """
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap):
            return array.mode in ("r", "r+", "w+")
        array = array.base
    return False


def give_back(array: NDArray[Any]) -> None:
    """Takes the pages of the rows of a mapped array (see :func:`is_mapped`) out of the process; they can be read again at any
    time."""
    if not is_mapped(array) or array.size == 0 or not hasattr(mmap, "MADV_DONTNEED"):
        return
    root: Any = array
    while not isinstance(root, mmap.mmap):
        root = root.base
    start = _address(np.frombuffer(root, dtype=np.uint8))
    low = _address(array) - start
    high = low + sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)) + array.itemsize
    first = low // mmap.PAGESIZE * mmap.PAGESIZE
    root.madvise(mmap.MADV_DONTNEED, first, min(high, len(root)) - first)


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])
