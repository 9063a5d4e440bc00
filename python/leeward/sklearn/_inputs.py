"""Checks of what comes with X: sample weights, groups, seeds and thread counts, each error naming its argument."""

from __future__ import annotations

import math
import numbers
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["group_codes", "in_file", "level", "refuse_masked", "seed_of", "switch", "threads_of", "weights_of"]


def weights_of(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """(n,) float64 weights, or None when none were given; a single number weighs every sample the same."""
    if sample_weight is None:
        return None
    refuse_masked(sample_weight, "sample_weight")
    try:
        given = np.asarray(sample_weight)
        if given.dtype.kind == "c":
            raise TypeError(f"got dtype {given.dtype}")
        weight = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold real numbers: {error}") from error
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.ndim != 1:
        raise ValueError(f"sample_weight must be 1D with {n} entries, got an array of shape {weight.shape}")
    if weight.shape[0] != n:
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected ({n},): one weight for each row of X")
    _refuse(~np.isfinite(weight), weight, "finite")
    _refuse(weight < 0, weight, "non-negative")
    if not weight.any():
        raise ValueError("sample_weight must have a positive entry: the sum of the sample weights is zero")
    return weight


def switch(name: str, value: Any) -> bool:
    """A parameter that is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def in_file(X: Any) -> bool:
    """Whether X is (a view of) a memory-mapped file of numbers that can be used as they lie."""
    if not isinstance(X, np.ndarray) or X.dtype not in (np.float32, np.float64):
        return False
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return False


def refuse_masked(values: Any, name: str) -> None:
    """ValueError for an array with masked entries, which would be read as if they were not masked."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries; fill or drop them first")


def _refuse(bad: NDArray[np.bool_], weight: NDArray[np.float64], what: str) -> None:
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(f"sample_weight must be {what}, got {weight[first]} at position {first}")


def group_codes(groups: Any, n: int) -> tuple[NDArray[np.int64], NDArray[Any]] | None:
    """Codes 0..G-1 of any group labels (numbers, strings, categories) and the sorted labels."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.ndim != 1 or labels.shape[0] != n:
        raise ValueError(f"groups must be 1D with {n} labels, one for each row of X, got shape {labels.shape}")
    missing = (
        labels != labels
        if labels.dtype.kind in "fc"
        else np.array([label is None or label != label for label in labels])
    )
    if np.any(missing):
        raise ValueError(f"groups must have no missing labels, found one at position {int(np.argmax(missing))}")
    try:
        names, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise TypeError(f"groups must hold labels of one kind, numbers or strings: {error}") from error
    return codes.reshape(-1).astype(np.int64), names


def seed_of(random_state: Any) -> int:
    """An integer seed. None is 0, so that a fit repeats; a RandomState or Generator is asked for one draw."""
    if random_state is None:
        return 0
    if isinstance(random_state, numbers.Integral):
        if int(random_state) < 0:
            raise ValueError(f"random_state must be non-negative, got {random_state}")
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise TypeError(f"random_state must be None, an integer, a RandomState or a Generator, got {random_state!r}")


def threads_of(n_jobs: Any) -> int | None:
    """Threads for `n_jobs`: None leaves the choice to leeward, -1 is every CPU of this process, -2 all but one."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral):
        raise TypeError(f"n_jobs must be None or an integer, got {n_jobs!r}")
    jobs = int(n_jobs)
    if jobs == 0:
        raise ValueError("n_jobs must be None, positive, or -1 for every CPU, got 0")
    if jobs > 0:
        return jobs
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity is not None else (os.cpu_count() or 1)
    return max(1, cpus + 1 + jobs)


def level(name: str, value: Any) -> float:
    """A finite number >= 0, or an error that names the parameter."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number >= 0, got {value!r}")
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be finite and >= 0, got {value}")
    return number
