"""Threads, forks and signals as a Python program meets them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from leeward import _core
from leeward._threads import thread_request

LIMIT = 60.0  # seconds; a hang ends the test
X = np.sin(np.arange(500_000.0))
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def answer(threads: int) -> float:
    return _core.sum(X, threads)


def in_child(queue: Any) -> None:
    queue.put((answer(2), _core.draws.normal(1, 2, 3, 100).tolist()))


def test_sums_have_the_same_bits_for_any_number_of_threads() -> None:
    for x in (X, X.astype(np.float32)):
        assert len({_core.sum(x, threads) for threads in (1, 2, 3, 16)}) == 1


def test_the_first_position_that_is_not_finite_is_found_for_any_number_of_threads() -> None:
    x = X.copy()
    x[[123_456, 400_000]] = np.nan, np.inf
    assert {_core.first_non_finite(x, threads) for threads in (1, 2, 3)} == {123_456}
    assert _core.first_non_finite(X, 2) == -1
    assert _core.first_non_finite(np.empty(0)) == -1


@posix
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_process_gives_the_same_answer_after_a_parallel_call(method: str) -> None:
    expected = (answer(2), _core.draws.normal(1, 2, 3, 100).tolist())
    context: Any = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=LIMIT) == expected
    finally:
        child.join(LIMIT)
        child.kill()
    assert child.exitcode == 0


@posix
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_while_another_thread_runs_does_not_hang() -> None:
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            answer(3)

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        expected = answer(2)
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(int(LIMIT))
                os._exit(0 if answer(2) == expected else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        busy.join(LIMIT)


def test_two_threads_at_once_get_the_same_answer() -> None:
    expected = answer(1)
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.extend(answer(2) for _ in range(50))) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(LIMIT)
    assert found == [expected] * 150


@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are POSIX's")
def test_ctrl_c_stops_a_native_loop_within_50_ms() -> None:
    # The handler notes when Python saw the signal; the best of a few tries is free of the noise of a busy machine.
    waits = []
    for _ in range(5):
        sent: list[float] = []

        def interrupt(times: list[float] = sent) -> None:
            times.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.1, interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            _core.draws.normal_moments(0, 0, 0, 10**12)  # hours
        waits.append(time.perf_counter() - sent[0])
        timer.join(LIMIT)
    assert min(waits) < 0.05, waits


def test_an_exception_of_a_signal_handler_comes_back_unchanged() -> None:
    class Asked(Exception):
        pass

    def handler(*_: object) -> None:
        raise Asked("by the user")

    if not hasattr(signal, "setitimer"):
        pytest.skip("this system has no interval timer")
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Asked, match="by the user"):
            _core.draws.normal_moments(0, 0, 0, 10**12)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def resolved(environment: dict[str, str]) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "LEEWARD_NUM_THREADS")}
    code = "from leeward import _core; print(_core.resolve_threads(0))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, timeout=LIMIT
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_the_default_number_of_threads_follows_the_environment() -> None:
    assert resolved({"OMP_NUM_THREADS": "4,2"}) == "4"
    assert resolved({"OMP_NUM_THREADS": "4", "LEEWARD_NUM_THREADS": "3"}) == "3"
    assert resolved({"LEEWARD_NUM_THREADS": "two"}) == (
        "ValueError: LEEWARD_NUM_THREADS must be an integer of at least 1, got 'two'"
    )


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_the_default_number_of_threads_follows_the_affinity() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert resolved({}) == "1"
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("threads", "error", "message"),
    [
        (0, ValueError, "threads must be an integer of at least 1, got 0"),
        (-2, ValueError, "threads must be an integer of at least 1, got -2"),
        (10**6, ValueError, "threads must be at most 1024, got 1000000"),
        (True, TypeError, "threads must be an integer of at least 1 or None, got True"),
        (2.0, TypeError, "threads must be an integer of at least 1 or None, got 2.0"),
        ("two", TypeError, "threads must be an integer of at least 1 or None, got 'two'"),
    ],
)
def test_wrong_numbers_of_threads_are_named(threads: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        thread_request(threads)
    assert str(caught.value) == message


@pytest.mark.parametrize(("threads", "asked"), [(None, 0), (1, 1), (np.int64(3), 3), (1024, 1024)])
def test_right_numbers_of_threads_are_passed_on(threads: Any, asked: int) -> None:
    assert thread_request(threads) == asked


def test_more_threads_than_blocks_or_cpus_are_harmless() -> None:
    call: Callable[[int], float] = answer
    assert call(1024) == call(1)
