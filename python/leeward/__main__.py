"""The command line's entry point, and the one place where the faces meet: it hands the estimators to the commands.

``leeward`` and ``python -m leeward`` are the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from leeward import cli

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, ``sys.argv[1:]`` by default, and return its exit status."""
    return cli.main(argv, _estimators)


def _estimators() -> tuple[type, type]:
    from leeward.sklearn import RobustClassifier, RobustRegressor

    return RobustClassifier, RobustRegressor


if __name__ == "__main__":
    sys.exit(main())
