"""Answers of a fitted model on Dask collections, block by block and when they are asked for; scores at once, as searches need them."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np

from leeward.dask._blocks import aligned, blocks_of

__all__ = ["lazily", "mean_score"]


def lazily(model: Any, name: str, X: Any, dtype: Any, width: int | None) -> Any:
    """The method `name` of a plain estimator on the blocks of X: a Dask array, or a list of delayed for a list of blocks.

    `width` is the number of columns of the answer, None for one entry a row.
    """
    import dask.array as da

    if hasattr(X, "chunks"):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}")
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        meta = np.empty((0,) if width is None else (0, 0), dtype)
        if width is None:
            return X.map_blocks(_answer, model, name, dtype, None, drop_axis=1, dtype=dtype, meta=meta)
        chunks = (X.chunks[0], (width,))
        return X.map_blocks(_answer, model, name, dtype, width, chunks=chunks, dtype=dtype, meta=meta)
    lazy = dask.delayed(_answer, pure=True)
    answers = [lazy(block, model, name, dtype, width) for block in blocks_of(X, 1)]
    if not hasattr(X, "columns"):
        return answers if isinstance(X, list | tuple) else answers[0]
    shape = (np.nan,) if width is None else (np.nan, width)
    return da.concatenate([da.from_delayed(answer, shape, dtype) for answer in answers])


def mean_score(model: Any, X: Any, y: Any, sample_weight: Any, of_squares: bool) -> float:
    """The accuracy, or R^2: each block gives a few sums."""
    blocks = blocks_of(X, 1)
    known = hasattr(X, "chunks") and not np.isnan(X.chunks[0]).any()
    targets = _beside(y, "y", blocks, X.chunks[0] if known else None)
    weights = [None] * len(blocks)
    if sample_weight is not None:
        weights = _beside(sample_weight, "sample_weight", blocks, X.chunks[0] if known else None)
    part = dask.delayed(_squares if of_squares else _hits, pure=True)
    sums = [part(model, *block) for block in zip(blocks, targets, weights, strict=True)]
    return float(dask.delayed(_explained if of_squares else _share, pure=True)(sums).compute())


def _beside(values: Any, name: str, blocks: list[Any], sizes: Any) -> list[Any]:
    if sizes is not None:
        return aligned(values, name, sizes)
    delayed = list(values.to_delayed().ravel()) if hasattr(values, "chunks") else None
    if delayed is None:
        delayed = list(values.to_delayed()) if hasattr(values, "to_delayed") else values
    if not isinstance(delayed, list | tuple) or len(delayed) != len(blocks):
        raise ValueError(f"{name} must have the {len(blocks)} partitions of X")
    return list(delayed)


def _answer(block: Any, model: Any, name: str, dtype: Any, width: int | None) -> Any:
    if block.shape[0] == 0:
        return np.empty((0,) if width is None else (0, width), dtype)
    return getattr(model, name)(block).astype(dtype, copy=False)


def _parts(model: Any, X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    labels = np.asarray(y).reshape(-1)
    predicted = _answer(X, model, "predict", labels.dtype, None)
    if labels.shape != predicted.shape:
        raise ValueError(f"y must have {len(predicted)} entries in this partition, got {len(labels)}")
    p = np.ones(len(labels)) if weight is None else np.asarray(weight).reshape(-1).astype(np.float64)
    return labels, predicted, p


def _hits(model: Any, X: Any, y: Any, weight: Any) -> tuple[float, float]:
    labels, predicted, p = _parts(model, X, y, weight)
    return float(p.sum()), float(p[labels == predicted].sum())


def _share(sums: list[tuple[float, float]]) -> np.float64:
    total, right = np.sum(sums, axis=0)
    return np.float64(right / total)


def _squares(model: Any, X: Any, y: Any, weight: Any) -> tuple[float, float, float, float]:
    """Weight, mean and squares about the mean of the targets, and squares of the errors."""
    X, y = (X, np.asarray(y).reshape(-1).astype(np.float64))
    values, predicted, p = _parts(model, X, y, weight)
    mass = float(p.sum())
    mean = float((p * values).sum() / mass) if mass > 0 else 0.0
    return mass, mean, float((p * (values - mean) ** 2).sum()), float((p * (values - predicted) ** 2).sum())


def _explained(sums: list[tuple[float, float, float, float]]) -> np.float64:
    mass, mean, inside, errors = np.array(sums).T
    centre = float((mass * mean).sum() / mass.sum())
    spread = float(inside.sum() + (mass * (mean - centre) ** 2).sum())
    return np.float64(1.0 - float(errors.sum()) / spread if spread > 0 else not errors.any())
