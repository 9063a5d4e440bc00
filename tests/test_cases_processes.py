"""Cases from practice about processes: copies, seeds, threads, forks and what an import does; named by identifier."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import leeward as lw

# BL-19: (1/2n) |y - Xw - b|^2 + 0.05 |w|^2.
X6 = np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 3], [1, 0, 1], [0, 1, 0], [2, 0, 0]])
Y6 = np.array([11, 13, 8, 10.5, 12, 12])
W6 = np.array([13465 / 41812, 17735 / 20906, -40055 / 41812, 115852 / 10453])


def run(code: str, **environment: str) -> str:
    """What a fresh Python prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_bl_37_every_public_object_is_pickled_and_copied_to_an_equal_one() -> None:
    model = lw.LinearModel(X6, Y6, "squared", l2=0.1)
    result = lw.minimize(lw.Robust(model, lw.CVaR(0.5)))
    things = [
        lw.CVaR(0.1),
        lw.KL(radius=1.0),
        lw.Spectral.extremile(2.0),
        lw.losses.Huber(0.5),
        lw.LBFGS(),
        lw.Box(0, 1),
    ]
    things += [lw.SGD(lw.Minibatch(7), momentum=0.5), lw.Simplex(), lw.ElasticNet(0.1, 0.2), lw.Checkpoint("a")]
    things += [lw.SCSG("growing", 0.25), lw.SVRG(update=lw.AdaBound(upper=3.0)), lw.SARAH(8), lw.STORM(beta=0.5)]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        for thing in things:
            assert pickle.loads(pickle.dumps(thing, protocol)) == thing
            assert copy.deepcopy(thing) == copy.copy(thing) == thing
        twin = pickle.loads(pickle.dumps(result, protocol))
        assert twin.x.tobytes() == result.x.tobytes()
        assert (twin.message, twin.status, len(twin.trace)) == (result.message, result.status, len(result.trace))
        again = pickle.loads(pickle.dumps(lw.Robust(model, lw.CVaR(0.5), groups=[0, 0, 1, 1, 2, 2]), protocol))
        assert again.value(W6) == lw.Robust(model, lw.CVaR(0.5), groups=[0, 0, 1, 1, 2, 2]).value(W6)


@pytest.mark.parametrize("algorithm", [lw.LBFGS(), lw.SGD(lw.Minibatch(64)), lw.Nesterov(lw.Minibatch(64))], ids=repr)
def test_bl_38_the_same_bits_for_any_number_of_threads(algorithm: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 4))
    problem = lw.Robust(lw.LinearModel(X, X[:, 0] + rng.normal(size=9000) > 0, l2=0.01), lw.ChiSquare(radius=0.2))
    state = np.random.get_state()[1].tobytes()  # noqa: NPY002
    fits = [lw.minimize(problem, algorithm=algorithm, max_passes=6, tol=0, threads=t).x.tobytes() for t in (1, 2, 4, 1)]
    assert len(set(fits)) == 1
    assert np.random.get_state()[1].tobytes() == state  # noqa: NPY002


@pytest.mark.parametrize("order", [("sklearn", "leeward"), ("leeward", "sklearn")])
def test_bl_39_any_order_of_imports_works(order: tuple[str, str]) -> None:
    pytest.importorskip("sklearn")
    code = f"""
import {order[0]}, {order[1]}, numpy as np, leeward as lw
from leeward.sklearn import RobustRegressor
X = np.random.default_rng(0).normal(size=(5000, 3))
RobustRegressor("kl", n_jobs=2).fit(X, X[:, 0])
print((X.T @ X).shape)
"""
    assert run(code) == "(3, 3)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_bl_40_a_child_process_fits_like_its_parent(method: str, tmp_path: Any) -> None:
    script = tmp_path / "child.py"
    script.write_text(
        f"""
import multiprocessing, warnings, numpy as np, leeward as lw
warnings.filterwarnings("ignore", category=DeprecationWarning)
def fit(_=None):
    X = np.random.default_rng(0).normal(size=(20000, 4))
    model = lw.LinearModel(X, X[:, 0] + X[:, 1] ** 2 > 1, l2=0.01)
    return lw.minimize(lw.Robust(model, lw.KL(radius=0.1)), threads=2).x.tobytes()
if __name__ == "__main__":
    mine = fit()
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(pool.map(fit, [0, 1]) == [mine, mine])
"""
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.stderr) == ("True", "")


def test_bl_41_wrong_numbers_of_threads_are_named_and_the_environment_is_heard() -> None:
    for wrong, error in ((0, ValueError), (-1, ValueError), (-2, ValueError), (10**6, ValueError), ("two", TypeError)):
        with pytest.raises(error, match="threads must be"):
            lw.minimize(lw.LinearModel(X6, Y6, "squared", l2=0.1), threads=wrong)
    code = "import leeward; print(leeward.build_info()['threads'])"
    assert run(code, OMP_NUM_THREADS="1", LEEWARD_NUM_THREADS="") == "1"
    assert int(run(code, OMP_NUM_THREADS="", LEEWARD_NUM_THREADS="")) <= len(os.sched_getaffinity(0))


def test_bl_42_importing_leaves_floating_point_as_it_was() -> None:
    code = """
import threading
x = 5e-324
before = x / 2 * 4, x * 0.5 == 0.0, x != 0.0
import leeward as lw, numpy as np
lw.minimize(lw.LinearModel(np.eye(3), [0., 1., 2.], "squared", l2=.1))
seen = []
def look():
    seen.append((x / 2 * 4, x * 0.5 == 0.0, x != 0.0, bool(np.float64(3e-308) / 8 > 0), float(np.finfo(float).smallest_subnormal) > 0))
look(); t = threading.Thread(target=look); t.start(); t.join()
print(all(s[:3] == before and all(s[2:]) for s in seen))
"""
    assert run(code) == "True"
