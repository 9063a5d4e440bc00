"""The laws of the house, as functions from sources to violations.

A law looks at a mapping from path (from the root, with slashes) to text and returns one sentence for each violation. Each
comes with planted sources that break it, so that `test_layers.py` can show that the law is able to fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Sources = Mapping[str, str]

# Which folder of csrc/include/leeward may include which, from the lowest to the highest.
MAY_INCLUDE = {
    "hd": {"hd"},
    "core": {"core", "hd"},
    "oracle": {"oracle", "core", "hd"},
    "risk": {"risk", "core", "hd"},
    "estimator": {"estimator", "oracle", "risk", "core"},
    "descent": {"descent", "estimator", "oracle", "risk", "core"},
}
# What host-and-device code may take from the standard library: no memory, no threads, no streams.
HD_STANDARD = {
    "algorithm",
    "array",
    "bit",
    "cmath",
    "cstddef",
    "cstdint",
    "cstring",
    "limits",
    "type_traits",
    "utility",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
MAX_LINES = 400


@dataclass(frozen=True)
class Law:
    """A sentence, the function that finds its violations, and sources that break it."""

    sentence: str
    violations: Callable[[Sources], list[str]]
    planted: tuple[tuple[str, str], ...]


def cpp(sources: Sources, *folders: str) -> dict[str, str]:
    """Return the C++ sources under the folders of csrc, without their comments."""
    wanted = tuple(f"csrc/{folder}" for folder in folders or ("",))
    ends = (".hpp", ".cpp", ".cu", ".cuh")
    return {p: strip_comments(t) for p, t in sources.items() if p.startswith(wanted) and p.endswith(ends)}


def strip_comments(text: str) -> str:
    """Remove C++ comments and keep the line numbers."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", text)


def matches(sources: Sources, pattern: str, complaint: str) -> list[str]:
    """Return one sentence for each match of the pattern."""
    found = []
    for path, text in sources.items():
        for m in re.finditer(pattern, text, re.MULTILINE):
            line = text.count("\n", 0, m.start()) + 1
            found.append(f"{path}:{line}: {complaint}: {m.group().strip()}")
    return found


def headers_include_lower_layers_only(sources: Sources) -> list[str]:
    found = []
    for path, text in cpp(sources, "include/leeward/").items():
        layer = path.split("/")[3]
        for bracket, name in INCLUDE.findall(text):
            if bracket == '"':
                parts = name.split("/")
                inside = len(parts) == 3 and parts[0] == "leeward"
                if not inside or parts[1] not in MAY_INCLUDE.get(layer, set()):
                    found.append(f"{path}: {layer} may not include {name}")
            elif layer == "hd" and name not in HD_STANDARD:
                found.append(f"{path}: host-and-device code may not include <{name}>")
    return found


def sources_stay_in_one_layer(sources: Sources) -> list[str]:
    found = []
    for path, text in cpp(sources, "src/").items():
        names = [name for bracket, name in INCLUDE.findall(text) if bracket == '"']
        layers = {name.split("/")[1] if name.count("/") == 2 and name.startswith("leeward/") else "?" for name in names}
        highest = max(
            layers, key=lambda layer: list(MAY_INCLUDE).index(layer) if layer in MAY_INCLUDE else 99, default="?"
        )
        if not layers <= MAY_INCLUDE.get(highest, set()) or not layers:
            found.append(f"{path}: a source is the body of a header and includes what its layer may, not {names}")
    return found


def device_code_includes_hd_and_views_only(sources: Sources) -> list[str]:
    return [
        f"{path}: device code may not include {name}"
        for path, text in cpp(sources, "cuda/").items()
        for bracket, name in INCLUDE.findall(text)
        if bracket == '"' and not name.startswith("leeward/hd/") and name != "leeward/core/views.hpp"
    ]


def only_bindings_know_python(sources: Sources) -> list[str]:
    core = cpp(sources, "include/", "src/", "cuda/")
    return matches(core, r"Python\.h|pybind11|\bPy[A-Z]\w+\(|\bpy::|bindings/", "only csrc/bindings knows Python")


def only_parallel_names_threads(sources: Sources) -> list[str]:
    others = {p: t for p, t in cpp(sources).items() if p != "csrc/src/parallel.cpp"}
    others = {
        p: t.replace('_Pragma("omp simd")', "") for p, t in others.items()
    }  # a hint to the vectoriser: no threads
    names = (
        r"#\s*pragma\s+omp|_Pragma\(\s*\"omp|\bomp_\w+|<omp\.h>|<thread>|std::j?thread\b|std::async\b|pthread_create"
    )
    return matches(others, names, "only csrc/src/parallel.cpp names OpenMP or std::thread")


def core_never_prints(sources: Sources) -> list[str]:
    prints = (
        r"<iostream>|std::(cout|cerr|clog)\b|\b(printf|fprintf|puts|fputs|putchar|perror)\s*\(|py::print|std::print"
    )
    return matches(cpp(sources), prints, "the core never prints")


def nothing_may_change_the_bits(sources: Sources) -> list[str]:
    code = cpp(sources)
    code |= {p: t for p, t in sources.items() if p in ("CMakeLists.txt", "CMakePresets.json", "pyproject.toml")}
    loose = (
        r"reduction\s*\((?!\s*\|\s*:)|atomic<\s*(double|float)|std::(reduce|transform_reduce|fma)\b|_fmadd_|__builtin_fma"
        r"|-ffast-math|-Ofast|-march=native|-funsafe-math|-fassociative-math|-ffp-contract=(on|fast)"
    )
    return matches(code, loose, "sums and products have one order and no contraction")


def files_hold_one_idea(sources: Sources) -> list[str]:
    folders = ("csrc/", "python/", "tests/", "bench/")
    found = []
    for path, text in sources.items():
        lines = text.count("\n")
        if path.startswith(folders) and path.endswith((".hpp", ".cpp", ".cu", ".py", ".sh")) and lines > MAX_LINES:
            found.append(f"{path}: {lines} lines; past {MAX_LINES} a file is two ideas")
    return found


def headers_open_with_their_idea(sources: Sources) -> list[str]:
    return [
        f"{path}: a header opens with what it computes"
        for path, text in sources.items()
        if path.startswith("csrc/include/") and not text.startswith("//")
    ]


# Split, so that this file does not hold the words it looks for.
ELSEWHERE = "|".join(
    [
        r"/wo" + r"rk/",
        r"\bissue" + r"s? #?\d",
        r"\b(design|mathematics|contract|baselines|cases|errata|models)" + r"\.md\b",
        r"\bsub-?" + r"agents?\b",
        r"\bClau" + r"de\b",
        r"\bAnthro" + r"pic\b",
        r"\blanguage mod" + r"els?\b",
        r"\bthis ses" + r"sion\b",
        r"\bTO" + r"DO\b",
        r"\bFIX" + r"ME\b",
    ]
)


def project_speaks_of_itself_alone(sources: Sources) -> list[str]:
    return matches(sources, ELSEWHERE, "the project speaks of itself alone")


CPP_LAWS = (
    Law(
        "a header includes its own layer and the ones below it",
        headers_include_lower_layers_only,
        (
            ("csrc/include/leeward/core/a.hpp", '#include "leeward/risk/risk.hpp"'),
            ("csrc/include/leeward/risk/a.hpp", '#include "leeward/oracle/oracle.hpp"'),
            ("csrc/include/leeward/estimator/a.hpp", '#include "leeward/descent/driver.hpp"'),
            ("csrc/include/leeward/hd/a.hpp", '#include "leeward/core/views.hpp"'),
            ("csrc/include/leeward/hd/a.hpp", "#include <vector>"),
            ("csrc/include/leeward/hd/a.hpp", '#include "philox.hpp"'),
            ("csrc/include/leeward/elsewhere/a.hpp", '#include "leeward/core/views.hpp"'),
        ),
    ),
    Law(
        "a source includes what the layer of its header may",
        sources_stay_in_one_layer,
        (
            ("csrc/src/a.cpp", '#include "leeward/risk/cvar.hpp"\n#include "leeward/oracle/linear.hpp"'),
            ("csrc/src/a.cpp", '#include "leeward/risk/cvar.hpp"\n#include "local.hpp"'),
            ("csrc/src/a.cpp", "#include <vector>"),
        ),
    ),
    Law(
        "device code includes host-and-device code and views",
        device_code_includes_hd_and_views_only,
        (("csrc/cuda/a.cu", '#include "leeward/core/workspace.hpp"'),),
    ),
    Law(
        "only the bindings know Python",
        only_bindings_know_python,
        (
            ("csrc/src/a.cpp", "#include <pybind11/numpy.h>"),
            ("csrc/include/leeward/core/a.hpp", '#include "../bindings/common.hpp"'),
            ("csrc/include/leeward/core/a.hpp", "if (PyErr_CheckSignals() != 0) throw 1;"),
        ),
    ),
    Law(
        "one file names OpenMP and std::thread",
        only_parallel_names_threads,
        (
            ("csrc/src/a.cpp", "#pragma omp parallel for"),
            ("csrc/src/a.cpp", '_Pragma("omp parallel for")'),
            ("csrc/bindings/a.cpp", "#include <thread>"),
            ("csrc/include/leeward/core/a.hpp", "std::thread t(f);"),
        ),
    ),
    Law(
        "the core never prints",
        core_never_prints,
        (
            ("csrc/src/a.cpp", 'std::cout << "here";'),
            ("csrc/bindings/a.cpp", 'py::print("here");'),
            ("csrc/src/a.cpp", 'printf("%d", 1);'),
        ),
    ),
    Law(
        "nothing may change the bits",
        nothing_may_change_the_bits,
        (
            ("csrc/src/parallel.cpp", "#pragma omp parallel for reduction(+ : s)"),
            ("csrc/src/a.cpp", "s = std::fma(a, b, s);"),
            ("csrc/src/a.cpp", "std::atomic<double> total;"),
            ("CMakeLists.txt", "target_compile_options(core PUBLIC -ffast-math)"),
        ),
    ),
    Law(
        "a file holds one idea",
        files_hold_one_idea,
        (("csrc/src/a.cpp", "\n" * (MAX_LINES + 1)), ("tests/test_a.py", "x = 1\n" * (MAX_LINES + 1))),
    ),
    Law(
        "a header opens with its idea",
        headers_open_with_their_idea,
        (("csrc/include/leeward/core/a.hpp", "#pragma once\n// late"),),
    ),
    Law(
        "the project speaks of itself alone",
        project_speaks_of_itself_alone,
        (
            ("docs/a.md", "As asked in iss" + "ue 12."),
            ("python/leeward/a.py", "# read /wo" + "rk/notes"),
            ("csrc/src/a.cpp", "// TO" + "DO later"),
        ),
    ),
)
