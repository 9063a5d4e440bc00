"""Saving a run so that it survives kill -9: the whole state in one file, replaced in one atomic rename.

A file holds named arrays and the identity of the run (problem, algorithm, seed, starting point). Every draw depends on (seed,
purpose, step) alone, so the arrays and the step number are all that is needed to go on with the same bits.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

__all__ = ["Checkpoint", "CheckpointStore"]

_FORMAT = "leeward-checkpoint-1"


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run is saved.

    Parameters
    ----------
    path : str or Path
        The file. When it exists and belongs to the same run, the run goes on from it.
    every : float, default 2
        Least number of seconds between two saves; 0 saves at every opportunity.

    Examples
    --------
    >>> import leeward as lw
    >>> lw.Checkpoint("run.ckpt", every=10.0)
    Checkpoint(path='run.ckpt', every=10.0)
    """

    path: str | os.PathLike[str]
    every: float = 2.0

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise TypeError(f"checkpoint must be a path, got {self.path!r}")
        if not (np.isfinite(self.every) and self.every >= 0):
            raise ValueError(f"every must be finite and at least 0 seconds, got {self.every}")


class CheckpointStore:
    """The checkpoint as a running algorithm sees it: ``load``, ``due``, ``save``.

    ``load()`` gives the algorithm's arrays of an earlier run, or None. ``save(arrays)`` stores them together with the
    run's own record (trace, counts, clock), which ``own`` delivers. Without a path nothing is ever due.
    """

    def __init__(self, target: Checkpoint | None, identity: dict[str, str], own: Callable[[], Arrays]) -> None:
        self._target = target
        self._identity = identity
        self._own = own
        self._last = time.monotonic()
        if target is not None:
            _check_folder(Path(target.path).parent)
        self._found = None if target is None else _read(Path(target.path), identity)

    @property
    def active(self) -> bool:
        """Whether the run is to be saved at all."""
        return self._target is not None

    def load(self) -> Arrays | None:
        """The algorithm's arrays found when the run began, or None."""
        return _part(self._found, "algorithm.")

    def load_run(self) -> Arrays | None:
        """The run's own record found when the run began, or None."""
        return _part(self._found, "run.")

    def due(self) -> bool:
        """Whether it is time to save again."""
        return self._target is not None and time.monotonic() - self._last >= self._target.every

    def save(self, arrays: Arrays) -> None:
        """Stores the arrays; returns when they are on the disk. Does nothing without a path."""
        if self._target is None:
            return
        everything = {f"algorithm.{k}": v for k, v in arrays.items()} | {f"run.{k}": v for k, v in self._own().items()}
        _write(Path(self._target.path), self._identity, everything)
        self._last = time.monotonic()


def _part(found: Arrays | None, prefix: str) -> Arrays | None:
    if found is None:
        return None
    return {k.removeprefix(prefix): v for k, v in found.items() if k.startswith(prefix)}


def _check_folder(folder: Path) -> None:
    """An error before the run rather than at its first save."""
    if not folder.is_dir():
        raise FileNotFoundError(f"the checkpoint's folder {str(folder)!r} does not exist")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"the checkpoint's folder {str(folder)!r} cannot be written to")


def _write(path: Path, identity: dict[str, str], arrays: Arrays) -> None:
    buffer = io.BytesIO()
    header = np.frombuffer(json.dumps({"format": _FORMAT, **identity}).encode(), dtype=np.uint8)
    np.savez(buffer, header=header, **arrays)  # type: ignore[arg-type]
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(buffer.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if os.name == "posix":  # the rename itself must reach the disk too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read(path: Path, identity: dict[str, str]) -> Arrays | None:
    if not path.exists():
        return None
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
    except (OSError, EOFError, ValueError, KeyError, BadZipFile) as problem:
        raise ValueError(f"checkpoint {str(path)!r} is not a leeward checkpoint: {problem}") from problem
    if header.pop("format", None) != _FORMAT:
        raise ValueError(f"checkpoint {str(path)!r} has another format than {_FORMAT}")
    for key, mine in identity.items():
        theirs = header.get(key)
        if theirs != mine:
            raise ValueError(
                f"checkpoint {str(path)!r} belongs to another run: its {key} is {theirs}, this run's is {mine}; "
                "give another path or delete the file"
            )
    return arrays
