"""The committed stub of the compiled core says what the built core says.

`python tests/test_stubs.py` writes the stub anew (as `nox -s stubs` does); the test compares.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

COMMITTED = Path(__file__).resolve().parents[1] / "python" / "leeward" / "_core.pyi"


def generate() -> str:
    """Run pybind11-stubgen on the installed core.

    The version's value is left out, since it stands in one place, and a bare tuple or dict is said to hold anything.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pybind11_stubgen", "leeward._core", "-o", folder, "--exit-code"]
        subprocess.run([*command, "--print-safe-value-reprs", ".*"], check=True, capture_output=True, text=True)
        text = (Path(folder) / "leeward" / "_core.pyi").read_text()
    lines = ["__version__: str" if line.startswith("__version__") else line.rstrip() for line in text.splitlines()]
    text = re.sub(r"\btuple\b(?!\[)", "tuple[typing.Any, ...]", "\n".join(lines))
    return re.sub(r"\bdict\b(?!\[)", "dict[str, typing.Any]", text) + "\n"


def test_committed_stub_is_the_generated_one() -> None:
    pytest.importorskip("pybind11_stubgen", reason="the stub generator is in the extra 'test'")
    assert COMMITTED.read_text() == generate(), "run `python tests/test_stubs.py` after changing the bindings"


if __name__ == "__main__":
    COMMITTED.write_text(generate())
