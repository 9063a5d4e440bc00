"""Collections as lists of blocks of rows: Dask arrays and dataframes, lists of delayed blocks, and plain arrays, which are cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import dask
import numpy as np

from leeward.sklearn._labels import plain_labels

__all__ = ["Block", "aligned", "blocks_of", "is_lazy", "read_column", "read_features"]


class Block(NamedTuple):
    """Rows of one partition, and the names of the columns when it had some."""

    X: Any
    columns: tuple[str, ...] | None


def is_lazy(values: Any) -> bool:
    """Whether values are a Dask collection, or a list of delayed blocks or futures."""
    if dask.is_dask_collection(values):
        return True
    return isinstance(values, list | tuple) and len(values) > 0 and all(map(_is_block, values))


def _is_block(value: Any) -> bool:
    future = type(value).__module__.startswith("distributed.") and hasattr(value, "key")
    return future or dask.is_dask_collection(value)


def _is_array(values: Any) -> bool:
    return dask.is_dask_collection(values) and hasattr(values, "chunks")


def blocks_of(X: Any, places: int) -> list[Any]:
    """The row blocks of X, in order; a plain array is cut into one block for each place."""
    if _is_array(X):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}")
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        return list(X.to_delayed().ravel())
    if dask.is_dask_collection(X):
        return list(X.to_delayed()) if hasattr(X, "columns") else [X]
    if is_lazy(X):
        return list(X)
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    X = _by_rows(X)
    if len(X.shape) != 2:
        raise ValueError(f"X must have two dimensions, got shape {X.shape}")
    return _cut(X, np.linspace(0, X.shape[0], min(places, max(X.shape[0], 1)) + 1).astype(int))


def aligned(values: Any, name: str, sizes: Sequence[int]) -> list[Any]:
    """The blocks of one entry a row that belong to blocks of X of these sizes."""
    total = int(sum(sizes))
    if dask.is_dask_collection(values) and hasattr(values, "to_dask_array"):
        if values.npartitions == len(sizes):
            return list(values.to_delayed())  # sizes are checked where the blocks are
        values = values.to_dask_array(lengths=True)
    if _is_array(values):
        if np.isnan(values.chunks[0]).any():
            if values.numblocks[0] == len(sizes):
                return list(values.to_delayed().ravel())
            values = values.copy().compute_chunk_sizes()
        if values.shape[0] != total:
            raise ValueError(f"{name} must have {total} entries, one for each row of X, got {values.shape[0]}")
        if values.ndim > 1:
            values = values.rechunk({1: -1})
        if values.chunks[0] == tuple(sizes):
            return list(values.to_delayed().ravel())
        full = iter(values.rechunk({0: tuple(size for size in sizes if size)}).to_delayed().ravel())
        return [next(full) if size else np.zeros(0) for size in sizes]
    if is_lazy(values):
        blocks = list(values) if isinstance(values, list | tuple) else [values]
        if len(blocks) != len(sizes):
            raise ValueError(f"{name} must have one block for each of the {len(sizes)} of X, got {len(blocks)}")
        return blocks
    array = values if hasattr(values, "shape") else np.asarray(values)
    if len(array.shape) == 0 or array.shape[0] != total:
        raise ValueError(f"{name} must have {total} entries, one for each row of X, got shape {tuple(array.shape)}")
    return _cut(array, np.concatenate([[0], np.cumsum(sizes)]).astype(int))


def _by_rows(X: Any) -> Any:
    """X, a sparse matrix of any format as CSR."""
    return X.tocsr() if hasattr(X, "tocsr") else X


def _cut(values: Any, edges: Any) -> list[Any]:
    rows = values.iloc if hasattr(values, "iloc") else values
    return [rows[first:last] for first, last in pairwise(edges)]


def read_features(block: Any) -> Block:
    """A block as a matrix; dataframes become arrays."""
    columns = None
    if hasattr(block, "columns") and hasattr(block, "to_numpy"):
        columns = tuple(block.columns)
        block = block.to_numpy()
        if block.dtype == object:
            try:
                block = block.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"X must hold numbers: {error}") from error
    block = _by_rows(block)
    if not hasattr(block, "tocsr") and not isinstance(block, np.ndarray):
        block = np.asarray(block)
    if block.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {block.shape}")
    named = columns is not None and all(isinstance(name, str) for name in columns)
    return Block(block, columns if named else None)


def read_column(block: Any, name: str, count: int) -> Any:
    """A block of one entry a row as an array (count,)."""
    if hasattr(block, "columns"):
        if block.shape[1] != 1:
            raise ValueError(f"{name} must have one column, got {block.shape[1]}")
        block = block.iloc[:, 0]
    values = np.asarray(plain_labels(block))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (count,):
        raise ValueError(f"{name} must have {count} entries, one for each row of X, got shape {values.shape}")
    return values
