"""Settings shared by all tests: repeatable Hypothesis runs, no display, and the folder of larger data sets if there is one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job: the tests of Ctrl-C need it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=False)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of larger data sets: the environment variable LEEWARD_DATA, else ../shared/data beside the sources."""
    folder = Path(os.environ.get("LEEWARD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no larger data sets here: set LEEWARD_DATA to their folder")
    return folder
