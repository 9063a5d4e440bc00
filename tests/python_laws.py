"""The laws of the Python half of the house, read from syntax trees; see `laws.py` for what a law is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from laws import Law, Sources

PACKAGE = "python/leeward/"
# The modules that may import the compiled core. Exceptions are written, with their reason, in docs/architecture.md.
CORE_USERS = {"risks", "oracles", "problems", "minimize"}
CORE_EXCEPTIONS = {"__init__", "_precondition", "_sums"}
# Faces: they use public names only and never each other.
FACES = {"sklearn", "torch", "dask", "cli", "testing"}
# A face that stands on another one: its estimators are those of the other on data of another kind.
STANDS_ON = {"dask": "sklearn"}
# Optional packages and the modules that may import them; the core of the package runs on NumPy and SciPy alone.
OPTIONAL = {
    "torch": {"torch"},
    "sklearn": {"sklearn", "dask", "cli"},
    "dask": {"dask"},
    "distributed": {"dask"},
    "joblib": {"sklearn", "cli"},
    "pandas": {"sklearn", "cli"},
    "pyarrow": {"cli"},
    "matplotlib": {"plot", "cli"},
    "tqdm": {"trace", "minimize", "_context", "_progress"},
}
# Opponents in benches and references in tests.
NEVER = {"dro", "cvxpy", "fast_dro", "deshift", "jax", "mpmath", "hypothesis", "pytest", "statsmodels", "numba"}
# Divergences are functions of plain scalars or arrays and coerce them in one place of their own.
COERCERS = {"_arrays", "divergences"}
COERCIONS = {"asarray", "ascontiguousarray", "asfortranarray", "asanyarray", "require"}


def modules(sources: Sources) -> dict[str, ast.Module]:
    """Return path -> syntax tree of the package's modules."""
    chosen = {p: t for p, t in sources.items() if p.startswith(PACKAGE) and p.endswith(".py")}
    return {path: ast.parse(text) for path, text in chosen.items()}


def top(path: str) -> str:
    """Return the module or sub-package of leeward a path belongs to: 'risks', 'algorithms', 'sklearn'."""
    return path.removeprefix(PACKAGE).split("/")[0].removesuffix(".py")


def imports(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute dotted name) of everything imported, `from a import b` as 'a.b'."""
    folder = ["leeward", *path.removeprefix(PACKAGE).split("/")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)


def core_is_imported_by_few(sources: Sources) -> list[str]:
    return [
        f"{path}:{line}: {top(path)} may not import the compiled core"
        for path, tree in modules(sources).items()
        for line, name in imports(path, tree)
        if (name == "leeward._core" or name.startswith("leeward._core."))
        and top(path) not in CORE_USERS | CORE_EXCEPTIONS
    ]


def one_file_coerces_arrays(sources: Sources) -> list[str]:
    found = []
    for path, tree in modules(sources).items():
        if top(path) in COERCERS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in COERCIONS:
                typed = len(node.args) > 1 or any(k.arg == "dtype" for k in node.keywords)
                if typed:
                    found.append(f"{path}:{node.lineno}: {node.func.attr} with a dtype belongs in _arrays")
    return found


def faces_use_public_names(sources: Sources) -> list[str]:
    found = []
    for path, tree in modules(sources).items():
        if top(path) not in FACES:
            continue
        for line, name in imports(path, tree):
            parts = name.split(".")
            if parts[0] != "leeward":
                continue
            if any(part.startswith("_") and not part.startswith("__") for part in parts[1:]):
                own = len(parts) > 1 and parts[1] in (top(path), STANDS_ON.get(top(path)))
                if not own:
                    found.append(f"{path}:{line}: {top(path)} uses the private name {name}")
            if len(parts) > 1 and parts[1] in FACES - {top(path), STANDS_ON.get(top(path), "")}:
                found.append(f"{path}:{line}: {top(path)} may not use {parts[1]}")
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in ("lw", "leeward")
            ):
                private = node.attr.startswith("_") and not node.attr.startswith("__")
                if private or node.attr in FACES - {top(path)}:
                    found.append(f"{path}:{node.lineno}: {top(path)} may not use {node.value.id}.{node.attr}")
    return found


def nobody_imports_a_face(sources: Sources) -> list[str]:
    return [
        f"{path}:{line}: {top(path)} may not import the face {name}"
        for path, tree in modules(sources).items()
        if top(path) not in FACES | {"__main__"}  # python -m leeward
        for line, name in imports(path, tree)
        if name.split(".")[0] == "leeward" and name.split(".")[1:2] and name.split(".")[1] in FACES
    ]


def optional_packages_stay_at_home(sources: Sources) -> list[str]:
    found = []
    for path, tree in modules(sources).items():
        for line, name in imports(path, tree):
            package = name.split(".")[0]
            if package in NEVER or (package in OPTIONAL and top(path) not in OPTIONAL[package]):
                found.append(f"{path}:{line}: {top(path)} may not import {package}")
    return found


def modules_open_with_their_idea(sources: Sources) -> list[str]:
    return [
        f"{path}: a module opens with its docstring"
        for path, tree in modules(sources).items()
        if not ast.get_docstring(tree)
    ]


def library_never_prints(sources: Sources) -> list[str]:
    return [
        f"{path}:{node.lineno}: only the command line prints"
        for path, tree in modules(sources).items()
        if top(path) != "cli"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


PYTHON_LAWS = (
    Law(
        "few modules import the compiled core",
        core_is_imported_by_few,
        (
            ("python/leeward/plot.py", "from leeward import _core"),
            ("python/leeward/plot.py", "from . import _core"),
            ("python/leeward/algorithms/sgd.py", "from .._core import Risk"),
            ("python/leeward/sklearn.py", "import leeward._core as c"),
        ),
    ),
    Law(
        "one file coerces arrays",
        one_file_coerces_arrays,
        (
            ("python/leeward/risks.py", "import numpy as np\nx = np.asarray([1], dtype=np.float64)"),
            ("python/leeward/risks.py", "import numpy as np\nx = np.ascontiguousarray([1], float)"),
        ),
    ),
    Law(
        "faces use public names and never each other",
        faces_use_public_names,
        (
            ("python/leeward/sklearn.py", "from leeward._arrays import vector"),
            ("python/leeward/sklearn.py", "from leeward.risks import _check"),
            ("python/leeward/cli.py", "import leeward as lw\nlw._core.version()"),
            ("python/leeward/cli.py", "from leeward.sklearn import RobustClassifier"),
            ("python/leeward/testing.py", "from .torch import RobustLoss"),
            ("python/leeward/dask.py", "from leeward.torch._rows import solve_rows"),
            ("python/leeward/sklearn.py", "from leeward.dask import RobustClassifier"),
        ),
    ),
    Law(
        "nobody imports a face",
        nobody_imports_a_face,
        (("python/leeward/result.py", "from leeward.sklearn import RobustClassifier"),),
    ),
    Law(
        "optional packages stay at home and opponents stay out",
        optional_packages_stay_at_home,
        (
            ("python/leeward/risks.py", "import torch"),
            ("python/leeward/minimize.py", "def f():\n    import cvxpy"),
            ("python/leeward/result.py", "from matplotlib import pyplot"),
        ),
    ),
    Law("a module opens with its idea", modules_open_with_their_idea, (("python/leeward/a.py", "import numpy"),)),
    Law("the library never prints", library_never_prints, (("python/leeward/risks.py", "print(1)"),)),
)
