"""A fit on a memory-mapped file larger than its allowance of memory, against the same fit in memory.

    python bench/bench_memmap.py [--rows 10000000] [--columns 50] [--solver lbfgs]

Writes n rows of float32 into a file of a temporary folder, a block at a time, and fits `RobustClassifier` to it in two fresh
processes: on the file (``np.load(mmap_mode="r")``) and on an array in memory. Reports the peak of the resident set (VmHWM: what
the process owns **and** the pages of the file that it holds), that of its own memory (RssAnon), and passes over the data a
second. The default fit must stay below 1 GB resident at no less than half the passes a second of the fit in memory, with the
same coefficients bit for bit.

A solver on small batches of random rows has no run of pages to give back, and keeps more vectors of length n: of it the bench asks
that its own memory (RssAnon) is less than that of the fit in memory by nine tenths of the file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

RESIDENT = 1e9  # bytes
PASSES = 0.5  # of the fit in memory
BLOCK = 100_000


def write(folder: Path, n: int, d: int) -> None:
    """X.npy and y.npy: logistic labels of a planted direction."""
    rng = np.random.default_rng(0)
    w = 2.0 * rng.normal(size=d) / np.sqrt(d)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, d))  # type: ignore[no-untyped-call]
    y = np.empty(n, np.int8)
    for first in range(0, n, BLOCK):
        rows = rng.standard_normal((min(BLOCK, n - first), d), dtype=np.float32)
        X[first : first + len(rows)] = rows
        y[first : first + len(rows)] = rows @ w + rng.logistic(size=len(rows)) > 0
    X.flush()
    np.save(folder / "y.npy", y)


def memory() -> dict[str, int]:
    """Bytes of this process by /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines if line.startswith(("Vm", "Rss"))}


def fit(folder: Path, where: str, solver: str, threads: int | None) -> dict[str, Any]:
    """One fit in this process."""
    from leeward.sklearn import RobustClassifier

    X = np.load(folder / "X.npy", mmap_mode="r" if where == "file" else None)
    y = np.load(folder / "y.npy")
    RobustClassifier().fit(np.eye(40)[:, :3], np.arange(40) % 2)  # imports
    own, ended = [memory()["RssAnon"]], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            own[0] = max(own[0], memory()["RssAnon"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    # Few passes of a solver on batches: its cost a pass is what is measured.
    risk, passes = ("chi_square", None) if solver == "auto" else ("mean", 3.0)
    model = RobustClassifier(risk, solver=solver, max_passes=passes, n_jobs=threads)
    began = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - began
    ended.set()
    watcher.join()
    peak = memory()["VmHWM"]
    return {
        "seconds": seconds,
        "passes": model.result_.passes,
        "resident": peak,
        "own": own[0],
        "gap": (model.gap_ or float("nan")) / abs(model.objective_),
        "coef": model.coef_.tobytes().hex(),
    }


def measured(folder: Path, where: str, options: argparse.Namespace) -> dict[str, Any]:
    """The same in a fresh process."""
    command = [sys.executable, __file__, "--folder", str(folder), "--where", where, "--solver", options.solver]
    if options.threads:
        command += ["--threads", str(options.threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(dir=options.temporary) as name:
        folder = Path(name)
        write(folder, options.rows, options.columns)
        size = (folder / "X.npy").stat().st_size
        print(f"{options.rows} x {options.columns} float32, {size / 1e9:.2f} GB; solver {options.solver}", flush=True)
        print(
            f"{'X':<7}{'seconds':>9}{'passes':>8}{'passes/s':>10}{'resident MB':>13}{'own MB':>8}{'relative gap':>14}"
        )
        best: dict[str, dict[str, Any]] = {}
        for _ in range(options.repeats):
            for where in ("memory", "file"):
                found = measured(folder, where, options)
                rate = found["passes"] / found["seconds"]
                print(
                    f"{where:<7}{found['seconds']:>9.2f}{found['passes']:>8.2f}{rate:>10.2f}"
                    f"{found['resident'] / 1e6:>13.0f}{found['own'] / 1e6:>8.0f}{found['gap']:>14.1e}",
                    flush=True,
                )
                if where not in best or found["seconds"] < best[where]["seconds"]:
                    best[where] = found
    ratio = best["memory"]["seconds"] / best["file"]["seconds"]
    limit, held = RESIDENT, "resident"
    if options.solver != "auto":
        limit, held = best["memory"]["own"] - 0.9 * size, "own"
    checks = {
        f"peak of the {held} memory below {limit / 1e6:.0f} MB": best["file"][held] < limit,
        f"passes a second at least {PASSES:g} of those in memory: {ratio:.2f}": ratio >= PASSES,
        "the same coefficients, bit for bit": best["file"]["coef"] == best["memory"]["coef"],
    }
    for what, held_up in checks.items():
        print(f"{'ok' if held_up else 'FAILED':<7}{what}")
    return 0 if all(checks.values()) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--solver", default="auto", help='"auto" (the default fit, chi-square), or one for risk="mean"')
    parser.add_argument("--threads", type=int)
    parser.add_argument("--repeats", type=int, default=2, help="fits of each kind, of which the faster one counts")
    parser.add_argument("--temporary", help="folder for the file, which is deleted at the end")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--where", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not sys.platform.startswith("linux"):
        sys.exit("skipped: memory is read from /proc")
    if options.where:
        print(json.dumps(fit(options.folder, options.where, options.solver, options.threads)))
        return 0
    return compare(options)


if __name__ == "__main__":
    sys.exit(main())
