"""A run that is killed at any moment and taken up again ends with the bits of a run that was left alone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import leeward as lw
from leeward._checkpoint import CheckpointStore

# A run slow enough to be killed in the middle: argv is the checkpoint, the file for the answer, and the algorithm.
SCRIPT = """
import sys, numpy as np, leeward as lw
path, answer, algorithm = sys.argv[1:4]
rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 10)); y = np.sign(X[:, 0] + rng.normal(size=3000))
algorithm = eval(algorithm, {"lw": lw})
risk = lw.CVaR(0.2) if isinstance(algorithm, lw.SGD | lw.Nesterov) else lw.Mean()
problem = lw.Robust(lw.LinearModel(X, y, l2=1e-3), risk)
checkpoint = None if path == "none" else lw.Checkpoint(path, every=0.0)
r = lw.minimize(problem, algorithm=algorithm, max_passes=60, tol=0, checkpoint=checkpoint, trace="pass", threads=1)
t = r.trace
np.savez(answer, x=r.x, fun=r.fun, objective=t.objective, passes=t.passes, losses=t.losses, gap=t.gap, steps=t.steps, nit=r.nit,
         gradients=t.gradients, samples=t.samples)
"""
ALGORITHMS = [
    "lw.SGD(lw.Minibatch(8))",
    "lw.SGD(lw.Minibatch(8), step=0.01, momentum=0.9, average='uniform')",
    "lw.Nesterov(lw.Minibatch(8))",
    "lw.SGD(lw.Minibatch(8), update=lw.AMSGrad())",
    "lw.SGD(lw.Minibatch(8), update=lw.Normalized())",
    "lw.SCSG(inner_batch=2)",
    "lw.SCSG(300, 4, inner='slices', step=0.01, update=lw.Adam(), output='average')",
    "lw.SVRG(2, loopless=True, output='random')",
    "lw.SARAH(inner_batch=2)",
    "lw.STORM(4)",
]


def command(path: Path | str, answer: Path, algorithm: str) -> list[str]:
    return [sys.executable, "-c", SCRIPT, str(path), str(answer), algorithm]


def stamp(path: Path) -> int:
    """Time of the last save, 0 before the first."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kill -9 is a POSIX signal")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_kill_9_and_resume_gives_the_same_bits(algorithm: str, tmp_path: Path) -> None:
    whole, part, path = tmp_path / "whole.npz", tmp_path / "part.npz", tmp_path / "run.ckpt"
    subprocess.run(command("none", whole, algorithm), check=True)
    chance, killed = random.Random(0), 0
    for _ in range(70):
        process = subprocess.Popen(command(path, part, algorithm))
        saves = chance.randrange(
            3, 30
        )  # saves to wait for, so that each attempt gets further whatever the machine's load
        last = stamp(path)
        while process.poll() is None and saves > 0:
            if stamp(path) != last:
                last, saves = stamp(path), saves - 1
            time.sleep(0.0005)
        time.sleep(chance.random() * 0.003)
        if process.poll() is not None:
            break
        killed += 1
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == 0, "the run never ended"
    assert killed >= 2, "too few attempts were killed"
    with np.load(whole) as a, np.load(part) as b:
        for name in a.files:
            assert a[name].tobytes() == b[name].tobytes(), name


def problem() -> lw.Robust:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    return lw.Robust(lw.LinearModel(X, np.sign(X[:, 0] + rng.normal(size=200)), l2=0.01), lw.CVaR(0.3))


def test_a_longer_budget_goes_on_from_the_end(tmp_path: Path) -> None:
    algorithm = lw.SGD(lw.Minibatch(8), step=0.05)
    lw.minimize(problem(), algorithm=algorithm, max_passes=5, checkpoint=tmp_path / "c")
    longer = lw.minimize(problem(), algorithm=algorithm, max_passes=10, checkpoint=tmp_path / "c")
    at_once = lw.minimize(problem(), algorithm=algorithm, max_passes=10)
    assert longer.x.tobytes() == at_once.x.tobytes()
    assert longer.trace.objective.tobytes() == at_once.trace.objective.tobytes()


def test_a_finished_run_is_taken_from_its_checkpoint(tmp_path: Path) -> None:
    algorithm = lw.Nesterov(lw.Minibatch(8))
    first = lw.minimize(problem(), algorithm=algorithm, max_passes=5, checkpoint=tmp_path / "c")
    again = lw.minimize(problem(), algorithm=algorithm, max_passes=5, checkpoint=tmp_path / "c")
    assert again.x.tobytes() == first.x.tobytes()
    assert (again.nfev, again.nit, again.message) == (first.nfev, first.nit, first.message)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"algorithm": lw.SGD(lw.Minibatch(8), step=0.06)}, "algorithm"),
        ({"seed": 1}, "seed"),
        ({"problem": lw.Robust(problem().oracle, lw.CVaR(0.2))}, "problem"),
        ({"w0": np.ones(5)}, "data and starting point"),
        ({"domain": lw.L2Ball(1.0)}, "domain"),
        ({"trace": None}, "trace"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(change: dict[str, object], word: str, tmp_path: Path) -> None:
    settings: dict[str, object] = {"problem": problem(), "algorithm": lw.SGD(lw.Minibatch(8), step=0.05)}
    settings |= {"max_passes": 2, "checkpoint": tmp_path / "c"}
    lw.minimize(**settings)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=f"belongs to another run: its {word} is .*give another path or delete the file"
    ):
        lw.minimize(**(settings | change))  # type: ignore[arg-type]


def test_other_data_of_the_same_shape_are_noticed(tmp_path: Path) -> None:
    first, second = (
        lw.LinearModel(np.random.default_rng(k).normal(size=(50, 3)), np.tile([-1.0, 1.0], 25)) for k in (1, 2)
    )
    algorithm = lw.SGD(lw.Minibatch(8), step=0.1)
    lw.minimize(first, algorithm=algorithm, max_passes=1, checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match="data and starting point"):
        lw.minimize(second, algorithm=algorithm, max_passes=1, checkpoint=tmp_path / "c")


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04broken"])
def test_a_file_that_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(ValueError, match="is not a leeward checkpoint"):
        lw.minimize(problem(), algorithm=lw.SGD(), max_passes=1, checkpoint=tmp_path / "c")


def test_saving_leaves_one_file_and_replaces_it_whole(tmp_path: Path) -> None:
    store = CheckpointStore(lw.Checkpoint(tmp_path / "c", every=0.0), {"a": "1"}, lambda: {"own": np.arange(3)})
    for k in range(3):
        store.save({"k": np.array([k])})
    assert [p.name for p in tmp_path.iterdir()] == ["c"]
    found = CheckpointStore(lw.Checkpoint(tmp_path / "c"), {"a": "1"}, dict).load()
    assert found is not None
    assert int(found["k"][0]) == 2


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        lw.minimize(problem(), algorithm=lw.SGD(), max_passes=1, checkpoint=tmp_path / "nowhere" / "c")


def test_a_run_stopped_between_its_last_step_and_its_record_still_records_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leeward.algorithms import _stochastic

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    problem = lw.Robust(lw.LinearModel(X, np.sign(X[:, 0] + rng.normal(size=60)), l2=1e-2), lw.CVaR(0.5))
    options = {"algorithm": lw.SGD(lw.Minibatch(6), step=0.05), "max_passes": 4, "tol": 0}
    whole = lw.minimize(problem, **options)
    look = _stochastic._Run._look

    class Killed(BaseException):
        pass

    def die_at_the_end(run: _stochastic._Run) -> None:
        if run.descent.steps >= 40:
            raise Killed
        look(run)

    checkpoint = lw.Checkpoint(tmp_path / "run.ckpt", every=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(_stochastic._Run, "_look", die_at_the_end)
        with pytest.raises(Killed):
            lw.minimize(problem, checkpoint=checkpoint, **options)
    part = lw.minimize(problem, checkpoint=checkpoint, **options)
    assert part.x.tobytes() == whole.x.tobytes()
    assert part.trace.objective.tobytes() == whole.trace.objective.tobytes()


@pytest.mark.parametrize("first", [1, 2, 4])
def test_a_run_stopped_where_its_step_is_reviewed_goes_on_with_the_same_bits(tmp_path: Path, first: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(64, 3))
    problem = lw.Robust(lw.LinearModel(X, X @ [1.0, -1.0, 0.5], "huber", l2=0.01), lw.ChiSquare(radius=0.3))
    for algorithm in (lw.SGD(lw.Minibatch(4)), lw.Nesterov(lw.Minibatch(4))):
        whole = lw.minimize(problem, algorithm=algorithm, max_passes=12)
        file = lw.Checkpoint(tmp_path / type(algorithm).__name__, every=0.0)
        lw.minimize(problem, algorithm=algorithm, max_passes=whole.trace.passes[first], checkpoint=file)
        rest = lw.minimize(problem, algorithm=algorithm, max_passes=12, checkpoint=file)
        assert rest.x.tobytes() == whole.x.tobytes()
