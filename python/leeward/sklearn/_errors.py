"""The warning of a fit that ended early, in a form that filters of leeward and of scikit-learn both catch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

import leeward as lw

__all__ = ["ConvergenceWarning", "convergence_warnings"]


class ConvergenceWarning(lw.ConvergenceWarning, _SklearnConvergenceWarning):  # type: ignore[misc]
    """A fit ended before its tolerance; the message says how far from optimal it may be."""


@contextmanager
def convergence_warnings() -> Iterator[list[str]]:
    """Collect the messages of convergence warnings, to be given once; other warnings pass."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    for warning in caught:
        if issubclass(warning.category, lw.ConvergenceWarning):
            messages.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
