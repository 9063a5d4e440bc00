"""Walks through slices of a batch: their gradients at the snapshot are kept, so that a stage evaluates 2 B component gradients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import leeward as lw
from reference import finite_sums as twin
from reference import updates
from test_finite_sums import SEED, STEP, UPDATES, check_scheme, make_model, sum_of

Vector = NDArray[np.float64]
Index = NDArray[np.int64]
N, D = 40, 3
WALKS: dict[str, tuple[lw.SCSG, twin.Rule]] = {
    "fixed": (lw.SCSG(16, 5, inner="slices", step=STEP), twin.Rule(16, 5, "slices")),
    "all": (lw.SCSG(N, 7, inner="slices", step=STEP), twin.Rule(N, 7, "slices")),
    "growing": (lw.SCSG("growing", 0.25, inner="slices", step=STEP), twin.Rule("growing", 0.25, "slices")),
}


class Recorded:
    """Least squares that writes down at which points it was asked for the gradients of which samples."""

    def __init__(self, size: int = N, dim: int = D) -> None:
        rng = np.random.default_rng(4)
        self.X, self.y = rng.normal(size=(size, dim)), rng.normal(size=size)
        self.calls: list[tuple[bytes, Index]] = []
        self.oracle = lw.FunctionOracle(self.losses, self.gradient, size=size, dim=dim)

    def losses(self, w: Vector, index: Index) -> Vector:
        return 0.5 * (self.X[index] @ w - self.y[index]) ** 2

    def gradient(self, w: Vector, weights: Vector, index: Index) -> Vector:
        self.calls.append((w.tobytes(), index.copy()))
        return np.asarray((weights * (self.X[index] @ w - self.y[index])) @ self.X[index])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("walk", WALKS)
def test_walks_follow_the_twin_with_its_counts(walk: str, name: str, loss: str, weighted: bool) -> None:
    update, make_twin = UPDATES[name]
    algorithm, rule = WALKS[walk]
    model = make_model(loss, sample_weight=np.arange(N) % 4 if weighted else None)
    check_scheme(model, replace(algorithm, update=update), rule, make_twin)


def test_a_stage_asks_for_each_slice_once_at_the_snapshot_and_once_at_the_iterate() -> None:
    recorded = Recorded()
    budget = 2 * 16 / N  # one stage of 16 samples
    result = lw.minimize(
        recorded.oracle, algorithm=lw.SCSG(16, 5, inner="slices", step=STEP), max_passes=budget, trace=None, seed=SEED
    )
    assert (result.njev, result.samples, result.nit) == (32, 32, 4)
    asked = [call for call in recorded.calls if call[1].size < N]  # the rest are records of the whole objective
    assert [index.size for _, index in asked] == [5, 5, 5, 1] * 2
    start = np.zeros(D).tobytes()
    assert [at == start for at, _ in asked] == [True] * 5 + [False] * 3  # the first step is at the snapshot too
    for at_snapshot, at_iterate in zip(asked[:4], asked[4:], strict=True):
        np.testing.assert_array_equal(at_snapshot[1], at_iterate[1])
    assert np.unique(np.concatenate([index for _, index in asked])).size == 16


@pytest.mark.parametrize("kind", ["linear", "functions"])
def test_growing_walks_count_twice_their_batches(kind: str) -> None:
    problem: Any = Recorded().oracle if kind == "functions" else make_model()
    stages = 6
    total = 2 * sum(min(int(np.ceil(j**1.5)), N) for j in range(1, stages + 1))
    algorithm = lw.SCSG("growing", 0.25, inner="slices", step=STEP)
    result = lw.minimize(problem, algorithm=algorithm, max_passes=total / N, seed=SEED)
    assert (result.njev, result.samples) == (total, total)


@pytest.mark.parametrize("after", range(1, 9))
def test_a_run_taken_up_within_a_stage_makes_its_slices_anew_and_does_not_count_them(
    after: int, tmp_path: Path
) -> None:
    algorithm = lw.SCSG(16, 5, inner="slices", step=STEP, update=lw.Adam())
    shared: dict[str, Any] = {"algorithm": algorithm, "trace": "step", "seed": SEED, "tol": 0}
    whole = lw.minimize(Recorded().oracle, max_passes=3.0, **shared)
    file = tmp_path / "run"
    passes = (whole.trace.gradients[after - 1] + 0.5) / N
    first = lw.minimize(Recorded().oracle, max_passes=passes, checkpoint=file, **shared)
    assert first.nit == after
    rest = lw.minimize(Recorded().oracle, max_passes=3.0, checkpoint=file, **shared)
    assert rest.x.tobytes() == whole.x.tobytes()
    assert (rest.njev, rest.samples, rest.nit) == (whole.njev, whole.samples, whole.nit)
    np.testing.assert_array_equal(rest.trace.gradients, whole.trace.gradients)


def test_slices_too_large_to_keep_are_evaluated_anew_and_counted() -> None:
    size, dim, calls = 65_536, 2_049, []  # slices of one sample: a little more than 1 GiB

    def gradient(w: Vector, weights: Vector, index: Index) -> Vector:
        calls.append(index.size)
        return np.full(dim, weights.sum())

    oracle = lw.FunctionOracle(lambda w, index: np.full(index.size, w[0]), gradient, size=size, dim=dim)
    algorithm = lw.SCSG(size, 1, inner="slices", step=0.1)
    result = lw.minimize(oracle, algorithm=algorithm, max_passes=(size + 5) / size, trace=None)
    assert (result.nit, result.njev, result.samples) == (3, size + 6, size + 3)
    assert [c for c in calls if c < size] == [1] * 6


@pytest.mark.parametrize("update", [lw.Plain(), lw.Momentum(0.5)], ids=repr)
def test_a_walk_whose_step_is_too_large_ends_at_a_finite_point(update: Any) -> None:
    model = make_model("squared")
    algorithm = lw.SCSG(16, 5, inner="slices", step=1e200, update=update)
    with pytest.warns(lw.errors.ConvergenceWarning):
        result = lw.minimize(model, algorithm=algorithm, max_passes=20, trace=None)
    assert result.status == lw.Status.NON_FINITE
    assert np.isfinite(result.x).all()


def test_a_walk_goes_back_where_losses_are_not_finite_and_chooses_a_smaller_step() -> None:
    """The losses are infinite beyond 3: the first steps lead there, later ones to the optimum at 2."""

    def losses(w: Vector, index: Index) -> Vector:
        return np.full(index.size, 0.5 * (w[0] - 2.0) ** 2 if abs(w[0]) < 3.0 else np.inf)

    def gradient(w: Vector, weights: Vector, index: Index) -> Vector:
        return np.array([weights.sum() * (w[0] - 2.0) if abs(w[0]) < 3.0 else np.inf])

    oracle = lw.FunctionOracle(losses, gradient, size=N, dim=1)
    result = lw.minimize(oracle, algorithm=lw.SCSG(16, 4, inner="slices"), max_passes=200, tol=0)
    assert abs(result.x[0] - 2.0) < 1e-3


@pytest.mark.parametrize("update", [lw.Plain(), lw.Momentum(0.5)], ids=repr)
def test_threads_do_not_change_a_bit_of_a_walk(update: Any) -> None:
    model, algorithm = make_model(), lw.SCSG(30, 4, inner="slices", step=STEP, update=update)
    runs = [lw.minimize(model, algorithm=algorithm, max_passes=9, threads=threads).x.tobytes() for threads in (1, 2, 3)]
    assert runs[0] == runs[1] == runs[2]


def test_the_random_output_of_a_walk_is_that_of_the_twin() -> None:
    model, (algorithm, rule) = make_model(), WALKS["growing"]
    start = np.zeros(model.dim)
    path = twin.snapshot(start, sum_of(model), rule, updates.Plain(), STEP, 9, SEED)
    drawn = lw.minimize(model, algorithm=replace(algorithm, output="random"), seed=SEED, max_passes=path.gradients / N)
    np.testing.assert_allclose(drawn.x, twin.chosen_output(path.ends, start, SEED), rtol=1e-12, atol=1e-12)
