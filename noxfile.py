"""The chores of the project: `nox -s NAME`. The whole check of a change is `bash .ci/run`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["lint", "test"]
nox.options.default_venv_backend = "venv"

PROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


@nox.session
def test(session: nox.Session) -> None:
    """Run the test suite on the newest versions of what the package needs."""
    session.install(".[test]")
    session.run("pytest", *session.posargs)


@nox.session
def mintest(session: nox.Session) -> None:
    """Run the test suite on the lowest NumPy and SciPy that the package says it works with (no scikit-learn)."""
    lowest = [requirement.replace(">=", "==") + ".*" for requirement in PROJECT["dependencies"]]
    session.install(*lowest, *[r for r in EXTRAS["test"] if not r.startswith(("leeward", "pandas"))])
    session.install("--no-deps", ".")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style and the types of the Python sources."""
    session.install(*PROJECT["dependencies"], *EXTRAS["lint"])
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("mypy", "--config-file", "tests/mypy.ini")


@nox.session
def cppformat(session: nox.Session) -> None:
    """Format the C++ sources."""
    session.install("clang-format")
    session.run(
        "clang-format", "-i", *map(str, [*Path("csrc").rglob("*.[hc]pp"), *Path("tests/cpp").rglob("*.[hc]pp")])
    )


@nox.session
def stubs(session: nox.Session) -> None:
    """Write the stub of the compiled core anew."""
    session.install(".[test]")
    session.run("python", "tests/test_stubs.py")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into docs/_build, warnings as errors."""
    session.install(".[demo,torch,docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build")


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benches; the opponents are installed with them."""
    session.install(".[bench]")
    session.run("pytest", "bench", *session.posargs)
