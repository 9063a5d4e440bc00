"""What a call of the user's functions costs beyond the functions themselves, and what a whole run does.

`python bench/bench_callback.py` prints, as medians of rounds taken in turn,

* the overhead of a call of a Python function: time of a native loop of calls less that of the same calls from Python,
* the overhead of a call of a C function: the same less a C loop that calls the function through its pointer, and zeroes the vector
  that `gradient` adds to,
* SCSG on 50000 x 784 through a NumPy callback with mini-batches of 32: time of the run over the time inside the callbacks,

with the thresholds beside, and ends with an error where one is missed. `pytest bench/bench_callback.py` times the calls with
pytest-benchmark. Answers are checked before anything is timed.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from threadpoolctl import threadpool_limits

import leeward as lw
from leeward import _core

PYTHON_OVERHEAD, C_OVERHEAD, RUN_RATIO = 0.7e-6, 60e-9, 1.15
SHAPES = ((1, 10), (32, 10), (32, 784))  # samples a batch, length of w
SIZE = 1000

SOURCE = r"""
#include <stdint.h>
#include <string.h>
#include <time.h>

/* Next to no work of their own. */
int losses(const double *w, int64_t dim, const int64_t *index, int64_t count, double *out, void *user) {
  for (int64_t k = 0; k < count; ++k) out[k] = w[0] + (double)index[k];
  return 0;
}
int gradient(const double *w, int64_t dim, const double *weights, const int64_t *index, int64_t count, double *out, void *user) {
  for (int64_t k = 0; k < count; ++k) out[0] += weights[k];
  return 0;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
/* Seconds of a call through a pointer that the compiler cannot see through, and of setting what gradient adds to to zero. */
double losses_seconds(const double *w, int64_t dim, const int64_t *index, int64_t count, double *out, int64_t calls) {
  int (*volatile f)(const double *, int64_t, const int64_t *, int64_t, double *, void *) = losses;
  const double begin = now();
  for (int64_t k = 0; k < calls; ++k) f(w, dim, index, count, out, 0);
  return (now() - begin) / (double)calls;
}
double gradient_seconds(const double *w, int64_t dim, const double *weights, const int64_t *index, int64_t count, double *out,
                        int64_t calls) {
  int (*volatile f)(const double *, int64_t, const double *, const int64_t *, int64_t, double *, void *) = gradient;
  const double begin = now();
  for (int64_t k = 0; k < calls; ++k) {
    memset(out, 0, (size_t)dim * sizeof *out);
    f(w, dim, weights, index, count, out, 0);
  }
  return (now() - begin) / (double)calls;
}
"""


def compiled() -> ctypes.CDLL | None:
    """The C functions above, or None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "f.c", Path(folder) / "f.so"
        source.write_text(SOURCE)
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", "-o", library, source], check=True)
        loaded = ctypes.CDLL(str(library))
    loaded.losses_seconds.restype = loaded.gradient_seconds.restype = ctypes.c_double
    return loaded


@dataclass(frozen=True)
class Arguments:
    """One batch, as the functions get it."""

    w: np.ndarray
    weights: np.ndarray
    index: np.ndarray

    @classmethod
    def of(cls, samples: int, dim: int) -> Arguments:
        return cls(np.linspace(1, 2, dim), np.linspace(-1, 1, samples), np.arange(samples, dtype=np.int64))


def from_python(call: Callable[..., Any], arguments: tuple[Any, ...], calls: int) -> float:
    """Seconds of a call made in a Python loop, less the loop."""
    turns = range(calls)
    start = time.perf_counter()
    for _ in turns:
        call(*arguments)
    middle = time.perf_counter()
    for _ in turns:
        pass
    return (2 * middle - start - time.perf_counter()) / calls


def difference(pairs: list[tuple[tuple[float, float], tuple[float, float]]]) -> list[float]:
    """Medians of the calls inside the core less medians of their own time, for losses and for gradient."""
    return [statistics.median(p[0][k] for p in pairs) - statistics.median(p[1][k] for p in pairs) for k in (0, 1)]


def python_oracle(samples: int, dim: int) -> tuple[lw.FunctionOracle, Callable[..., Any], Callable[..., Any]]:
    """Functions that return arrays made beforehand."""
    values, slopes = np.arange(float(samples)), np.linspace(0, 1, dim)

    def losses(w: Any, index: Any) -> Any:
        return values

    def gradient(w: Any, weights: Any, index: Any) -> Any:
        return slopes

    oracle = lw.FunctionOracle(losses, gradient, SIZE, dim)
    np.testing.assert_array_equal(oracle.losses(slopes, range(samples)), values)
    np.testing.assert_array_equal(oracle.gradient(slopes, values, range(samples)), slopes)
    return oracle, losses, gradient


def python_overhead(samples: int, dim: int, rounds: int, calls: int) -> list[float]:
    """Medians over rounds, of losses and of gradient."""
    oracle, losses, gradient = python_oracle(samples, dim)
    a = Arguments.of(samples, dim)
    pairs = []
    for _ in range(rounds):
        inside = _core.call_seconds(oracle._core, a.w, a.weights, a.index, calls)
        own = from_python(losses, (a.w, a.index), calls), from_python(gradient, (a.w, a.weights, a.index), calls)
        pairs.append((inside, own))
    return difference(pairs)


def c_oracle(library: ctypes.CDLL, samples: int, dim: int) -> lw.CFunctionOracle:
    oracle = lw.CFunctionOracle(library.losses, library.gradient, SIZE, dim)
    w, index, weights = np.full(dim, 2.0), np.arange(samples), np.ones(samples)
    np.testing.assert_array_equal(oracle.losses(w, index), 2.0 + index)
    np.testing.assert_array_equal(oracle.gradient(w, weights, index), [samples, *np.zeros(dim - 1)])
    return oracle


def c_overhead(library: ctypes.CDLL, samples: int, dim: int, rounds: int, calls: int) -> list[float]:
    oracle, a = c_oracle(library, samples, dim), Arguments.of(samples, dim)
    out = np.zeros(max(samples, dim))
    w, q, i, to = (x.ctypes.data_as(ctypes.c_void_p) for x in (a.w, a.weights, a.index, out))
    d, m, n = (ctypes.c_int64(x) for x in (dim, samples, calls))
    pairs = []
    for _ in range(rounds):
        inside = _core.call_seconds(oracle._core, a.w, a.weights, a.index, calls)
        own = library.losses_seconds(w, d, i, m, to, n), library.gradient_seconds(w, d, q, i, m, to, n)
        pairs.append((inside, own))
    return difference(pairs)


@dataclass
class Timed:
    """A function that adds up the time spent in it."""

    call: Callable[..., Any]
    seconds: float = 0.0
    calls: int = field(default=0)

    def __call__(self, *arguments: Any) -> Any:
        start = time.perf_counter()
        result = self.call(*arguments)
        self.seconds += time.perf_counter() - start
        self.calls += 1
        return result


@dataclass(frozen=True)
class Run:
    """Logistic regression written in NumPy."""

    X: np.ndarray
    y: np.ndarray

    @classmethod
    def of(cls, rows: int, cols: int) -> Run:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((rows, cols))
        return cls(X, np.where(X[:, 0] + rng.standard_normal(rows) > 0, 1.0, -1.0))

    def losses(self, w: Any, index: Any) -> Any:
        return np.logaddexp(0, -self.y[index] * (self.X[index] @ w))

    def gradient(self, w: Any, weights: Any, index: Any) -> Any:
        rows, y = self.X[index], self.y[index]
        return (-weights * y * expit(-y * (rows @ w))) @ rows

    def ratio(self, passes: float) -> tuple[float, int, float]:
        """Time of a run over the time inside the callbacks, the number of calls, and the seconds of the run."""
        n, d = self.X.shape
        losses, gradient = Timed(self.losses), Timed(self.gradient)
        oracle = lw.FunctionOracle(losses, gradient, n, d, l2=1 / n, convex=True)
        scsg = lw.SCSG(batch=1024, inner_batch=32, step=0.01)
        start = time.perf_counter()
        result = lw.minimize(oracle, algorithm=scsg, max_passes=passes, tol=0)
        total = time.perf_counter() - start
        model = lw.LinearModel(self.X, self.y, "logistic", l2=1 / n, intercept=False)
        assert abs(lw.Robust(model).value(result.x) - result.fun) <= 1e-10 * result.fun
        assert result.fun < 0.9 * np.log(2)
        return total / (losses.seconds + gradient.seconds), losses.calls + gradient.calls, total


def row(what: str, values: list[float], unit: float, name: str, allowed: float) -> bool:
    """Print a line; return whether the threshold is kept."""
    good = max(values) <= allowed
    numbers = "  ".join(f"{v / unit:8.3f}" for v in values)
    print(f"{what:<48} {numbers:<18} {name:<3} at most {allowed / unit:g}   {'' if good else 'MISSED'}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    # Rounds of a millisecond: most of them fit between two switches of the processor to another program.
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--passes", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    library = compiled()
    good = True
    with threadpool_limits(1):
        print("overhead of a call: losses, gradient")
        for samples, dim in SHAPES:
            values = python_overhead(samples, dim, given.rounds, given.calls)
            good &= row(f"Python function, batch {samples}, d = {dim}", values, 1e-6, "us", PYTHON_OVERHEAD)
        if library is None:
            print("C functions: left out, no compiler")
        else:
            for samples, dim in SHAPES:
                values = c_overhead(library, samples, dim, given.rounds, 5 * given.calls)
                good &= row(f"C function, batch {samples}, d = {dim}", values, 1e-9, "ns", C_OVERHEAD)
        run = Run.of(given.rows, 784)
        found = [run.ratio(given.passes) for _ in range(given.runs)]
        ratio, calls, total = statistics.median(f[0] for f in found), found[0][1], found[0][2]
        what = f"SCSG {given.rows} x 784, b = 32, {calls} calls, {total:.1f} s"
        good &= row(what, [ratio], 1.0, "x", RUN_RATIO)
    return 0 if good else 1


@pytest.mark.parametrize(("samples", "dim"), SHAPES)
@pytest.mark.parametrize("kind", ["python", "c"])
def test_calls(benchmark: Any, kind: str, samples: int, dim: int) -> None:
    if kind == "python":
        oracle: Any = python_oracle(samples, dim)[0]
    else:
        library = compiled()
        if library is None:
            pytest.skip("no C compiler")
        oracle = c_oracle(library, samples, dim)
    a = Arguments.of(samples, dim)
    benchmark.pedantic(_core.call_seconds, (oracle._core, a.w, a.weights, a.index, 1000), rounds=20)


if __name__ == "__main__":
    sys.exit(main())
