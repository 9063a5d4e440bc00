"""The Python blocks of Markdown pages and the files that hold them, for the tests of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python[^\S\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"<!-- needs: ([\w., ]+) -->")


def python_blocks(text: str) -> list[tuple[int, str]]:
    """Return (line number, code) of each fenced python block."""
    return [(text.count("\n", 0, m.start(1)) + 1, m.group(1)) for m in BLOCK.finditer(text)]


def needed_packages(text: str) -> list[str]:
    """Return the optional packages a page says it needs, by a comment `<!-- needs: torch, sklearn -->`."""
    return [name.strip() for m in NEEDS.finditer(text) for name in m.group(1).split(",")]


def pages() -> list[Path]:
    """Return the pages with Python blocks: the README, CONTRIBUTING and everything under docs."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        p for p in found if p.is_file() and "_build" not in p.parts and python_blocks(p.read_text(encoding="utf-8"))
    ]
