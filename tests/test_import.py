"""Importing the package is cheap and loads nothing optional."""

from __future__ import annotations

import os
import subprocess
import sys

LIMIT = 0.35  # seconds, NumPy included

OPTIONAL = ("torch", "sklearn", "matplotlib", "pandas", "tqdm", "joblib", "dask", "distributed")
WHEN_NEEDED = ("scipy.optimize", "scipy.sparse", "scipy.special", "scipy.linalg", "scipy.stats")


def test_import_loads_nothing_optional_and_no_part_of_scipy() -> None:
    code = f"import sys, leeward; print([m for m in {OPTIONAL + WHEN_NEEDED!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"


def test_import_takes_less_than_its_limit() -> None:
    def seconds(code: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # Processor time, and the best of several runs: a busy machine only ever adds to it.
    assert min(seconds("import leeward") - seconds("pass") for _ in range(5)) < LIMIT
