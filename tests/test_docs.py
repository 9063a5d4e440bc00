"""What the documentation shows is what happens: examples in docstrings and Python blocks of the pages run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import leeward as lw
from markdown_blocks import ROOT, needed_packages, pages, python_blocks


def public_modules() -> list[ModuleType]:
    """Return the package and its modules without an underscore; a face whose optional package is absent is left out."""
    found = [lw]
    for info in pkgutil.walk_packages(lw.__path__, "leeward."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            try:
                found.append(importlib.import_module(info.name))
            except ImportError:
                continue
    return found


def public_objects() -> dict[str, object]:
    """Return dotted name -> object for every public class and function, each once."""
    found: dict[str, object] = {}
    seen: set[int] = set()
    for module in public_modules():
        for attribute in getattr(module, "__all__", []):
            thing = getattr(module, attribute)
            if (inspect.isclass(thing) or inspect.isroutine(thing)) and id(thing) not in seen:
                seen.add(id(thing))
                found[f"{module.__name__}.{attribute}"] = thing
    return found


OBJECTS = public_objects()
# Bases, results and the command: the examples of those who make them show them.
SHOWN_BY_OTHERS = [
    "Algorithm",
    "Domain",
    "Estimator",
    "Oracle",
    "Risk",
    "Divergence",
    "Loss",
    "Evaluation",
    "Result",
    "RiskSolution",
    "State",
    "Status",
    "Trace",
    "Trial",
    "Tuning",
    "RobustPath",
    "OracleReport",
    "CompositionEvaluation",
    "Level",
    "LevelReport",
    "main",
]


def examples(name: str) -> list[doctest.DocTest]:
    """Return the doctests of an object and of its own methods."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    module = inspect.getmodule(OBJECTS[name])
    names = {**vars(module), "lw": lw, "np": np}
    return [t for t in finder.find(OBJECTS[name], name, module=module, globs=names) if t.examples]


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_examples_of_a_public_name_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    for test in examples(name):
        runner = doctest.DocTestRunner(optionflags=flags)
        report: list[str] = []
        runner.run(test, out=report.append)
        assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_public_name_has_a_docstring_with_an_example(name: str) -> None:
    thing = OBJECTS[name]
    assert inspect.getdoc(thing), f"{name} has no docstring"
    error = isinstance(thing, type) and issubclass(thing, BaseException)
    if not error and name.split(".")[-1] not in SHOWN_BY_OTHERS:
        assert examples(name), f"{name} has no runnable example"


@pytest.mark.parametrize("page", pages(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_python_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    for package in needed_packages(text):
        pytest.importorskip(package, reason=f"{page.name} shows {package}")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code in python_blocks(text):
        exec(compile("\n" * (line - 1) + code, str(page), "exec", dont_inherit=True), namespace)


def test_a_wrong_block_would_be_seen() -> None:
    ((line, code),) = python_blocks("text\n```python\nassert 1 == 2\n```\n")
    assert line == 3
    with pytest.raises(AssertionError):
        exec(code, {})
