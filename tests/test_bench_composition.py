"""The bench of compositions runs: its answers are asserted in it, and its tables hold every method."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import leeward as lw

BENCH = Path(__file__).resolve().parents[1] / "bench"


def test_the_tables_hold_every_method_for_compositions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    try:
        importlib.import_module("bench_composition").main(["--short"])
    finally:
        for name in ("bench_composition", "composition_methods"):
            sys.modules.pop(name, None)
    tables = capsys.readouterr().out.split("samples to 1% of the first gap")[1:]
    found = [
        {line[:14].strip(): line[14:].split() for line in table.splitlines()[2:] if len(line) == 84} for table in tables
    ]
    assert len(found) == 2
    names = {
        "SMVR",
        "SMVR, stages",
        "SMVR, AdaGrad",
        "SMVR, AMSGrad",
        "PMVR",
        "PMVR, average",
        "SCSC",
        "NestedSPIDER",
        "NLASG",
        "ATSCGD",
        "SCGD",
    }
    assert set(found[0]) == names
    assert set(found[1]) == names | {"NASA", "ASCPG"}
    assert {name.split(",")[0] for name in found[1]} == {
        c for c in lw.__all__ if getattr(getattr(lw, c), "compositions", False)
    }
    for table in found:
        for row in table.values():
            assert len(row) == 7
        assert float(table["SMVR"][4]) > 0  # reached
