"""`tune`: which runs it makes, what it chooses, and that the answer depends on nothing but the arguments."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import leeward as lw

FULL = lw.Minibatch(40, replace=False)


def least_squares(n: int = 40) -> lw.LinearModel:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    return lw.LinearModel(X, X @ [1.0, -2.0, 0.5] + rng.normal(size=n), "squared", l2=0.1)


def square(curvature: float = 1.0) -> lw.FunctionOracle:
    """(c/2) w^2 as an oracle: gradient descent with step s multiplies w by 1 - s c."""
    return lw.FunctionOracle(
        lambda w, index: np.full(len(index), 0.5 * curvature * w[0] ** 2),
        lambda w, weights, index: np.array([curvature * w[0] * np.sum(weights)]),
        size=4,
        dim=1,
        convex=True,
    )


def descent() -> lw.SGD:
    return lw.SGD(lw.Minibatch(4, replace=False), average=False)


def test_the_search_tries_decades_then_half_and_double_of_the_best_two_then_the_best_step_with_each_seed() -> None:
    # After ten steps w = (1 - s/2)^10: best at s = 2 of the steps tried, where w = 0. 1 and 0.1 are the best two decades.
    found = lw.tune(square(0.5), descent(), steps=[1e-2, 1e-1, 1.0], w0=[1.0], passes=10, seeds=[7, 8])
    assert [(t.stage, t.step, t.seed) for t in found.trials] == [
        ("coarse", 0.01, 7),
        ("coarse", 0.1, 7),
        ("coarse", 1.0, 7),
        ("fine", 0.5, 7),
        ("fine", 2.0, 7),
        ("fine", 0.05, 7),
        ("fine", 0.2, 7),
        ("repeat", 2.0, 7),
        ("repeat", 2.0, 8),
    ]
    expected = [0.25 * (1.0 - 0.5 * t.step) ** 20 for t in found.trials]
    np.testing.assert_allclose([t.objective for t in found.trials], expected, rtol=1e-12, atol=1e-300)
    assert found.step == 2.0
    assert found.best == lw.SGD(lw.Minibatch(4, replace=False), step=2.0, average=False)
    np.testing.assert_array_equal(found.objectives, [0.0, 0.0])


@pytest.mark.parametrize("best", [1e-9, 1e4])
def test_decades_are_added_while_the_best_is_the_last_one(best: float) -> None:
    found = lw.tune(square(1.0 / best), descent(), w0=[1.0], passes=3, seeds=1)
    assert found.step == pytest.approx(best, rel=1e-12)


def test_given_steps_are_not_added_to_but_for_halves_and_doubles() -> None:
    found = lw.tune(square(1e-4), descent(), steps=[0.1, 1.0], w0=[1.0], passes=3, seeds=1)
    assert found.step == 2.0


def test_runs_that_diverge_are_recorded_and_never_chosen() -> None:
    found = lw.tune(least_squares(), lw.SGD(FULL, average=False), steps=[0.1, 1e3, 1e200], passes=50, seeds=2)
    by_step = {t.step: t for t in found.trials}
    assert by_step[1e3].status.name == "DIVERGED"
    assert by_step[1e200].status.name in ("DIVERGED", "NON_FINITE")
    assert by_step[1e3].objective == by_step[1e200].objective == np.inf
    assert 0.05 <= found.step <= 0.2
    assert found.table().count("DIVERGED") >= 1


def test_losses_of_ones_own_that_overflow_count_as_diverged() -> None:
    quartic = lw.FunctionOracle(
        lambda w, index: np.full(len(index), w[0] ** 4),
        lambda w, weights, index: np.array([4 * w[0] ** 3 * np.sum(weights)]),
        size=4,
        dim=1,
    )
    found = lw.tune(quartic, descent(), steps=[1e-2, 1e90], w0=[1.0], passes=5, seeds=1)
    large = [t for t in found.trials if t.step > 1]
    assert [(t.stage, t.status.name, t.objective) for t in large] == [("coarse", "NON_FINITE", np.inf)]
    assert found.step < 1


def test_when_every_run_diverges_the_error_lists_the_steps() -> None:
    with pytest.raises(lw.LeewardError, match=r"steps 1e\+06 all diverged"):
        lw.tune(least_squares(), lw.SGD(FULL), steps=[1e6], passes=20)


def test_the_answer_does_not_depend_on_threads() -> None:
    problem = lw.Robust(least_squares(), lw.CVaR(0.5))
    tables = [lw.tune(problem, lw.SGD(lw.Minibatch(8)), passes=3, seeds=3, threads=t).to_dict() for t in (1, 2, 3)]
    for other in tables[1:]:
        for name, column in tables[0].items():
            np.testing.assert_array_equal(column, other[name], err_msg=name)


def test_functions_of_ones_own_are_never_called_from_two_threads_at_once() -> None:
    inside, seen, model = threading.Lock(), set(), least_squares()

    def alone(f: Any) -> Any:
        def call(*arguments: Any) -> Any:
            assert inside.acquire(blocking=False)
            seen.add(threading.get_ident())
            time.sleep(1e-4)
            inside.release()
            return f(*arguments)

        return call

    oracle = lw.FunctionOracle(alone(model.losses), alone(model.gradient), model.size, model.dim)
    lw.tune(oracle, lw.SGD(lw.Minibatch(20)), steps=[0.01, 0.1], passes=2, seeds=2, threads=3)
    assert len(seen) == 1


def test_domain_and_start_reach_the_runs() -> None:
    domain = lw.Box(-0.1, 0.1)
    found = lw.tune(least_squares(), lw.SGD(FULL, average=False), steps=[0.1], passes=60, seeds=1, domain=domain)
    result = lw.minimize(least_squares(), algorithm=found.best, domain=domain, max_passes=60, tol=0)
    assert found.objectives[0] == result.fun > lw.minimize(least_squares()).fun + 0.1


def test_the_trace_of_the_runs_can_be_left_out_without_another_answer() -> None:
    settings: dict[str, Any] = {"steps": [0.01, 0.1], "passes": 5, "seeds": 2}
    full, bare = (lw.tune(least_squares(), lw.SGD(lw.Minibatch(8)), trace=t, **settings) for t in ("pass", None))
    assert full.table() == bare.table()
    assert all(len(bare.trials[k].trace) == 2 < len(full.trials[k].trace) for k in range(3))


@pytest.mark.parametrize(
    "algorithm",
    [
        lw.SGD(lw.Minibatch(8), momentum=0.5),
        lw.SGD(lw.Minibatch(8), update=lw.Adam()),
        lw.Nesterov(lw.Minibatch(8)),
        lw.Nesterov(FULL, form="momentum"),
        lw.SVRG(),
        lw.SCSG("growing", 2),
        lw.SCSG(16, 4, inner="slices"),
        lw.SARAH(),
        lw.STORM(8),
    ],
    ids=repr,
)
def test_every_algorithm_with_a_step_can_be_tuned(algorithm: lw.Algorithm) -> None:
    found = lw.tune(least_squares(), algorithm, passes=5, seeds=2)
    assert found.best == dataclasses.replace(algorithm, step=found.step)  # type: ignore[type-var]
    assert found.objectives[0] <= min(t.objective for t in found.trials if t.seed == 0)
    again = lw.minimize(least_squares(), algorithm=found.best, max_passes=5, tol=0)
    assert again.fun == found.objectives[0]


def test_a_wrong_oracle_is_an_error_and_not_a_diverged_run() -> None:
    wrong = lw.FunctionOracle(lambda w, i: np.zeros(2), lambda w, q, i: np.zeros(1), size=4, dim=1)
    with pytest.raises(lw.OracleError, match="shape"):
        lw.tune(wrong, descent())


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"algorithm": lw.LBFGS()}, TypeError, "must have a step"),
        ({"algorithm": "sgd"}, TypeError, "must be an algorithm"),
        ({"steps": []}, ValueError, "at least one step"),
        ({"steps": [0.1, -1.0]}, ValueError, "positive and finite, got -1"),
        ({"steps": "many"}, TypeError, "sequence of numbers"),
        ({"passes": 0}, ValueError, "passes must be positive"),
        ({"seeds": 0}, ValueError, "seeds must be at least 1"),
        ({"seeds": [0.5]}, TypeError, "seeds must hold integers"),
        ({"problem": 3}, TypeError, "problem must be"),
        ({"threads": 0}, ValueError, "threads"),
    ],
)
def test_arguments_without_sense_are_refused(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"problem": least_squares(), "algorithm": lw.SGD()} | settings
    with pytest.raises(error, match=message):
        lw.tune(**arguments)


def test_a_search_pickles_and_its_columns_have_one_entry_a_run() -> None:
    found = lw.tune(least_squares(), lw.SGD(FULL), steps=[0.1, 1e3], passes=3, seeds=2)
    twin = pickle.loads(pickle.dumps(found))
    assert twin.table() == found.table()
    assert {len(column) for column in found.to_dict().values()} == {len(found.trials)}
    assert [t.seed for t in found.repeats] == [0, 1]


def test_the_picture_has_a_point_for_each_run() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found = lw.tune(least_squares(), lw.SGD(FULL), steps=[0.1, 1e200], passes=30, seeds=2)
    ax = found.plot()
    assert sum(len(line.get_xdata()) for line in ax.get_lines()) == len(found.trials)
    assert ax.get_xscale() == "log"
    pyplot.close(ax.figure)


INTERRUPTED = """
import os, signal, threading, time
import numpy as np, leeward as lw
X = np.random.default_rng(0).normal(size=(50_000, 20))
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
began = time.perf_counter()
try:
    lw.tune(lw.LinearModel(X, X[:, 0], "squared", l2=1e-3), lw.SGD(lw.Minibatch(4)), passes=10_000, threads=2)
except KeyboardInterrupt:
    print(time.perf_counter() - began)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_ctrl_c_ends_all_runs_at_their_next_recorded_point() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True, timeout=120)
    assert float(done.stdout) < 30  # one of the runs alone takes far longer
