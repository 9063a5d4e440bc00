"""The same bits for any number of threads, with and without remembered scores, and in whatever batch a row stands."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy import sparse

import leeward as lw

SHAPES = {  # several tasks each, sizes that are no multiple of anything
    "dense float64": (30_011, 37, np.float64, None),
    "dense float32": (30_011, 37, np.float32, None),
    "wide float32": (2_003, 787, np.float32, None),
    "csr": (20_011, 501, np.float64, 0.02),
    "csr wide": (3_001, 20_011, np.float32, 0.002),
}
LOSSES = ["logistic", "softmax", "huber"]


def made(shape, loss, seed=0):
    n, d, dtype, density = SHAPES[shape]
    rng = np.random.default_rng(seed)
    if density is None:
        X = rng.standard_normal((n, d), dtype=dtype)
    else:
        counts = rng.poisson(density * d, n)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        values = rng.standard_normal(indptr[-1], dtype=dtype)
        X = sparse.csr_array((values, rng.integers(0, d, indptr[-1], dtype=np.int32), indptr), shape=(n, d))
    y = rng.integers(0, 3, n) if loss == "softmax" else rng.integers(0, 2, n)
    model = lw.LinearModel(X, y, loss)
    return model, 0.1 * rng.standard_normal(model.dim), rng.random(n), rng


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_number_of_threads_does_not_change_a_bit(shape, loss):
    model, w, q, rng = made(shape, loss)
    q[rng.random(q.size) < 0.3] = 0.0
    index = rng.integers(0, model.size, model.size // 2)

    def results(threads):
        return [
            model.losses(w, threads=threads),
            model.gradient(w, q, threads=threads),
            model.losses(w, index, threads=threads),
            model.gradient(w, q[: index.size], index, threads=threads),
            model.scores(w, threads=threads),
            model.slopes(w, threads=threads),
            model.curvatures(w, threads=threads),
            model.adjoint(model.slopes(w), threads=threads),
            model.conjugate(model.slopes(w), threads=threads),
            model.smoothness(threads=threads),
        ]

    once = results(1)
    for threads in (2, 3):
        for a, b in zip(once, results(threads), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", ["dense float32", "csr"])
def test_remembered_scores_do_not_change_a_bit(shape, loss):
    model, w, q, rng = made(shape, loss)
    other = rng.standard_normal(model.dim)
    model.losses(other)
    fresh = model.gradient(w, q)  # computes the scores of w
    model.losses(w)
    np.testing.assert_array_equal(model.gradient(w, q), fresh)  # remembers them
    np.testing.assert_array_equal(model.losses(w), lw.LinearModel(*data_of(model), loss).losses(w))
    sparse_weights = q * (rng.random(q.size) < 0.01)
    with_memo = model.gradient(w, sparse_weights)
    model.losses(other)
    np.testing.assert_array_equal(model.gradient(w, sparse_weights), with_memo)


def data_of(model):
    X = model._X if isinstance(model._X, np.ndarray) else model._X.to_scipy()
    return X, model._y


def test_a_point_that_differs_in_one_bit_has_its_own_scores():
    model, w, q, _ = made("dense float64", "huber")
    model.losses(w)
    near = w.copy()
    near[3] = np.nextafter(near[3], np.inf)
    expected = lw.LinearModel(*data_of(model), "huber").gradient(near, q)
    np.testing.assert_array_equal(model.gradient(near, q), expected)


def test_smoothed_models_share_scores_and_not_losses():
    model, w, _, _ = made("dense float64", "softmax")
    hinge = lw.LinearModel(data_of(model)[0], model._y > 0, "hinge")
    w = w[: hinge.dim]
    sharp = hinge.losses(w)
    np.testing.assert_array_equal(
        hinge.smoothed(0.5).losses(w),
        lw.LinearModel(data_of(model)[0], model._y > 0, lw.losses.Hinge(smoothing=0.5)).losses(w),
    )
    np.testing.assert_array_equal(hinge.losses(w), sharp)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_has_the_same_loss_in_every_batch(shape):
    model, w, _, rng = made(shape, "logistic")
    full = model.losses(w)
    for size in (1, 7, 50, 4_001):
        index = rng.integers(0, model.size, size)
        np.testing.assert_array_equal(model.losses(w, index), full[index])
    last = np.arange(model.size)[::-1]
    np.testing.assert_array_equal(model.losses(w, last), full[last])


def test_repeated_samples_count_as_often_as_they_stand():
    model, w, _, _ = made("dense float64", "logistic")
    repeated = model.gradient(w, np.array([0.5, 0.25, 2.0]), [11, 11, 4])
    np.testing.assert_allclose(repeated, model.gradient(w, [0.75, 2.0], [11, 4]), rtol=1e-13)


@pytest.mark.parametrize("loss", LOSSES)
def test_float32_data_are_computed_in_double(loss):
    # Against the same numbers stored as doubles: only the order of nothing differs, so equality is exact.
    model, w, q, _ = made("wide float32", loss)
    wide = lw.LinearModel(data_of(model)[0].astype(np.float64), model._y, loss)
    np.testing.assert_array_equal(model.losses(w), wide.losses(w))
    np.testing.assert_array_equal(model.gradient(w, q), wide.gradient(w, q))
    X, y = data_of(wide)
    if loss == "logistic":
        z = X @ w[:-1] + w[-1]
        np.testing.assert_allclose(model.losses(w), np.logaddexp(0, -y * z), rtol=1e-9)


def test_calls_from_several_threads_at_once_agree():
    model, w, q, _ = made("dense float64", "logistic")
    points = [w + k for k in range(4)]
    expected = [(model.losses(p), model.gradient(p, q)) for p in points]
    wrong = []

    def work(k):
        for _ in range(10):
            losses, gradient = model.losses(points[k]), model.gradient(points[k], q)
            if not (np.array_equal(losses, expected[k][0]) and np.array_equal(gradient, expected[k][1])):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_samples_of_weight_zero_are_not_looked_at():
    # An infinite loss with weight 0 must not make the gradient NaN: exp overflows at sample 1.
    model = lw.LinearModel([[1.0], [1000.0], [2.0]], [1.0, 1.0, 1.0], "poisson", intercept=False)
    assert model.losses([1.0])[1] == np.inf
    np.testing.assert_allclose(model.gradient([1.0], [1.0, 0.0, 0.0]), [np.e - 1], rtol=1e-14)
    np.testing.assert_allclose(model.gradient([1.0], [0.0, 1.0], [1, 0]), [np.e - 1], rtol=1e-14)


def test_data_are_not_copied():
    # 32 MB of data; making the model and a full pass allocate far less in Python's arrays, and X is shared.
    import tracemalloc

    X = np.zeros((40_000, 100))
    X[:, 0] = 1.0
    y = np.arange(40_000) % 2
    tracemalloc.start()
    model = lw.LinearModel(X, y)
    model.gradient(np.zeros(101), model.losses(np.zeros(101)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.shares_memory(model._X, X)
    assert peak < X.nbytes / 8


def in_lanes(X, w):
    """Return X w with entry j in lane j mod 16; entries left over stand in the row's last 8 or 16, the others of which count 0."""
    n, d = X.shape
    whole = d // 16 * 16
    lanes, width = np.zeros((n, 16)), (d - whole + 7) // 8 * 8
    for j in range(0, whole, 16):
        lanes += X[:, j : j + 16] * w[j : j + 16]
    end = w[d - width :].copy()
    end[: whole - (d - width)] = 0.0
    lanes[:, :width] += X[:, d - width :] * end
    while lanes.shape[1] > 1:
        lanes = lanes[:, : lanes.shape[1] // 2] + lanes[:, lanes.shape[1] // 2 :]
    return lanes[:, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_rows_of_any_length_are_summed_lane_by_lane_and_sample_by_sample(dtype):
    rng = np.random.default_rng(4)
    for d in [*range(16, 161, 3), 16, 32, 112, 127, 128, 135, 143, 144]:
        X = rng.standard_normal((83, d), dtype=dtype)
        model = lw.LinearModel(X, rng.standard_normal(83), "squared", intercept=False)
        w, v, index = rng.standard_normal(d), rng.standard_normal(83), rng.integers(0, 83, 53)
        np.testing.assert_array_equal(model.scores(w), in_lanes(X.astype(np.float64), w))
        np.testing.assert_array_equal(model.losses(w, index), model.losses(w)[index])
        total = np.zeros(d)
        for k in range(83):
            total += v[k] * X[k].astype(np.float64)
        np.testing.assert_array_equal(model.adjoint(v), total)
        q, picked = rng.random(53), np.zeros(d)
        slopes = model.slopes(w, index)
        for k in range(53):
            picked += q[k] * slopes[k] * X[index[k]].astype(np.float64)
        np.testing.assert_array_equal(model.gradient(w, q, index), picked)
