"""The one check of a number of threads given by a user."""

from __future__ import annotations

import operator
from typing import Any

MAX_THREADS = 1024


def thread_request(threads: Any) -> int:
    """Return what the core is asked for: 0, its default, for None, else the number itself.

    The default is the environment's ``LEEWARD_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the CPUs this process may use
    (its affinity and its container's quota).

    Parameters
    ----------
    threads : int or None
        From 1 to 1024. Results have the same bits for any number.

    Returns
    -------
    int

    Raises
    ------
    TypeError
        If `threads` is not an integer (True, 2.0 and "two" are not).
    ValueError
        If it is below 1 or above 1024.

    Examples
    --------
    >>> thread_request(None), thread_request(2)
    (0, 2)
    """
    if threads is None:
        return 0
    try:
        if isinstance(threads, bool):
            raise TypeError
        count = operator.index(threads)
    except TypeError:
        raise TypeError(f"threads must be an integer of at least 1 or None, got {threads!r}") from None
    if count < 1:
        raise ValueError(f"threads must be an integer of at least 1, got {count}")
    if count > MAX_THREADS:
        raise ValueError(f"threads must be at most {MAX_THREADS}, got {count}")
    return count
