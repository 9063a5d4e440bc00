"""Exceptions and warnings of leeward."""

from __future__ import annotations

__all__ = ["ConvergenceWarning", "LeewardError", "OracleError"]


class LeewardError(Exception):
    """Root of the errors that are not plain ValueError or TypeError."""


class OracleError(LeewardError, ValueError):
    """A user's oracle returned something wrong; the message names the sample numbers."""


class ConvergenceWarning(UserWarning):
    """A run ended before its tolerance was reached; the message says how far it is."""
