"""A table in partitions: blocks of rows behind handles, what is known of all of them, and the linear models made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import leeward as lw
from leeward.dask._blocks import Block, aligned, blocks_of, read_column, read_features
from leeward.dask._engine import Engine, Models, again, engine_here, numbered
from leeward.sklearn._inputs import group_codes, weights_of

__all__ = ["Table"]


class Table:
    """The partitions of X that have rows.

    Attributes
    ----------
    engine : Engine
        Where they are.
    shape : (n, d)
    columns : names of the columns, or None
    """

    def __init__(self, X: Any) -> None:
        self.engine: Engine = engine_here()
        raw = self.engine.start(blocks_of(X, self.engine.places))
        self._numbers = list(range(len(raw)))  # of the partitions in use, as the user counts them
        blocks = self.ask(read_features, raw)
        facts = self.fetch(self.engine.call(_shape, blocks))
        self._sizes = [rows for rows, _, _ in facts]  # of all blocks
        self._full = [k for k, rows in enumerate(self._sizes) if rows]
        if not self._full:
            raise ValueError("X must have at least one row, got none in any partition")
        self._blocks = [blocks[k] for k in self._full]
        self._numbers = self._full
        first = facts[self._full[0]]
        for k in self._full:
            if facts[k][1:] != first[1:]:
                raise ValueError(
                    f"partition {k}: X must have {_columns(first)} as the others, got {_columns(facts[k])}"
                )
        self.shape = (int(sum(self._sizes)), int(first[1]))
        self.columns: tuple[str, ...] | None = first[2]

    # -- questions --------------------------------------------------------------------------------------------------
    def ask(self, function: Callable[..., Any], *columns: list[Any]) -> list[Any]:
        """Handles of the function's answers; an error of the data names the partition."""
        return self.engine.call(numbered, [function] * len(self._numbers), self._numbers, *columns)

    def shared(self, function: Callable[..., Any], *columns: list[Any], more: tuple[Any, ...] = ()) -> list[Any]:
        """The same with arguments that all partitions share."""
        return self.ask(function, *columns, *([value] * len(columns[0]) for value in more))

    def fetch(self, handles: list[Any]) -> list[Any]:
        """The values of handles."""
        return list(again(lambda: self.engine.fetch(handles), handles))

    def column(self, values: Any, name: str) -> list[Any]:
        """Handles of one entry a row, an array for each partition that has rows."""
        blocks = aligned(values, name, self._sizes)
        handles = self.engine.start([blocks[k] for k in self._full])
        return self.ask(read_column, handles, [name] * len(handles), [self._sizes[k] for k in self._full])

    def weights(self, sample_weight: Any) -> NDArray[np.float64] | None:
        """Base weights of all rows, checked."""
        if sample_weight is None or np.isscalar(sample_weight):
            return weights_of(sample_weight, self.shape[0])
        parts = self.fetch(self.column(sample_weight, "sample_weight"))
        return weights_of(np.concatenate(parts), self.shape[0])

    def cut(self, values: NDArray[Any]) -> list[Any]:
        """An array of one entry a row as its parts."""
        return np.split(values, np.cumsum([self._sizes[k] for k in self._full])[:-1])

    def groups(self, groups: Any) -> NDArray[np.int64] | None:
        """Numbers of the groups of all rows; labels are compared where they are."""
        if groups is None:
            return None
        labels = self.column(groups, "groups")
        found = self.fetch(self.ask(_group_names, labels))
        self.one_kind(found, "groups")
        names = np.unique(np.concatenate(found))
        return np.concatenate(self.fetch(self.shared(_codes, labels, more=(names,)))).astype(np.int64)

    def one_kind(self, found: list[NDArray[Any]], name: str) -> None:
        """TypeError unless the labels are strings in all partitions or in none: joined, numbers would become strings."""
        kinds = {isinstance(labels[0], str): number for labels, number in zip(found, self._numbers, strict=True)}
        if len(kinds) > 1:
            raise TypeError(
                f"{name} must hold labels of one kind, got strings in partition {kinds[True]} and none in partition {kinds[False]}"
            )

    def models(self, targets: list[Any], loss: Any, intercept: bool, threads: int | None) -> Models:
        """Linear models of the partitions; on a cluster with one thread each unless more are asked for."""
        threads = 1 if threads is None and self.engine.remote else threads
        handles = self.shared(_model, self._blocks, targets, more=(loss, intercept, threads))
        return Models(self.engine, handles)

    def max(self) -> float:
        """The largest entry."""
        return float(max(top for top, _ in self.fetch(self.engine.call(_range, self._blocks))))

    def min(self) -> float:
        """The least entry."""
        return float(min(low for _, low in self.fetch(self.engine.call(_range, self._blocks))))


def _shape(block: Block) -> tuple[int, int, tuple[str, ...] | None]:
    return (*block.X.shape, block.columns)


def _columns(fact: tuple[int, int, tuple[str, ...] | None]) -> str:
    return f"{fact[1]} columns" if fact[2] is None else f"the columns {', '.join(fact[2])}"


def _range(block: Block) -> tuple[float, float]:
    return float(block.X.max()), float(block.X.min())


def _group_names(labels: NDArray[Any]) -> NDArray[Any]:
    found = group_codes(labels, len(labels))
    assert found is not None
    return found[1]


def _codes(labels: NDArray[Any], names: NDArray[Any]) -> NDArray[np.int64]:
    return np.searchsorted(names, labels).astype(np.int64)


def _model(block: Block, target: Any, loss: Any, intercept: bool, threads: int | None) -> lw.LinearModel:
    return lw.LinearModel(block.X, target, loss, intercept=intercept, threads=threads)
