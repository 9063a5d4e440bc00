"""Where Python and the core meet: shared memory, lifetimes, changes during a call, exceptions, interrupts, forks, threads."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import leeward as lw

SANITIZED = bool(os.environ.get("LEEWARD_SANITIZED"))


def table(n: int = 200, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, (X[:, 0] + rng.standard_normal(n) > 0).astype(float)


def test_results_may_not_be_written_over_what_is_read() -> None:
    X, y = table(4)
    model = lw.LinearModel(X, y)
    w, q = np.ones(4), np.arange(4.0)
    for call in (
        lambda: model.losses(w, out=w),
        lambda: model.gradient(w, q, out=w),
        lambda: model.gradient(w, q, out=q),
    ):
        with pytest.raises(ValueError, match="out must not share memory with w or weights"):
            call()
    assert (w.tolist(), q.tolist()) == ([1.0] * 4, [0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "risk", [lw.CVaR(0.3), lw.KL(radius=0.2), lw.ChiSquare(penalty=1.0), lw.Spectral.extremile(2.0)]
)
def test_weights_may_be_written_over_the_losses(risk: lw.Risk) -> None:
    losses = np.random.default_rng(0).standard_normal((3, 50))
    apart = risk.solve(losses).weights
    over = risk.solve(losses, out=losses)
    assert over.weights is losses
    assert losses.tobytes() == apart.tobytes()


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_a_model_keeps_its_data_and_gives_them_back(kind: Any) -> None:
    X, y = table()
    data = kind(X)
    held = weakref.ref(data.data.base if kind is not np.array and data.data.base is not None else data)
    model = lw.LinearModel(data, y)
    twin = model.smoothed(0.1) if not model.smooth else lw.Robust(model, lw.CVaR(0.5))
    before = model.losses(np.ones(4))
    del data
    gc.collect()
    ballast = [np.full(X.shape, np.nan) for _ in range(20)]
    np.testing.assert_array_equal(model.losses(np.ones(4)), before)
    del model, twin
    gc.collect()
    assert held() is None
    assert len(ballast) == 20


@pytest.mark.skipif(SANITIZED, reason="the sanitizer keeps freed memory for a while")
def test_thousands_of_calls_do_not_grow_the_process() -> None:
    resource = pytest.importorskip("resource")
    X, y = table()
    model, risk, w = lw.LinearModel(X, y), lw.KL(radius=0.1), np.ones(4)

    def calls(count: int) -> None:
        for _ in range(count):
            q = risk.solve(model.losses(w)).weights
            model.gradient(w, q)
            with pytest.raises(ValueError, match="nan"):
                risk([np.nan])

    calls(500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls(3000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096  # kilobytes


class Stop(Exception):
    pass


ALGORITHMS = [lw.LBFGS(), lw.SGD(lw.Minibatch(8)), lw.Nesterov(lw.Minibatch(8)), lw.SGD(lw.Minibatch(8), step=0.1)]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=repr)
@pytest.mark.parametrize("where", ["losses", "gradient", "callback"])
@pytest.mark.parametrize("raised", [Stop("mine"), KeyError(3), SystemExit(4), lw.OracleError("mine"), StopIteration()])
def test_an_exception_of_user_code_comes_back_as_the_same_object(
    where: str, raised: BaseException, algorithm: Any
) -> None:
    calls = {"losses": 0, "gradient": 0, "callback": 0}

    def count(name: str) -> None:
        calls[name] += 1
        if name == where and calls[name] >= 3:
            raise raised

    def losses(w: Any, index: Any) -> Any:
        count("losses")
        return np.cosh(w[0] - index / 10)

    def gradient(w: Any, weights: Any, index: Any) -> Any:
        count("gradient")
        return np.array([weights @ np.sinh(w[0] - index / 10)])

    oracle = lw.FunctionOracle(losses, gradient, 20, 1, convex=True)
    with pytest.raises(type(raised)) as caught:
        lw.minimize(
            oracle, algorithm=algorithm, max_passes=100, tol=0, trace="step", callback=lambda state: count("callback")
        )
    assert caught.value is raised


def test_an_oracle_may_fail_and_be_asked_again() -> None:
    fail = [True]

    def losses(w: Any, index: Any) -> Any:
        if fail[0]:
            raise Stop
        return np.full(len(index), w[0])

    oracle = lw.FunctionOracle(losses, lambda w, q, i: np.array([q.sum()]), 5, 1)
    for _ in range(3):
        with pytest.raises(Stop):
            oracle.losses([2.0])
    fail[0] = False
    assert oracle.losses([2.0]).tolist() == [2.0] * 5


def test_a_callback_that_changes_what_it_is_given_is_refused() -> None:
    X, y = table()

    def callback(state: lw.State) -> None:
        state.w[0] = 1e9

    with pytest.raises(ValueError, match="read-only"):
        lw.minimize(lw.LinearModel(X, y, l2=0.1), callback=callback)


def test_a_checkpoint_that_cannot_be_saved_is_refused_before_the_run(tmp_path: Path) -> None:
    calls = []
    with pytest.raises(FileNotFoundError, match=r"the checkpoint's folder .*nowhere' does not exist"):
        lw.minimize(lw.LinearModel(*table()), checkpoint=tmp_path / "nowhere" / "run", callback=calls.append)
    if os.name == "posix" and os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(PermissionError, match="locked' cannot be written to"):
            lw.minimize(lw.LinearModel(*table()), checkpoint=tmp_path / "locked" / "run", callback=calls.append)
    assert calls == []


@pytest.mark.skipif(os.name != "posix" or SANITIZED, reason="sends a POSIX signal; start-up is slow under a sanitizer")
@pytest.mark.parametrize(
    "algorithm", ["lw.LBFGS()", "lw.SGD(lw.Minibatch(64), step=1e-6)", "lw.Nesterov(lw.Minibatch(64))"]
)
def test_ctrl_c_from_outside_ends_a_run_and_keeps_what_was_reached(algorithm: str) -> None:
    code = f"""
import sys, numpy as np, leeward as lw
rng = np.random.default_rng(0)
X = rng.normal(size=(20000, 30))
problem = lw.Robust(lw.LinearModel(X, rng.integers(0, 2, 20000), "hinge", l2=1e-6), lw.CVaR(0.3))
told = []
def callback(state):
    if not told:
        told.append(print("running", flush=True))
try:
    lw.minimize(problem, algorithm={algorithm}, max_passes=1e9, tol=0, trace="step" if "LBFGS" in {algorithm!r} else 50,
                callback=callback)
    print("ended")
except KeyboardInterrupt as stop:
    print(stop.result.status.name, np.isfinite(stop.result.x).all())
"""
    child = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "running\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=30)
    finally:
        child.kill()
    assert out in ("INTERRUPTED True\n", "ended\n" if "LBFGS" in algorithm else "")
    assert child.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_during_a_fit_of_another_thread_answers() -> None:
    X, y = table(20000, 10)
    problem = lw.Robust(lw.LinearModel(X, y, l2=1e-3), lw.KL(radius=0.1))
    wanted = problem.value(np.ones(11), threads=2)
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            problem.evaluate(np.ones(11), threads=2)

    worker = threading.Thread(target=busy)
    worker.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if problem.value(np.ones(11), threads=2) == wanted else 1)
            end = time.monotonic() + 30
            while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
                time.sleep(0.01)
            if done == (0, 0):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            assert done == (child, 0)
    finally:
        stop.set()
        worker.join()


def test_one_model_serves_many_threads_with_the_bits_of_one() -> None:
    X, y = table(3000, 5)
    model, risk = lw.LinearModel(X, y), lw.ChiSquare(radius=0.5)
    points = np.random.default_rng(1).standard_normal((8, 6))

    def answer(w: np.ndarray) -> bytes:
        q = risk.solve(model.losses(w)).weights  # the scores that a gradient may reuse belong to another thread's w
        return model.gradient(w, q).tobytes()

    wanted = [answer(w) for w in points]
    wrong: list[int] = []

    def work(k: int) -> None:
        wrong.extend(k for _ in range(20) if answer(points[k]) != wanted[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
