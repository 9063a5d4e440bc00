"""A user's script that must pass `mypy --strict` against the installed package. It also runs."""

from __future__ import annotations

import leeward

version: str = leeward.__version__
print(version)
