"""Benches run on one thread unless they say otherwise, with the reference twins of the tests within reach."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tests")]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """NumPy, SciPy and PyTorch held to one thread."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpoolctl.threadpool_limits(1):
        yield
    torch.set_num_threads(before)
