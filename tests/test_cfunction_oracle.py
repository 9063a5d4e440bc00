"""Oracles of C functions: each kind of pointer, statuses, NaN, user data, bits, and that no lock of Python is taken."""

from __future__ import annotations

import ctypes
import gc
import pickle
import shutil
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from scipy import LowLevelCallable

import leeward as lw
from leeward.testing import check_oracle

SOURCE = r"""
#include <math.h>
#include <stdint.h>
#include <time.h>

/* Least squares on rows of width dim: user points at n rows of (x, y). */
int losses(const double *w, int64_t dim, const int64_t *index, int64_t count, double *out, void *user) {
  const double *rows = user;
  for (int64_t k = 0; k < count; ++k) {
    const double *row = rows + index[k] * (dim + 1);
    double r = -row[dim];
    for (int64_t j = 0; j < dim; ++j) r += row[j] * w[j];
    out[k] = 0.5 * r * r;
  }
  return 0;
}

int gradient(const double *w, int64_t dim, const double *weights, const int64_t *index, int64_t count, double *out,
             void *user) {
  const double *rows = user;
  for (int64_t k = 0; k < count; ++k) {
    const double *row = rows + index[k] * (dim + 1);
    double r = -row[dim];
    for (int64_t j = 0; j < dim; ++j) r += row[j] * w[j];
    for (int64_t j = 0; j < dim; ++j) out[j] += weights[k] * r * row[j];
  }
  return 0;
}

int fails_at(const double *w, int64_t dim, const int64_t *index, int64_t count, double *out, void *user) {
  for (int64_t k = 0; k < count; ++k) {
    if (index[k] == *(int64_t *)user) return 7;
    out[k] = 1.0;
  }
  return 0;
}

int nan_at(const double *w, int64_t dim, const int64_t *index, int64_t count, double *out, void *user) {
  for (int64_t k = 0; k < count; ++k) out[k] = index[k] == *(int64_t *)user ? NAN : 1.0;
  return 0;
}

int infinite(const double *w, int64_t dim, const double *weights, const int64_t *index, int64_t count, double *out,
             void *user) {
  out[dim - 1] = -INFINITY;
  return 0;
}

int writes_nothing(const double *w, int64_t dim, const int64_t *index, int64_t count, double *out, void *user) {
  return 0;
}

/* Waits until another thread has set the flag. */
int waits(const double *w, int64_t dim, const int64_t *index, int64_t count, double *out, void *user) {
  volatile int64_t *flag = user;
  const struct timespec pause = {0, 1000000};
  flag[0] = 1;
  for (int turn = 0; turn < 10000 && !flag[1]; ++turn) nanosleep(&pause, 0);
  for (int64_t k = 0; k < count; ++k) out[k] = (double)flag[1];
  return 0;
}
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform == "win32":
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("cfunction")
    (folder / "f.c").write_text(SOURCE)
    path = folder / "f.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", path, folder / "f.c"], check=True)
    return ctypes.CDLL(str(path))


def data(n=50, d=3):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    return X, y, np.ascontiguousarray(np.column_stack([X, y]))


def of_library(library, rows, **settings):
    n, width = rows.shape
    return lw.CFunctionOracle(
        library.losses, library.gradient, size=n, dim=width - 1, user_data=rows, **({"convex": True} | settings)
    )


def test_answers_are_those_of_the_same_linear_model(library):
    X, y, rows = data()
    oracle, model = of_library(library, rows), lw.LinearModel(X, y, "squared", intercept=False)
    rng = np.random.default_rng(1)
    w, q, index = rng.standard_normal(3), rng.standard_normal(50), np.array([3, 3, 49, 0])
    np.testing.assert_allclose(oracle.losses(w), model.losses(w), rtol=1e-13)
    np.testing.assert_allclose(oracle.gradient(w, q), model.gradient(w, q), rtol=1e-12)
    np.testing.assert_allclose(oracle.losses(w, index), model.losses(w, index), rtol=1e-13)
    np.testing.assert_allclose(oracle.gradient(w, q[:4], index), model.gradient(w, q[:4], index), rtol=1e-12)
    assert oracle.losses(w, []).shape == (0,)
    np.testing.assert_array_equal(oracle.gradient(w, [], []), np.zeros(3))
    check_oracle(oracle)


def test_every_kind_of_pointer_is_taken(library):
    _, _, rows = data()
    w, q = np.array([1.0, -2.0, 0.5]), np.ones(50)
    expected = of_library(library, rows)
    for function in (library.losses, library.gradient):
        function.restype = ctypes.c_int
    addresses = [ctypes.cast(f, ctypes.c_void_p).value for f in (library.losses, library.gradient)]
    typed = lw.CFunctionOracle.LOSSES(addresses[0]), lw.CFunctionOracle.GRADIENT(addresses[1])

    class LikeNumba:
        def __init__(self, address):
            self.address = address

    pointer = ctypes.c_void_p(rows.ctypes.data)
    kinds = {
        "address": (addresses, rows.ctypes.data),
        "NumPy integer": ([np.uint64(a) for a in addresses], pointer),
        "typed ctypes": (typed, rows.ctypes.data_as(ctypes.POINTER(ctypes.c_double))),
        "cfunc": ([LikeNumba(a) for a in addresses], rows),
        "LowLevelCallable": ([LowLevelCallable(f, pointer) for f in typed], None),
        "LowLevelCallable, other data": ([LowLevelCallable(f) for f in typed], rows),
    }
    for name, (functions, user_data) in kinds.items():
        oracle = lw.CFunctionOracle(*functions, size=50, dim=3, user_data=user_data)
        np.testing.assert_array_equal(oracle.losses(w), expected.losses(w), err_msg=name)
        np.testing.assert_array_equal(oracle.gradient(w, q), expected.gradient(w, q), err_msg=name)


def test_numba_functions_are_taken():
    numba = pytest.importorskip("numba", reason="numba is not installed")
    types = numba.types
    doubles, numbers = types.CPointer(types.float64), types.CPointer(types.int64)

    @numba.cfunc(types.int32(doubles, types.int64, numbers, types.int64, doubles, types.voidptr))
    def losses(w, dim, index, count, out, user):
        for k in range(count):
            out[k] = 0.5 * (w[0] - index[k]) ** 2
        return 0

    @numba.cfunc(types.int32(doubles, types.int64, doubles, numbers, types.int64, doubles, types.voidptr))
    def gradient(w, dim, weights, index, count, out, user):
        for k in range(count):
            out[0] += weights[k] * (w[0] - index[k])
        return 0

    for pair in ((losses, gradient), (losses.ctypes, gradient.ctypes), (losses.address, gradient.address)):
        oracle = lw.CFunctionOracle(*pair, size=5, dim=1, convex=True)
        np.testing.assert_array_equal(oracle.losses([1.0]), [0.5, 0.0, 0.5, 2.0, 4.5])
        np.testing.assert_allclose(lw.minimize(oracle).x, [2.0], atol=1e-6)


@pytest.mark.parametrize(
    "algorithm", [lw.LBFGS(), lw.SGD(lw.Minibatch(8)), lw.Nesterov(lw.Minibatch(50, replace=False))]
)
def test_a_fit_is_that_of_the_linear_model(library, algorithm):
    X, y, rows = data()
    oracle = of_library(library, rows, l2=0.1)
    model = lw.LinearModel(X, y, "squared", l2=0.1, intercept=False)
    exact = lw.minimize(model, tol=1e-12)
    fit = lw.minimize(lw.Robust(oracle, lw.Mean()), algorithm=algorithm, max_passes=100, tol=0)
    assert fit.fun <= exact.fun * (1 + 1e-2)
    assert fit.gap is not None


def test_statuses_and_numbers_that_are_not_finite_are_named(library):
    bad = np.array([17], dtype=np.int64)
    _, _, rows = data()

    def made(losses, gradient=library.gradient, user=bad):
        return lw.CFunctionOracle(losses, gradient, size=10_000, dim=3, user_data=user)

    cases = [
        (made(library.fails_at), "losses returned status 7, must return 0, for a batch of samples 4, 17, 9"),
        (made(library.nan_at), r"losses must write finite numbers, got nan for sample 17 \(entry 1 of the batch\)"),
        (made(library.writes_nothing), r"losses must write finite numbers, got nan for sample 4 \(entry 0 of"),
    ]
    for oracle, words in cases:
        with pytest.raises(lw.OracleError, match=words):
            oracle.losses(np.ones(3), [4, 17, 9])
    bad[0] = 5000  # in the second call of a batch of all
    with pytest.raises(lw.OracleError, match=r"status 7.* samples 4096, 4097, 4098, 4099, 4100, \.\.\."):
        cases[0][0].losses(np.ones(3))
    with pytest.raises(lw.OracleError, match=r"got nan for sample 5000 \(entry 5000 of the batch\)"):
        cases[1][0].losses(np.ones(3))
    oracle = made(library.losses, library.infinite, rows)
    words = "gradient must write finite numbers, got -inf in coordinate 2 for a batch of samples 3, 1"
    with pytest.raises(lw.OracleError, match=words):
        oracle.gradient(np.ones(3), np.ones(2), [3, 1])
    with pytest.raises(lw.OracleError, match="status 7"):
        lw.minimize(made(library.fails_at), algorithm=lw.SGD(lw.Minibatch(4), step=0.1), max_passes=2)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"losses": "sin"}, TypeError, "losses must be a numba cfunc, a ctypes function pointer, .*, got str"),
        ({"losses": lambda *_: 0}, TypeError, "losses must be a numba cfunc, .*, got function"),
        ({"gradient": 0}, ValueError, "gradient must be the address of a function, got 0"),
        ({"gradient": True}, TypeError, "gradient must be a numba cfunc, .*, got bool"),
        (
            {"gradient": lw.CFunctionOracle.LOSSES(lambda *_: 0)},
            TypeError,
            "gradient must be a function of 7 arguments, got one of 6",
        ),
        (
            {"losses": LowLevelCallable(lw.CFunctionOracle.GRADIENT(lambda *_: 0))},
            TypeError,
            "losses must be a function of 6 arguments, got one of 7",
        ),
        ({"user_data": "x"}, TypeError, "user_data must be an array, a ctypes pointer or structure, or an address"),
        ({"size": 0}, ValueError, "size must be at least 1, got 0"),
        ({"l2": -1.0}, ValueError, "l2 must be finite and not negative"),
    ],
)
def test_wrong_settings_are_refused_in_words(settings, error, words):
    usual = {"losses": 1, "gradient": 1, "size": 5, "dim": 2}
    with pytest.raises(error, match=words):
        lw.CFunctionOracle(**(usual | settings))


def test_many_samples_have_the_same_bits_for_any_number_of_threads(library):
    _, _, rows = data(n=100_001, d=5)
    w, q = np.linspace(-1, 1, 5), np.random.default_rng(2).standard_normal(100_001)
    serial, parallel = of_library(library, rows), of_library(library, rows, parallel=True)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(parallel.losses(w, threads=threads), serial.losses(w))
        np.testing.assert_array_equal(parallel.gradient(w, q, threads=threads), serial.gradient(w, q))
    everyone = np.arange(100_001)
    np.testing.assert_array_equal(serial.gradient(w, q, everyone), serial.gradient(w, q))
    X, y = rows[:, :-1], rows[:, -1]
    np.testing.assert_allclose(serial.gradient(w, q), (q * (X @ w - y)) @ X, rtol=1e-10)


def test_functions_and_data_are_kept_alive_by_the_oracle():
    @lw.CFunctionOracle.LOSSES
    def losses(w, dim, index, count, out, user):
        for k in range(count):
            out[k] = ctypes.cast(user, ctypes.POINTER(ctypes.c_double))[0]
        return 0

    @lw.CFunctionOracle.GRADIENT
    def gradient(*_):
        return 0

    class Mine(np.ndarray):
        pass

    user = np.array([2.5]).view(Mine)
    seen = weakref.ref(losses), weakref.ref(gradient), weakref.ref(user)
    oracle = lw.CFunctionOracle(losses, gradient, size=2, dim=1, user_data=user)
    del losses, gradient, user
    gc.collect()
    np.testing.assert_array_equal(oracle.losses([0.0]), [2.5, 2.5])
    del oracle
    gc.collect()
    assert [r() for r in seen] == [None] * 3


def test_the_functions_run_without_the_lock_of_the_interpreter(library):
    # The C function waits for a flag that another Python thread sets: with the lock held it would wait in vain.
    flag = np.zeros(2, dtype=np.int64)
    oracle = lw.CFunctionOracle(library.waits, library.gradient, size=1, dim=1, user_data=flag)

    def sets():
        while not flag[0]:
            pass
        flag[1] = 1

    other = threading.Thread(target=sets)
    other.start()
    np.testing.assert_array_equal(oracle.losses([0.0]), [1.0])
    other.join()


def test_addresses_are_not_pickled(library):
    with pytest.raises(TypeError, match="a CFunctionOracle cannot be pickled"):
        pickle.dumps(of_library(library, data()[2]))
