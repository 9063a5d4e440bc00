"""Data in a memory-mapped file: the same bits as in memory, no copy, and pages that are given back behind each pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leeward as lw
from leeward._mapped import give_back, is_mapped

N, D = 60_000, 20  # some megabytes: more than one stretch of pages


def table(dtype: Any = np.float32) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).astype(dtype)
    return X, (X @ rng.normal(size=D) + rng.logistic(size=N) > 0).astype(float)


def mapped(folder: Path, X: Any, mode: Any = "r") -> Any:
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode=mode)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_fit_on_a_mapped_file_has_the_bits_of_a_fit_in_memory(dtype: Any, mode: str, tmp_path: Path) -> None:
    X, y = table(dtype)
    fits = [
        lw.minimize(lw.Robust(lw.LinearModel(data, y, l2=1e-3), lw.ChiSquare(radius=0.2)), threads=threads)
        for data, threads in ((X, 1), (mapped(tmp_path, X, mode), 1), (mapped(tmp_path, X, mode), 3))
    ]
    assert fits[0].x.tobytes() == fits[1].x.tobytes() == fits[2].x.tobytes()
    assert fits[0].gap == fits[1].gap == fits[2].gap


@pytest.mark.parametrize("algorithm", [lw.SGD(lw.Minibatch(500)), lw.Nesterov(lw.Minibatch(20_000))], ids=repr)
def test_batches_from_a_mapped_file_have_the_bits_of_those_in_memory(algorithm: lw.Algorithm, tmp_path: Path) -> None:
    X, y = table()
    fits = [
        lw.minimize(lw.LinearModel(data, y, l2=1e-2), algorithm=algorithm, max_passes=2).x.tobytes()
        for data in (X, mapped(tmp_path, X))
    ]
    assert fits[0] == fits[1]


@pytest.mark.parametrize("cut", [np.s_[:], np.s_[1000:], np.s_[::2], np.s_[::-1], np.s_[:, 3:]], ids=str)
def test_views_of_a_mapped_file_are_read_where_they_lie(cut: Any, tmp_path: Path) -> None:
    X, y = table()
    X_mapped = mapped(tmp_path, X)[cut]
    y = y[: len(X_mapped)]
    model, twin = lw.LinearModel(X_mapped, y), lw.LinearModel(X[cut], y)
    assert np.shares_memory(model._X, X_mapped)
    w = np.linspace(-1, 1, model.dim)
    q = np.full(model.size, 1 / model.size)
    some = np.random.default_rng(1).integers(0, model.size, 20_000)
    assert model.losses(w).tobytes() == twin.losses(w).tobytes()
    assert model.gradient(w, q).tobytes() == twin.gradient(w, q).tobytes()
    assert model.losses(w, some).tobytes() == twin.losses(w, some).tobytes()
    assert model.rows(some).tobytes() == twin.rows(some).tobytes()
    assert model.smoothness().tobytes() == twin.smoothness().tobytes()


def test_what_is_mapped_is_found_through_views_and_copy_on_write_is_not(tmp_path: Path) -> None:
    X, _ = table()
    file = mapped(tmp_path, X)
    assert all(is_mapped(view) for view in (file, file[3:], np.asarray(file), np.asarray(file)[::2], file.T))
    assert not any(is_mapped(other) for other in (X, X[3:], np.array(file), mapped(tmp_path, X, "c"), None, [1.0]))


def test_giving_pages_back_loses_nothing_that_was_written(tmp_path: Path) -> None:
    X, _ = table()
    file = mapped(tmp_path, X, "r+")
    file[:] = 2 * X
    give_back(file[100:-100])
    np.testing.assert_array_equal(file, 2 * X)
    file.flush()
    np.testing.assert_array_equal(np.load(tmp_path / "X.npy"), 2 * X)


def test_a_fit_on_a_copy_on_write_map_keeps_what_was_written_to_it(tmp_path: Path) -> None:
    X, y = table()
    private = mapped(tmp_path, X, "c")
    private[:] = X[::-1]
    lw.minimize(lw.LinearModel(private, y, l2=1e-2))
    np.testing.assert_array_equal(private, X[::-1])


def test_a_bad_number_in_a_mapped_file_is_named(tmp_path: Path) -> None:
    X, y = table()
    X[50_000, 7] = np.nan
    with pytest.raises(ValueError, match="row 50000, column 7"):
        lw.LinearModel(mapped(tmp_path, X), y)


class TestEstimators:
    @pytest.fixture(autouse=True)
    def _needs_scikit_learn(self) -> None:
        pytest.importorskip("sklearn")

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_fit_and_predictions_agree_with_those_in_memory(self, dtype: Any, tmp_path: Path) -> None:
        from leeward.sklearn import RobustClassifier, RobustRegressor

        X, y = table(dtype)
        file = mapped(tmp_path, X)
        kinds = np.where(X[:, 0] > 1, 2, y).astype(int)
        for target in (y, kinds):
            one, other = (RobustClassifier(l2=1e-2).fit(data, target) for data in (X, file))
            assert one.coef_.tobytes() == other.coef_.tobytes()
            np.testing.assert_allclose(other.decision_function(file), one.decision_function(X), rtol=1e-12, atol=1e-12)
            assert other.robust_score(file, target) == one.robust_score(X, target)
        one, other = (RobustRegressor("cvar").fit(data, y) for data in (X, file))
        assert one.coef_.tobytes() == other.coef_.tobytes()
        np.testing.assert_allclose(other.predict(file), one.predict(X), rtol=1e-12, atol=1e-12)

    def test_a_bad_number_is_named_in_fit_and_in_predict(self, tmp_path: Path) -> None:
        from leeward.sklearn import RobustRegressor

        X, y = table()
        model = RobustRegressor(l2=1e-2).fit(X, y)
        X[50_000, 7] = np.inf
        file = mapped(tmp_path, X)
        for call in (lambda: RobustRegressor().fit(file, y), lambda: model.predict(file)):
            with pytest.raises(ValueError, match="row 50000, column 7"):
                call()


PEAK = """
import sys
import numpy as np, leeward as lw
from leeward.sklearn import RobustClassifier

def resident(name):
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name + ":"))

X, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2])
RobustClassifier().fit(np.eye(40)[:, :3], np.arange(40) % 2)  # imports and threads
before = resident("VmRSS")
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
model = RobustClassifier(l2=1e-4).fit(X, y)
model.predict(X)
print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or bool(os.environ.get("LEEWARD_SANITIZED")),
    reason="reads /proc; a sanitizer keeps memory of its own",
)
def test_a_fit_of_64_megabytes_stays_under_48_resident(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    n, d = 160_000, 100
    file = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, d))  # type: ignore[no-untyped-call]
    y = np.empty(n, np.int8)
    for first in range(0, n, 10_000):
        rows = rng.standard_normal((10_000, d), dtype=np.float32)
        file[first : first + 10_000] = rows
        y[first : first + 10_000] = rows[:, :10].sum(axis=1) + rng.logistic(size=10_000) > 0
    file.flush()
    np.save(tmp_path / "y.npy", y)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, tmp_path / "X.npy", tmp_path / "y.npy"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 48e6, f"{int(done.stdout) / 1e6:.0f} MB"
