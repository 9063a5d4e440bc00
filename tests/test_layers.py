"""The sources keep the laws of the house, and each law is able to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from laws import CPP_LAWS, Law
from python_laws import CORE_EXCEPTIONS, PYTHON_LAWS

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("csrc", "python", "tests", "bench", "docs", ".ci", ".github")
TEXT = {".hpp", ".cpp", ".cu", ".cuh", ".py", ".pyi", ".md", ".toml", ".txt", ".json", ".sh", ".yml", ""}
LAWS = CPP_LAWS + PYTHON_LAWS


def read_sources() -> dict[str, str]:
    """Return path -> text of the project's own files."""
    files = [p for p in ROOT.iterdir() if p.is_file() and p.name != ".git"]
    for folder in FOLDERS:
        files += [p for p in (ROOT / folder).rglob("*") if p.is_file() and "_build" not in p.parts]
    texts = {}
    for path in files:
        if path.suffix in TEXT and "__pycache__" not in path.parts:
            texts[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    return texts


SOURCES = read_sources()
PLANTED = [(law, path, text) for law in LAWS for path, text in law.planted]


def test_sources_are_found() -> None:
    for name in ("csrc/src/parallel.cpp", "csrc/bindings/module.cpp", "python/leeward/__init__.py", "README.md"):
        assert name in SOURCES


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.sentence)
def test_law_holds(law: Law) -> None:
    violations = law.violations(SOURCES)
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize(
    ("law", "path", "text"), PLANTED, ids=[f"{law.sentence}-{i}" for i, (law, _, _) in enumerate(PLANTED)]
)
def test_law_sees_a_planted_violation(law: Law, path: str, text: str) -> None:
    assert len(law.violations({path: text})) >= 1


@pytest.mark.parametrize("name", sorted(CORE_EXCEPTIONS))
def test_exceptions_are_written_in_the_architecture(name: str) -> None:
    assert f"`{name}`" in SOURCES["docs/architecture.md"]
