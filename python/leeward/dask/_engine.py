"""Where partitions live: on the workers of a cluster, or in this process when there is none.

A *handle* stands for a value: a future of the cluster, or the value itself. Functions have no side effects, so that what a lost worker
held is made again from the graph it came from.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any, Protocol

import dask

import leeward as lw

__all__ = ["Engine", "Models", "engine_here", "numbered"]

_TRIES = 4  # passes over partitions of which workers keep dying
_LARGE = {"distributed.admin.large-graph-warning-threshold": "1 TB"}  # weights travel with the questions, by design


class Engine(Protocol):
    """How handles are made, asked and fetched."""

    places: int  # how many partitions can be worked on side by side
    remote: bool  # whether they are elsewhere

    def start(self, values: Sequence[Any]) -> list[Any]:
        """Handles of delayed values, futures or plain values."""

    def call(self, function: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
        """Handles of ``function(*row)`` for each row of the columns, which hold handles or plain values."""

    def fetch(self, handles: list[Any]) -> list[Any]:
        """The values."""


class Here:
    """This process: Dask's own scheduler loads the partitions, the core's threads work on one after the other."""

    places, remote = 1, False

    def start(self, values: Sequence[Any]) -> list[Any]:
        return list(dask.compute(*values))

    def call(self, function: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
        return [function(*row) for row in zip(*columns, strict=True)]

    def fetch(self, handles: list[Any]) -> list[Any]:
        return handles


class Cluster:
    """The workers of a client: values stay where they were made, and are made again where a worker is lost."""

    remote = True

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise TypeError("the current Dask client is asynchronous; fit needs an ordinary one")
        self.client = client
        self.places = max(1, sum(client.nthreads().values()))

    def start(self, values: Sequence[Any]) -> list[Any]:
        lazy = [value if _is_lazy(value) else dask.delayed(_same, pure=False)(value) for value in values]
        with dask.config.set(_LARGE):
            return list(self.client.compute(lazy))

    def call(self, function: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
        with dask.config.set(_LARGE):
            return list(self.client.map(function, *columns, pure=False))

    def fetch(self, handles: list[Any]) -> list[Any]:
        try:
            return list(self.client.gather(handles))
        except Exception as error:
            raise _own(error) from error.__cause__


def engine_here() -> Engine:
    """The cluster of the current client, or this process."""
    try:
        from distributed import get_client

        client = get_client()
    except (ImportError, ValueError):
        return Here()
    return Cluster(client)


class Models(lw.Parts):
    """Linear models behind handles. A pass that fails because workers were lost is made again."""

    def __init__(self, engine: Engine, handles: list[Any]) -> None:
        self.engine, self.handles = engine, handles

    def map(
        self, function: Callable[..., Any], shared: Sequence[Any] = (), cut: Sequence[Sequence[Any]] = ()
    ) -> list[Any]:
        columns = [self.handles, *([value] * len(self.handles) for value in shared), *cut]
        return list(again(lambda: self.engine.fetch(self.engine.call(function, *columns)), self.handles))


def again(attempt: Callable[[], Any], handles: Sequence[Any]) -> Any:
    """What the attempt answers, made again after losses of workers that the scheduler did not make good itself."""
    for left in range(_TRIES, -1, -1):
        try:
            return attempt()
        except Exception as error:
            if not left or not _is_loss(error):
                raise
            for handle in handles:
                if handle.status == "error":
                    handle.retry()
    raise AssertionError("not reached")


def _is_loss(error: Exception) -> bool:
    """Whether a failure is that of workers and not of the computation."""
    try:
        from distributed import KilledWorker
        from distributed.comm import CommClosedError
    except ImportError:
        return False
    return isinstance(error, KilledWorker | CommClosedError | CancelledError)


def _own(error: Exception) -> Exception:
    """A copy of an error that the client keeps: frames that it passes, and their handles, would be kept for as long."""
    try:
        own = copy.copy(error).with_traceback(error.__traceback__)
    except Exception:  # an error of the user's that does not copy
        return error
    error.__traceback__ = None
    return own


def numbered(function: Callable[..., Any], number: int, *arguments: Any) -> Any:
    """``function(*arguments)`` on a worker; an error of the data names the partition."""
    try:
        return function(*arguments)
    except (ValueError, TypeError) as error:
        raise type(error)(f"partition {number}: {error}") from error


def _is_lazy(value: Any) -> bool:
    if dask.is_dask_collection(value):
        return True
    return type(value).__module__.startswith("distributed.") and hasattr(value, "key")


def _same(value: Any) -> Any:
    return value
