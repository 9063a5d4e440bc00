"""An inner step of SCSG on rows drawn at random, one at a time, against a loop written by hand in C for the same arithmetic.

Both get the rows' numbers, the gradient of the snapshot and the slopes there (or the snapshot, and compute them anew), fetch
rows ahead, and make the same steps: the C loop, compiled on the spot with -march=native, may fuse and reorder sums.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import leeward as lw
from leeward import _core

ALLOWED = 1.6
SHAPES = ((200_000, 100), (50_000, 784))
FREE = (0, np.zeros(1), np.zeros(1))
SOURCE = r"""
#include <cmath>
#include <cstdint>
using Index = std::int64_t;
namespace {
double slope(double z, double y) { return -y / (1.0 + std::exp(y * z)); }
template <class T, bool kCached>
void steps(const T* X, Index d, const Index* rows, Index count, const double* y, const double* past, const double* w0, double* w,
           const double* g, double step, double l2) {
  constexpr Index kAhead = 4;
  const double a = 1.0 - step * l2;
  for (Index k = 0; k < count; ++k) {
    const T* x = X + rows[k] * d;
    const T* next = X + rows[k + kAhead] * d;
    for (Index j = 0; j < d; j += 64 / static_cast<Index>(sizeof(T))) __builtin_prefetch(next + j);
    double z = 0.0, z0 = 0.0;
    for (Index j = 0; j < d; ++j) {
      z += x[j] * w[j];
      if constexpr (!kCached) z0 += x[j] * w0[j];
    }
    const double before = kCached ? past[rows[k]] : slope(z0, y[rows[k]]);
    const double r = step * (slope(z, y[rows[k]]) - before);
    for (Index j = 0; j < d; ++j) w[j] = a * w[j] - step * g[j] - r * x[j];
  }
}
}  // namespace
#define LOOP(NAME, T)                                                                                              \
  extern "C" void NAME(const T* X, Index d, const Index* rows, Index count, const double* y, const double* past,   \
                       const double* w0, double* w, const double* g, double step, double l2) {                     \
    if (past) return steps<T, true>(X, d, rows, count, y, past, w0, w, g, step, l2);                               \
    steps<T, false>(X, d, rows, count, y, past, w0, w, g, step, l2);                                               \
  }
LOOP(steps_float64, double)
LOOP(steps_float32, float)
"""


def compiled() -> ctypes.CDLL:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise RuntimeError("the comparison needs a C++ compiler")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "steps.cpp", Path(folder) / "steps.so"
        source.write_text(SOURCE)
        flags = ["-O3", "-march=native", "-ffast-math", "-std=c++17", "-shared", "-fPIC"]
        subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


def pointer(a: np.ndarray | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if a is None else a.ctypes.data)


def compare(library: ctypes.CDLL, n: int, d: int, dtype: type, cached: bool, rounds: int) -> tuple[float, float]:
    """Nanoseconds a step: the C loop's and leeward's, least over the rounds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=dtype) / np.sqrt(dtype(d))
    y = rng.choice([-1.0, 1.0], n)
    model = lw.LinearModel(X, y, l2=1.0 / n, intercept=False)
    start = 0.1 * rng.standard_normal(d)
    slopes = model.slopes(start)
    gradient = model.adjoint(slopes) / n
    count = 20_000_000 // d
    rows = rng.integers(0, n, count + 8)
    loop = getattr(library, f"steps_{np.dtype(dtype).name}")
    size, number = ctypes.c_int64, ctypes.c_double

    def by_hand() -> np.ndarray:
        w = start.copy()
        past = pointer(slopes if cached else None)
        loop(pointer(X), size(d), pointer(rows), size(count), pointer(y), past, pointer(start), pointer(w), pointer(gradient),
             number(0.5), number(model.l2))  # fmt: skip
        return w

    def native() -> np.ndarray:
        reference = (None, slopes) if cached else (start, None)
        return _core.stage_steps(
            model._core, start, rows[:count], 1, 0.5, model.l2, gradient, *reference, None, None, FREE
        )

    np.testing.assert_allclose(native(), by_hand(), rtol=0, atol=1e-10)
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for kept, call in zip(times, (by_hand, native), strict=True):
            begin = time.perf_counter()
            call()
            kept.append((time.perf_counter() - begin) / count * 1e9)
    return min(times[0]), min(times[1])


def step_table(rounds: int = 7) -> list[str]:
    """Prints the comparison; the thresholds that are missed."""
    library, missed = compiled(), []
    print(f"\ninner step, one row drawn at random (allowed: {ALLOWED} of the loop in C)")
    print(f"  {'rows':<24}{'slopes there':>14}{'C loop':>10}{'leeward':>10}{'ratio':>8}")
    for n, d in SHAPES:
        for dtype in (np.float64, np.float32):
            for cached in (True, False):
                c, own = compare(library, n, d, dtype, cached, rounds)
                name = f"{n} x {d} {np.dtype(dtype).name}"
                print(f"  {name:<24}{'kept' if cached else 'made anew':>14}{c:>7.0f} ns{own:>7.0f} ns{own / c:>8.2f}")
                if own > ALLOWED * c:
                    missed.append(f"inner step on {name}: {own / c:.2f} of the C loop, allowed {ALLOWED}")
    return missed
