"""Ctrl-C, Python threads and forked children."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import leeward as lw


def problem(n: int = 20000) -> lw.Robust:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    return lw.Robust(lw.LinearModel(X, np.sign(X[:, 0] + rng.normal(size=n)), l2=1e-3), lw.ChiSquare(radius=1.0))


def fit(seed: int, threads: int = 2) -> bytes:
    algorithm = lw.SGD(lw.Minibatch(4000))
    return lw.minimize(problem(), algorithm=algorithm, max_passes=5, seed=seed, threads=threads).x.tobytes()


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal to itself")
def test_ctrl_c_is_seen_at_once_and_keeps_what_was_reached() -> None:
    # The promise is 50 ms; the best of three leaves out what other programs on the machine take.
    assert min(interrupted_run() for _ in range(3)) < 0.1


def interrupted_run() -> float:
    """Seconds between the signal and the exception of a run in native code, whose result is checked."""
    sent: list[float] = []

    def send() -> None:
        time.sleep(0.4)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    target = problem(2000)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            lw.minimize(target, algorithm=lw.SGD(lw.Minibatch(16), step=1e-3), max_passes=1e9, trace=5_000)
        seen = time.perf_counter()
    finally:
        sender.join()
    result = caught.value.result  # type: ignore[attr-defined]
    assert result.status is lw.Status.INTERRUPTED
    assert len(result.trace) >= 1
    assert result.nit == result.trace.steps[-1]
    assert result.message.startswith("Interrupted")
    return seen - sent[0]


def test_ctrl_c_saves_a_checkpoint_to_go_on_from(tmp_path: Path) -> None:
    code = """
import os, signal, sys, numpy as np, leeward as lw
rng = np.random.default_rng(0)
X = rng.normal(size=(500, 5)); y = np.sign(X[:, 0])
calls = []
def callback(state):
    if state.step >= 200 and sys.argv[2] == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
try:
    r = lw.minimize(lw.LinearModel(X, y, l2=.01), algorithm=lw.SGD(lw.Minibatch(8), step=.1), max_passes=20, callback=callback,
                    checkpoint=sys.argv[1] if sys.argv[1] else None)
    print(r.x.tobytes().hex())
except KeyboardInterrupt as e:
    print(e.result.status.name)
"""

    def run(path: str, mode: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code, path, mode], check=True, capture_output=True, text=True
        ).stdout.strip()

    path = str(tmp_path / "c")
    assert run(path, "interrupt") == "INTERRUPTED"
    assert run(path, "go on") == run("", "go on")


def test_two_threads_of_python_get_the_bits_of_one_after_the_other() -> None:
    alone = [fit(seed) for seed in (1, 2, 3)]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(fit, (1, 2, 3)))
    assert together == alone


def test_one_problem_can_be_fitted_by_two_threads_at_once() -> None:
    shared = problem()
    algorithm = lw.SGD(lw.Minibatch(4000))

    def one(seed: int) -> bytes:
        return lw.minimize(shared, algorithm=algorithm, max_passes=5, seed=seed).x.tobytes()

    alone = [one(1), one(2)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(one, (1, 2))) == alone


def child(queue: multiprocessing.Queue[bytes]) -> None:
    queue.put(fit(4))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_ends_with_the_same_bits() -> None:
    wanted = fit(4)  # starts the parent's thread pool
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    try:
        assert queue.get(timeout=60) == wanted
    finally:
        process.join(10)
        process.kill()
