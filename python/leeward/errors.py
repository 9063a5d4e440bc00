"""Exceptions and warnings of leeward."""

from __future__ import annotations

__all__ = ["ConvergenceWarning", "InfiniteError", "LeewardError", "OracleError"]


class LeewardError(Exception):
    """Root of the errors that are not plain ValueError or TypeError."""


class OracleError(LeewardError, ValueError):
    """A user's oracle returned something wrong; the message names the sample numbers."""


class InfiniteError(OracleError):
    """A user's oracle returned an infinite number, or any number that is not finite at a point beyond 1e100.

    It is raised where the oracle is called, and by ``minimize`` at the starting point; later in a run it counts as a step that
    is too large.
    """


class ConvergenceWarning(UserWarning):
    """A run ended before its tolerance was reached; the message says how far it is."""
