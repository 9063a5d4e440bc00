"""User functions in awkward company: other threads, a fork, Ctrl-C, solves inside a solve, and pullbacks that are shared."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import leeward as lw

N, D = 200, 4
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((N, D)), RNG.standard_normal(N)


def losses(w, index):
    return 0.5 * (A[index] @ w - B[index]) ** 2


def gradient(w, weights, index):
    return (weights * (A[index] @ w - B[index])) @ A[index]


def made(losses=losses, gradient=gradient, **settings):
    return lw.FunctionOracle(losses, gradient, N, D, **({"l2": 0.1, "convex": True} | settings))


def solve(oracle, seed=0):
    sgd = lw.SGD(lw.Minibatch(16), step=0.05, momentum=0.5)
    return lw.minimize(lw.Robust(oracle, lw.CVaR(0.5)), algorithm=sgd, seed=seed, max_passes=20, tol=0)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("solves", [2, 6])
def test_solves_in_threads_have_the_bits_of_solves_one_after_the_other(share, solves):
    # With a shared oracle the threads compete for its arguments, more of them than there are sets kept.
    shared = made()
    expected = [solve(made(), seed).x for seed in range(solves)]
    found: list = [None] * solves
    gate = threading.Barrier(solves)

    def work(seed):
        gate.wait()
        found[seed] = solve(shared if share else made(), seed).x

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(solves)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    np.testing.assert_array_equal(found, expected)


def test_a_function_may_solve_a_problem_of_its_own_with_the_same_oracle():
    depth = []

    def nested(w, index):
        if not depth:
            depth.append(1)
            before = index.copy(), w.copy()
            inner = solve(oracle, seed=5)
            assert (index == before[0]).all()
            assert (w == before[1]).all()
            np.testing.assert_array_equal(inner.x, solve(made(), seed=5).x)
            depth.pop()
        return losses(w, index)

    oracle = made(losses=nested)
    short = lw.SGD(lw.Minibatch(N, replace=False), step=0.05)
    outer, plain = (
        lw.minimize(lw.Robust(o, lw.CVaR(0.5)), algorithm=short, max_passes=3, tol=0).x for o in (oracle, made())
    )
    np.testing.assert_array_equal(outer, plain)


def test_from_vjp_calls_the_function_once_for_losses_and_gradient():
    calls = []

    def fun(w, index):
        calls.append(index.size)
        residual = A[index] @ w - B[index]
        return 0.5 * residual**2, lambda weights: (weights * residual) @ A[index]

    oracle = lw.from_vjp(fun, N, D, l2=0.1, convex=True)
    sgd = lw.SGD(lw.Minibatch(16), step=0.05)
    result, twin = (lw.minimize(o, algorithm=sgd, max_passes=20, tol=0) for o in (oracle, made()))
    np.testing.assert_array_equal(result.x, twin.x)
    assert calls.count(16) == result.nit == 250
    # Full evaluations: one at each recorded point, losses and gradient together.
    assert calls.count(N) == len(result.trace)
    calls.clear()
    full = lw.minimize(oracle, algorithm=lw.LBFGS(), tol=1e-8)
    assert len(calls) * N <= full.nfev + N


def test_pullbacks_of_one_thread_do_not_serve_another():
    calls, ready = [], threading.Barrier(2)

    def fun(w, index):
        calls.append(threading.get_ident())
        residual = A[index] @ w - B[index]
        return 0.5 * residual**2, lambda weights: (weights * residual) @ A[index]

    oracle = lw.from_vjp(fun, N, D)

    def work(shift):
        w, q = np.full(D, shift), np.ones(N)
        oracle.losses(w)
        ready.wait()
        np.testing.assert_array_equal(oracle.gradient(w, q), gradient(w, q, np.arange(N)))

    workers = [threading.Thread(target=work, args=(shift,)) for shift in (1.0, 1.0)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(calls) == 2
    assert len(set(calls)) == 2


def test_a_pullback_is_let_go_before_the_next_call():
    # What a pullback holds (a graph of the whole batch) must not be there twice.
    alive, most = set(), []

    class Pullback:
        def __init__(self, batch):
            self.batch = batch
            alive.add(id(self))
            most.append(len(alive))

        def __call__(self, weights):
            return gradient(np.zeros(D), weights, self.batch)

        def __del__(self):
            alive.discard(id(self))

    def fun(w, index):
        return losses(w, index), Pullback(index.copy())

    oracle = lw.from_vjp(fun, N, D)
    for k in range(5):
        oracle.losses(np.full(D, float(k)))
    oracle.gradient(np.full(D, 4.0), np.ones(N))
    assert max(most) == 1
    assert not alive


@pytest.mark.parametrize("kind", ["functions", "vjp", "pullback", "sampler"])
def test_an_oracle_that_its_own_functions_know_is_collected(kind):
    class Model:
        oracle: lw.Oracle

        def losses(self, w, index):
            return losses(w, index)

        def gradient(self, w, weights, index):
            return gradient(w, weights, index)

        def fun(self, w, index):
            return losses(w, index), self.pullback

        def pullback(self, weights):
            return np.zeros(D)

        def sample(self, draws):
            return draws.index

    model = Model()
    seen = weakref.ref(model)
    if kind == "functions":
        model.oracle = made(model.losses, model.gradient)
    elif kind == "sampler":
        model.oracle = lw.SamplerOracle(model.sample, losses, gradient, D, evaluation=N, population=N)
    else:
        model.oracle = lw.from_vjp(model.fun, N, D)
    solve(model.oracle)
    if kind == "pullback":
        model.oracle.losses(np.zeros(D))
    gc.collect()
    assert seen() is model
    del model
    gc.collect()
    assert seen() is None


def test_a_torch_module_is_trained_with_one_forward_pass_a_batch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(D, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    X, y = torch.from_numpy(A), torch.from_numpy(B)
    shapes = {name: p.shape for name, p in net.named_parameters()}
    start = torch.nn.utils.parameters_to_vector(net.parameters()).detach().numpy()
    passes = []

    def fun(w, index):
        passes.append(index.size)
        flat = torch.tensor(w, requires_grad=True)
        parts = flat.split([shape.numel() for shape in shapes.values()])
        weights = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
        rows = torch.tensor(index)
        values = 0.5 * (torch.func.functional_call(net, weights, X[rows])[:, 0] - y[rows]) ** 2

        def pullback(q):
            return torch.autograd.grad(values, flat, torch.tensor(q))[0].numpy()

        return values.detach().numpy(), pullback

    from leeward.testing import check_oracle

    oracle = lw.from_vjp(fun, N, start.size)
    check_oracle(oracle)
    passes.clear()
    result = lw.minimize(oracle, start, lw.SGD(lw.Minibatch(20), step=0.05), max_passes=10, tol=0)
    assert passes.count(20) == result.nit == 100
    assert passes.count(N) == len(result.trace)
    assert result.fun < 0.95 * oracle.losses(start).mean()


FORK = """
import os, sys, threading, time, warnings
import numpy as np, leeward as lw
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
A, b = rng.standard_normal((500, 3)), rng.standard_normal(500)
big = lw.LinearModel(rng.standard_normal((50_000, 20)), rng.standard_normal(50_000), "squared", l2=0.1)
oracle = lw.FunctionOracle(
    lambda w, i: 0.5 * (A[i] @ w - b[i]) ** 2, lambda w, q, i: (q * (A[i] @ w - b[i])) @ A[i], 500, 3, l2=0.1, convex=True)
def solve():
    return lw.minimize(lw.Robust(oracle, lw.CVaR(0.5)), algorithm=lw.SGD(lw.Minibatch(16), step=0.05), max_passes=20, tol=0).x
expected, model = solve(), lw.minimize(big, threads=2).x  # the pool of the parent has started
stop = False
def busy():
    while not stop:
        solve()
threads = [threading.Thread(target=busy) for _ in range(2)]
for t in threads: t.start()
time.sleep(0.1)
codes = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        same = np.array_equal(solve(), expected) and np.array_equal(lw.minimize(big, threads=2).x, model)
        os._exit(0 if same else 3)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop = True
for t in threads: t.join()
print(codes)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_solve_in_a_forked_child_ends_with_the_same_bits():
    # Other threads of the parent are inside the oracle while it forks.
    done = subprocess.run([sys.executable, "-c", FORK], check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == str([0] * 5)


INTERRUPT = """
import ctypes, os, signal, sys, threading, time
import numpy as np, leeward as lw
n, d = 200, 4
rng = np.random.default_rng(0)
A, b = rng.standard_normal((n, d)), rng.standard_normal(n)
began = []
def slow(answer):
    def slowly(*arguments):
        result = answer(*arguments)
        began.append(time.perf_counter())
        threading.Thread(target=lambda: (time.sleep(0.03), os.kill(os.getpid(), signal.SIGINT))).start()
        ctypes.CDLL(None).usleep(100_000)  # runs no Python code, and goes on after a signal or ends early
        return result
    return slowly
def same(f):
    return f
def losses(w, index):
    return 0.5 * (A[index] @ w - b[index]) ** 2
def gradient(w, q, index):
    return (q * (A[index] @ w - b[index])) @ A[index]
def fun(w, index):
    w, index = w.copy(), index.copy()
    return losses(w, index), wrap["pullback"](lambda q: gradient(w, q, index))
wrap = dict.fromkeys(("losses", "gradient", "fun", "pullback"), same)
wrap[sys.argv[1]] = slow
if sys.argv[1] in ("losses", "gradient"):
    oracle = lw.FunctionOracle(wrap["losses"](losses), wrap["gradient"](gradient), n, d)
else:
    oracle = lw.from_vjp(wrap["fun"](fun), n, d)
for attempt in range(3):
    began.clear()
    try:
        lw.minimize(oracle, algorithm=lw.SGD(lw.Minibatch(8), step=0.01), max_passes=1e6, tol=0)
    except KeyboardInterrupt as error:
        print(time.perf_counter() - began[0] - 0.1, len(began))
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
@pytest.mark.parametrize("kind", ["losses", "gradient", "fun", "pullback"])
def test_ctrl_c_during_a_slow_function_ends_the_run_when_it_returns(kind):
    # Less than 50 ms after the function has returned, with room for other programs; and it is not called again.
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT, kind], check=True, capture_output=True, text=True, timeout=60
    )
    late, calls = zip(*(map(float, line.split()) for line in done.stdout.splitlines()), strict=True)
    assert len(late) == 3
    assert statistics.median(late) < 0.1
    assert set(calls) <= {1.0, 2.0}


def overflowing(**settings):
    """Losses exp(a.w - b) - a.w, which leave the range of doubles where a step is far too large."""

    def values(w, index):
        with np.errstate(over="ignore"):
            return np.exp(A[index] @ w - B[index]) - A[index] @ w

    def slopes(w, weights, index):
        with np.errstate(over="ignore", invalid="ignore"):
            return (weights * (np.exp(A[index] @ w - B[index]) - 1.0)) @ A[index]

    return made(values, slopes, **settings)


@pytest.mark.parametrize(
    "algorithm",
    [
        lw.SGD(lw.Minibatch(8), step=100.0),
        lw.SGD(lw.Minibatch(8), step=1e3, momentum=0.9),
        lw.Nesterov(lw.Minibatch(8), step=100.0),
        lw.SCSG(batch=64, inner_batch=8, step=1e3),
        lw.SVRG(inner_batch=8, step=1e5),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["exponential", "squares"])
def test_a_run_that_leaves_the_range_of_the_functions_ends_at_its_last_good_point(algorithm, kind):
    oracle = overflowing() if kind == "exponential" else made()
    with np.errstate(all="ignore"), pytest.warns(lw.ConvergenceWarning):
        result = lw.minimize(oracle, algorithm=algorithm, max_passes=2000)
    assert result.status in (lw.Status.NON_FINITE, lw.Status.DIVERGED)
    assert "too large" in result.message
    assert np.isfinite(result.fun)
    assert np.isfinite(result.x).all()


@pytest.mark.parametrize("algorithm", [None, lw.LBFGS(), lw.SGD(lw.Minibatch(8)), lw.SCSG()], ids=repr)
def test_default_steps_find_their_way_back_into_the_range_of_the_functions(algorithm):
    start = np.full(D, 3.0)
    result = lw.minimize(overflowing(), start, algorithm=algorithm, max_passes=40, tol=0)
    best = lw.minimize(overflowing(), algorithm=lw.LBFGS(), tol=1e-10).fun
    assert result.fun < best + 0.05 * abs(best)


def test_an_infinite_loss_at_the_start_is_an_error_that_names_the_sample():
    with pytest.raises(lw.InfiniteError, match="must return finite numbers, got inf for sample"):
        lw.minimize(overflowing(), np.full(D, 1e5), lw.SGD(lw.Minibatch(8), step=0.1))


def test_a_nan_in_the_middle_of_a_run_is_an_error():
    def spoiled(w, index):
        return np.where((index == 7) & (abs(w[0]) > 0), np.nan, losses(w, index))

    with pytest.raises(lw.OracleError, match="got nan for sample 7") as caught:
        lw.minimize(made(losses=spoiled), algorithm=lw.SGD(lw.Minibatch(8), step=0.1), max_passes=10)
    assert not isinstance(caught.value, lw.InfiniteError)
    error: Any = caught.value
    assert error.result.status is lw.Status.INTERRUPTED


@pytest.mark.parametrize("algorithm", [lw.SGD(lw.Minibatch(8)), lw.LBFGS(), lw.Nesterov(lw.Minibatch(8))], ids=repr)
def test_an_exception_of_a_function_brings_what_was_reached(algorithm):
    class Slotted(Exception):
        __slots__ = ()

    for kind in (ZeroDivisionError, Slotted):
        seen = []

        def failing(w, index, seen=seen, kind=kind):
            seen.append(losses(w, index).mean())
            if len(seen) > 60 or (len(seen) > 3 and isinstance(algorithm, lw.LBFGS)):
                raise kind("broken")
            return losses(w, index)

        with pytest.raises(kind, match="broken") as caught:
            lw.minimize(made(losses=failing), algorithm=algorithm, max_passes=1000, tol=1e-15)
        error: Any = caught.value
        result = error.result
        assert result.status is lw.Status.INTERRUPTED
        assert f"nterrupted by {kind.__name__}" in result.message
        assert np.isfinite(result.fun)
        assert len(result.trace) >= 1
