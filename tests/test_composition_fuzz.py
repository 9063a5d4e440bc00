"""Random compositions against finite differences and under every method, in several threads, cut by checkpoints and by exceptions."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leeward as lw

RNG = np.random.default_rng(7)
R = RNG.normal([0.05, 0.02, 0.03, 0.1], [1.0, 0.2, 0.5, 2.0], size=(300, 4))


def drawn_level(rng: Any, inputs: int, outputs: int, keep: slice | None) -> lw.Level:
    """``mean_s sin(A_s u + b_s)`` in one of five forms."""
    n = int(rng.integers(1, 9))
    A, b = rng.normal(size=(n, outputs, inputs)) / np.sqrt(inputs), rng.normal(size=(n, outputs))
    settings: dict[str, Any] = {"inputs": inputs, "outputs": outputs, "keep": keep}

    def value(u: Any, index: Any) -> Any:
        return np.sin(A[index] @ u + b[index]).mean(axis=0)

    def jacobian(u: Any, index: Any) -> Any:
        return (np.cos(A[index] @ u + b[index])[:, :, None] * A[index]).mean(axis=0)

    def joint(u: Any, index: Any) -> Any:
        J = jacobian(u, index)
        return value(u, index), lambda weights: J.T @ weights

    form = int(rng.integers(4))
    if form == 0:
        return lw.FunctionLevel(value, jacobian, size=n, **settings)
    if form == 1:
        return lw.FunctionLevel(value, vjp=lambda u, v, index: jacobian(u, index).T @ v, size=n, **settings)
    if form == 2:
        return lw.FunctionLevel.from_vjp(joint, size=n, **settings)
    return lw.FiniteSumLevel(
        (A, b), lambda u, a, c: np.sin(a @ u + c), lambda u, a, c: np.cos(a @ u + c)[:, :, None] * a, **settings
    )


def drawn_composition(seed: int) -> lw.Composition:
    """One to six levels of drawn kinds and sizes; some inputs pass through."""
    rng = np.random.default_rng(seed)
    K, levels, current = int(rng.integers(1, 7)), [], int(rng.integers(1, 6))
    for i in range(K):
        outputs = 1 if i == K - 1 else int(rng.integers(1, 5))
        if i < K - 1 and rng.random() < 0.25:
            levels.append(lw.ElementwiseLevel(str(rng.choice(["exp", "identity"])), current, scale=0.5, shift=0.1))
            continue
        keep = None
        if i < K - 1 and rng.random() < 0.5:
            first = int(rng.integers(0, current))
            keep = slice(first, int(rng.integers(first + 1, current + 1)))
        levels.append(drawn_level(rng, current, outputs, keep))
        current = levels[-1].outputs
    return lw.Composition(levels, l2=float(rng.choice([0.0, 0.3])))


METHODS: list[lw.Algorithm] = [
    lw.SMVR(2, step=0.02), lw.PMVR(2, step=0.02), lw.PMVR(2, step=0.02, direction="average"), lw.SCSC(2, step=0.02),
    lw.NestedSPIDER(2, big=4, period=3, step=0.02), lw.NLASG(2, tau=0.1, step=0.1), lw.ATSCGD(2, step=0.02), lw.SCGD(2, step=0.02),
    lw.SMVR(2, step=0.02, stages="doubling"), lw.SMVR(2, step=0.01, update=lw.Adam()),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_gradients_of_drawn_compositions_are_differences_of_values(seed: int) -> None:
    problem, h = drawn_composition(seed), 1e-6
    w = np.random.default_rng(1000 + seed).normal(size=problem.dim)
    found = problem.evaluate(w).gradient
    slopes = [(problem.value(w + h * e) - problem.value(w - h * e)) / (2 * h) for e in np.eye(problem.dim)]
    assert np.abs(found - slopes).max() <= 1e-7 * max(1.0, np.abs(slopes).max())
    algorithm = METHODS[seed % len(METHODS)]
    try:
        algorithm.check(problem, None)
    except ValueError as error:
        assert "use PMVR" in str(error)  # noqa: PT017
        algorithm = lw.PMVR(2, step=0.02)
    with np.errstate(over="ignore", invalid="ignore"):  # extrapolated points of ATSCGD
        result = lw.minimize(problem, w0=w, algorithm=algorithm, max_passes=10, tol=0)
    assert np.isfinite(result.x).all()
    assert result.fun == problem.value(result.x)


def test_a_level_of_rows_that_is_asked_far_out_counts_as_a_step_that_is_too_large() -> None:
    rows = lw.FiniteSumLevel(
        np.ones(3),
        lambda u, a: np.sin(u)[None] * np.ones((len(a), 1)),
        lambda u, a: np.cos(u)[None, None] * np.ones((len(a), 1, 1)),
        inputs=1,
        outputs=1,
    )
    problem = lw.Composition([lw.ElementwiseLevel("exp"), rows])
    with np.errstate(invalid="ignore"):
        with pytest.raises(lw.errors.InfiniteError, match="value must return finite numbers, got nan"):
            problem.value([800.0])
        with pytest.warns(lw.ConvergenceWarning, match="step is too large"):
            result = lw.minimize(problem, w0=[1.0], algorithm=lw.SMVR(1, step=1e5), max_passes=30)
    assert result.status is lw.Status.NON_FINITE
    assert repr(lw.ElementwiseLevel(np.str_("exp"))).startswith("ElementwiseLevel('exp'")


@pytest.mark.parametrize("make", [lw.MeanDeviation, lw.MeanCVaR, lw.MeanUpperSemideviation])
def test_returns_too_small_to_be_squared_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"can be squared, got a root mean square of .*: rescale them"):
        make(1e-160 * R)
    assert np.isfinite(make(1e-100 * R).value(np.full(4, 0.25)))


RUNS: list[tuple[Any, lw.Algorithm]] = [
    (lambda: lw.MeanCVaR(R), lw.NASA(8, tau=0.05)),
    (lambda: lw.MeanCVaR(R), lw.PMVR(8, direction="average")),
    (lambda: lw.MeanUpperSemideviation(R), lw.SMVR(8)),
    (lambda: lw.MeanUpperSemideviation(R, order=1), lw.NLASG(8)),
]


@pytest.mark.parametrize(("make", "algorithm"), RUNS)
def test_threads_checkpoints_and_exceptions_leave_runs_as_they_are(
    make: Any, algorithm: lw.Algorithm, tmp_path: Path
) -> None:
    problem, file = make(), lw.Checkpoint(tmp_path / "run", every=0.0)
    whole = lw.minimize(problem, algorithm=algorithm, max_passes=10, tol=0)
    found: list[bytes] = []

    def run() -> None:
        found.append(lw.minimize(problem, algorithm=algorithm, max_passes=10, tol=0).x.tobytes())

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [whole.x.tobytes()] * 3

    lw.minimize(problem, algorithm=algorithm, max_passes=10, tol=0, checkpoint=file, callback=lambda s: s.passes > 4)
    rest = lw.minimize(problem, algorithm=algorithm, max_passes=10, tol=0, checkpoint=file)
    assert (rest.x.tobytes(), rest.counts) == (whole.x.tobytes(), whole.counts)

    def enough(state: lw.State) -> None:
        if state.passes > 3:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        lw.minimize(problem, algorithm=algorithm, max_passes=20, callback=enough)
    assert np.isfinite(caught.value.result.x).all()  # type: ignore[attr-defined]
