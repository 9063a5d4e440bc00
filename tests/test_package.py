"""The package describes itself once and truly."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import leeward
from check_baseline import clones_and_intruders
from check_globals import shared_state

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_version_of_module_metadata_and_pyproject_agree() -> None:
    assert leeward.__version__ == importlib.metadata.version("leeward") == PROJECT["version"]


def test_version_is_written_nowhere_else() -> None:
    for name in ("CMakeLists.txt", "python/leeward/__init__.py", "python/leeward/_core.pyi"):
        assert PROJECT["version"] not in (ROOT / name).read_text()


def test_changelog_has_the_version() -> None:
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_numpy_and_scipy_are_all_that_is_required() -> None:
    assert {d.split(">")[0] for d in PROJECT["dependencies"]} == {"numpy", "scipy"}


def test_typed_marker_and_stub_are_installed() -> None:
    folder = Path(leeward.__file__).parent
    assert (folder / "py.typed").is_file()
    assert (folder / "_core.pyi").is_file()


def test_public_names_are_unique_and_exist() -> None:
    assert len(set(leeward.__all__)) == len(leeward.__all__)
    for name in leeward.__all__:
        assert hasattr(leeward, name)


def test_baseline_check_sees_wide_code_outside_a_clone_only() -> None:
    inside = "0000 <sum.arch_x86_64_v3>:\n  10:\tvaddpd %ymm1,%ymm1,%ymm0\n"
    assert clones_and_intruders(inside) == (1, [])
    named = "0000 <_ZN7leeward12dots_at_avx2EPd>:\n  10:\tvaddpd %ymm1,%ymm1,%ymm0\n"
    assert clones_and_intruders(named) == (1, [])
    assert clones_and_intruders("0000 <sum>:\n  10:\taddpd %xmm1,%xmm0\n  12:\tverw (%rax)\n") == (0, [])
    assert clones_and_intruders("0000 <sum>:\n  10:\tvaddsd %xmm1,%xmm1,%xmm0\n")[1]


def test_globals_check_sees_a_shared_variable() -> None:
    line = "leeward::{} |00000000| b | {} |0008| |{}"
    assert shared_state(line.format("counter", "OBJECT", ".bss")) == ["leeward::counter"]
    assert shared_state(line.format("workspace", "TLS", ".tbss")) == []
    assert shared_state(line.format("kTable", "OBJECT", ".rodata")) == []
