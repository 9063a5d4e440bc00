"""Losses and weighted gradient of a linear model against the two matrix products they contain.

`python bench/bench_linear_model.py` times both sides in turn in one run, at the same number of threads, and prints one
table with the thresholds beside; it ends with an error where one is missed. `pytest bench/bench_linear_model.py` times
leeward's calls with pytest-benchmark. Answers are checked before anything is timed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from threadpoolctl import threadpool_limits

import leeward as lw

DENSE_RATIO, CSR_RATIO, THREADS_GAIN = 0.8, 0.7, 1.6
REST = 0.05  # seconds between two sides' turns: OpenBLAS' idle workers spin on the other cores for about 20 ms


@dataclass(frozen=True)
class Case:
    """A matrix to be made, and the share of the opponent's time that is allowed."""

    name: str
    rows: int
    cols: int
    dtype: type
    density: float | None = None
    batch: int | None = None  # samples picked at random for each call; None: all of them

    @property
    def allowed(self) -> float | None:
        if self.batch is not None:
            return None  # shown, no threshold
        return DENSE_RATIO if self.density is None else CSR_RATIO

    def data(self) -> tuple[Any, np.ndarray]:
        rng = np.random.default_rng(0)
        y = np.where(rng.random(self.rows) < 0.5, 1.0, -1.0)
        if self.density is None:
            return rng.standard_normal((self.rows, self.cols), dtype=self.dtype), y
        per_row = round(self.density * self.cols)
        indices = np.sort(rng.integers(0, self.cols, (self.rows, per_row), dtype=np.int32), axis=1).ravel()
        values = rng.standard_normal(indices.size, dtype=self.dtype)
        indptr = np.arange(0, indices.size + 1, per_row, dtype=np.int32)
        return sparse.csr_array((values, indices, indptr), shape=(self.rows, self.cols)), y


CASES = (
    Case("dense 200000 x 100 float64", 200_000, 100, np.float64),
    Case("dense 200000 x 100 float32", 200_000, 100, np.float32),
    Case("dense 60000 x 784 float64", 60_000, 784, np.float64),
    Case("dense 60000 x 784 float32", 60_000, 784, np.float32),
    Case("csr 200000 x 50000 float64", 200_000, 50_000, np.float64, 1e-3),
    Case("csr 200000 x 50000 float32", 200_000, 50_000, np.float32, 1e-3),
    Case("50 of 60000 x 784 float32", 60_000, 784, np.float32, batch=50),
)


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def turn(warm_up: Callable[[], Any], first: Callable[[], Any], second: Callable[[], Any]) -> list[float]:
    """Rest, make one call that wakes this side's own threads, then time its two calls."""
    time.sleep(REST)
    warm_up()
    return [seconds(first), seconds(second)]


def check(model: lw.LinearModel, X: Any, y: np.ndarray) -> None:
    """Assert the losses and the gradient against NumPy in double, at 1e-9 of their scale."""
    rng = np.random.default_rng(1)
    w, weights = 0.1 * rng.standard_normal(model.dim), rng.random(model.size)
    z = X.astype(np.float64) @ w[:-1] + w[-1]
    np.testing.assert_allclose(model.losses(w), np.logaddexp(0, -y * z), rtol=1e-9, atol=1e-12)
    r = -weights * y * expit(-y * z)
    gradient = np.append(X.astype(np.float64).T @ r, r.sum())
    np.testing.assert_allclose(model.gradient(w, weights), gradient, atol=1e-9 * np.abs(gradient).max())


def compare(case: Case, rounds: int) -> list[tuple[int, list[float]]]:
    """Return (threads, medians in seconds of losses, gradient, X w and X^T r) for 1 and 2 threads."""
    if case.batch is not None:
        return compare_batch(case, case.batch, rounds)
    X, y = case.data()
    model = lw.LinearModel(X, y, "logistic")
    check(model, X, y)
    rng = np.random.default_rng(2)
    points = 0.1 * rng.standard_normal((rounds + 1, model.dim))
    weights = np.full(model.size, 1 / model.size)
    r = rng.standard_normal(model.size).astype(case.dtype)
    out, g = np.empty(model.size), np.empty(model.dim)
    times: dict[int, list[list[float]]] = {1: [], 2: []}
    for k, w in enumerate(points):
        u = w[:-1].astype(case.dtype)
        for threads in (1, 2):
            with threadpool_limits(limits=threads):
                spent = turn(
                    lambda: model.losses(points[k - 1], threads=threads),  # noqa: B023 - another point: w is not known yet
                    lambda: model.losses(w, out=out, threads=threads),  # noqa: B023 - called at once
                    lambda: model.gradient(w, weights, out=g, threads=threads),  # noqa: B023
                )
                spent += turn(lambda: X.T @ r, lambda: X @ u, lambda: X.T @ r)  # noqa: B023
            if k > 0:  # the first round warms up
                times[threads].append(spent)
    return [
        (threads, [statistics.median(column) for column in zip(*times[threads], strict=True)]) for threads in (1, 2)
    ]


def compare_batch(case: Case, size: int, rounds: int) -> list[tuple[int, list[float]]]:
    """Return the same for one thread and a mini-batch, whose rows NumPy copies out before its first product."""
    X, y = case.data()
    model = lw.LinearModel(X, y, "logistic", threads=1)
    check(model, X, y)
    rng = np.random.default_rng(2)
    w = 0.1 * rng.standard_normal(model.dim)
    u, r, weights = w[:-1].astype(case.dtype), np.ones(size, case.dtype), np.full(size, 1 / size)
    batches = rng.integers(0, case.rows, (100 * rounds, size))
    ours = [(seconds(lambda: model.losses(w, i)), seconds(lambda: model.gradient(w, weights, i))) for i in batches]  # noqa: B023
    theirs = []
    with threadpool_limits(limits=1):
        for i in batches:
            start = time.perf_counter()
            rows = X[i]
            rows @ u
            middle = time.perf_counter()
            rows.T @ r
            theirs.append((middle - start, time.perf_counter() - middle))
    return [(1, [statistics.median(column) for pairs in (ours, theirs) for column in zip(*pairs, strict=True)])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    arguments = parser.parse_args()
    print("milliseconds, medians; gain: one thread's time over two threads' time")
    titles = ("threads", "losses", "gradient", "X w", "X^T r", "ratio", "limit", "gain", "limit")
    print(f"{'case':<28}" + "".join(f"{title:>9}" for title in titles))
    missed = 0
    for case in CASES:
        if arguments.only not in case.name:
            continue
        one = 0.0
        for threads, (losses, gradient, product, transposed) in compare(case, arguments.rounds):
            ours = losses + gradient
            ratio = ours / (product + transposed)
            line = f"{case.name:<28}{threads:>9}"
            line += "".join(f"{1e3 * t:>9.{2 if t > 1e-3 else 4}f}" for t in (losses, gradient, product, transposed))
            limit = case.allowed
            line += f"{ratio:>9.2f}" + (f"{'':>9}" if limit is None else f"{limit:>9.2f}")
            late = limit is not None and ratio > limit
            if threads == 1:
                one = ours
            else:
                line += f"{one / ours:>9.2f}{THREADS_GAIN:>9.2f}"
                late |= one / ours < THREADS_GAIN
            missed += late
            print(line + ("   missed" if late else ""), flush=True)
    return 1 if missed else 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_losses_and_gradient(benchmark: Any, case: Case) -> None:
    X, y = case.data()
    model = lw.LinearModel(X, y, "logistic", threads=1)
    check(model, X, y)
    rng = np.random.default_rng(3)
    index = None if case.batch is None else rng.integers(0, case.rows, case.batch)
    weights = np.full(case.batch or case.rows, 1 / (case.batch or case.rows))
    points = iter(0.1 * np.random.default_rng(2).standard_normal((100, model.dim)))

    def both() -> None:
        w = next(points)
        model.losses(w, index)
        model.gradient(w, weights, index)

    benchmark.pedantic(both, rounds=5, warmup_rounds=1)


if __name__ == "__main__":
    sys.exit(main())
