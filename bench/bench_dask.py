"""A fit on the workers of a cluster, from a memory-mapped file: the coefficients of one machine, bounded memory, a worker killed.

    python bench/bench_dask.py [--rows 20000000] [--columns 10] [--partitions 20] [--risk chi_square]

Writes n rows of float32 into a file of a temporary folder, fits `leeward.sklearn.RobustClassifier` to it in a fresh process, and
`leeward.dask.RobustClassifier` on a local cluster of two workers with one thread each, which map their partitions of the file: once
undisturbed, once with a worker killed (SIGKILL) in the middle. Asserts that the coefficients agree to 1e-8, that both have the same
certificate, that a worker was really lost, and that the memory of the workers' own (RssAnon, so without the pages of the file) stays below
64 bytes for each of their rows beyond what an idle worker takes.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from bench_memmap import memory, write

CLOSE = 1e-8  # largest difference of coefficients
A_ROW = 64  # bytes of a worker for each of its rows
WORKERS = 2
KILL_AT = 2  # gradient at which a worker is killed


def own_memory(pid: int) -> int:
    """Bytes of RssAnon of a process, 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


class Watch:
    """The peak of the workers' own memory while a block runs, whatever workers come and go."""

    def __init__(self, cluster: Any) -> None:
        self._cluster, self._ended, self.peak = cluster, threading.Event(), 0
        self._thread = threading.Thread(target=self._run)

    def pids(self) -> list[int]:
        found = (getattr(worker, "pid", None) for worker in list(self._cluster.workers.values()))
        return [pid for pid in found if pid]

    def _run(self) -> None:
        while not self._ended.wait(0.02):
            self.peak = max(self.peak, *(own_memory(pid) for pid in self.pids()), 0)

    def __enter__(self) -> Watch:
        self.peak = 0
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._ended.set()
        self._thread.join()


def mapped(path: str, first: int, last: int) -> Any:
    """Rows of a file, where they lie."""
    return np.load(path, mmap_mode="r")[first:last]


def alone(folder: Path, risk: str) -> dict[str, Any]:
    """The fit of one machine, in this process."""
    from leeward.sklearn import RobustClassifier

    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    began = time.perf_counter()
    model = RobustClassifier(risk, l2=1e-3).fit(X, y)
    return {
        "seconds": time.perf_counter() - began,
        "passes": model.result_.passes,
        "w": [*model.coef_.ravel().tolist(), float(model.intercept_[0])],
        "gap": model.gap_ / model.objective_,
        "peak": memory()["VmHWM"],
    }


def on_cluster(folder: Path, risk: str, rows: int, partitions: int, one: dict[str, Any]) -> None:
    import dask
    from distributed import Client, LocalCluster

    import leeward as lw
    from leeward.dask import RobustClassifier

    edges = np.linspace(0, rows, partitions + 1).astype(int).tolist()
    lazy = dask.delayed(mapped, pure=True)
    X = [lazy(str(folder / "X.npy"), a, b) for a, b in pairwise(edges)]
    y = [lazy(str(folder / "y.npy"), a, b) for a, b in pairwise(edges)]
    real, passes = lw.PartitionedModel.gradient, [0]
    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster) as client,
    ):
        RobustClassifier("mean", l2=1.0).fit(np.eye(40)[:, :3], np.arange(40) % 2)  # imports
        watch = Watch(cluster)
        idle = max(own_memory(pid) for pid in watch.pids())
        for case in ("undisturbed", "a worker killed"):
            before = set(client.run(os.getpid).values())
            passes[0] = 0

            def gradient(self: Any, *arguments: Any, case: str = case, before: set[int] = before, **named: Any) -> Any:
                passes[0] += 1
                if case != "undisturbed" and passes[0] == KILL_AT:
                    os.kill(min(before), signal.SIGKILL)
                return real(self, *arguments, **named)

            lw.PartitionedModel.gradient = gradient  # type: ignore[method-assign]
            with Watch(cluster) as watch:
                began = time.perf_counter()
                model = RobustClassifier(risk, l2=1e-3).fit(X, y)
                seconds = time.perf_counter() - began
            lw.PartitionedModel.gradient = real  # type: ignore[method-assign]
            w = np.append(model.coef_.ravel(), model.intercept_)
            apart = float(np.abs(w - one["w"]).max())
            lost = before - set(client.run(os.getpid).values())
            share = rows if lost else rows // WORKERS  # of one worker, at the most
            own, here = f"{watch.peak / 1e6:.0f} MB ({idle / 1e6:.0f} idle)", f"{memory()['VmHWM'] / 1e6:.0f} MB"
            print(
                f"{WORKERS} workers, {case:16s} {seconds:7.1f} s, {model.result_.passes:.1f} passes, "
                f"gap {model.gap_ / model.objective_:.1e} of P, coefficients apart {apart:.1e} of {np.abs(w).max():.2f}; "
                f"a worker's own memory {own}, this process {here} at most; workers lost {len(lost)}",
                flush=True,
            )
            assert apart <= CLOSE, f"coefficients differ by {apart}"
            assert len(lost) == (case != "undisturbed"), f"workers lost: {len(lost)}"
            assert watch.peak <= idle + 150e6 + A_ROW * share, f"a worker took {watch.peak} bytes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--risk", default="chi_square", help="a name that leeward.sklearn knows")
    parser.add_argument("--alone", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        print(json.dumps(alone(Path(given.alone), given.risk)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, given.rows, given.columns)
        size = (folder / "X.npy").stat().st_size
        print(
            f"{given.rows} rows, {given.columns} columns of float32, {size / 1e6:.0f} MB; risk {given.risk}", flush=True
        )
        command = [sys.executable, __file__, "--alone", name, "--risk", given.risk]
        one = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(
            f"one machine                {one['seconds']:7.1f} s, {one['passes']:.1f} passes, gap {one['gap']:.1e} of P; "
            f"{one['peak'] / 1e6:.0f} MB at most, pages of the file included",
            flush=True,
        )
        on_cluster(folder, given.risk, given.rows, given.partitions, one)


if __name__ == "__main__":
    main()
