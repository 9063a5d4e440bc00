"""The example for users of Lightning runs, and the rare group gains what its page says."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "examples" / "lightning_robust.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


@pytest.mark.slow
def test_the_rare_group_gains_and_the_common_one_loses_little() -> None:
    if importlib.util.find_spec("lightning") is None:
        pytest.skip("lightning is not installed")
    imported = run("-c", "import lightning.pytorch")
    if imported.returncode:
        pytest.skip(f"lightning cannot be imported: {imported.stderr.strip().splitlines()[-1]}")
    done = run(str(SCRIPT))
    assert done.returncode == 0, done.stderr
    found = re.findall(r"common ([\d.]+), rare ([\d.]+)", done.stdout)
    (common, rare), (robust_common, robust_rare) = ((float(a), float(b)) for a, b in found)
    assert robust_rare > rare + 0.1
    assert robust_common > common - 0.03
