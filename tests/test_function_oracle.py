"""Oracles made of the user's functions: arguments, checks, errors that come back unchanged, threads, and check_oracle."""

from __future__ import annotations

import pickle
import re
import threading

import numpy as np
import pytest

import leeward as lw
from leeward.testing import check_oracle

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((40, 3)), RNG.standard_normal(40)


def losses(w, index):
    return 0.5 * (A[index] @ w - B[index]) ** 2


def gradient(w, weights, index):
    return (weights * (A[index] @ w - B[index])) @ A[index]


def made(losses=losses, gradient=gradient, **settings):
    return lw.FunctionOracle(losses=losses, gradient=gradient, size=40, dim=3, **settings)


def test_answers_are_those_of_the_functions():
    oracle, model = made(), lw.LinearModel(A, B, "squared", intercept=False)
    w, q, index = RNG.standard_normal(3), RNG.standard_normal(40), np.array([3, 3, 39, 0])
    np.testing.assert_allclose(oracle.losses(w), model.losses(w), rtol=1e-13)
    np.testing.assert_allclose(oracle.gradient(w, q), model.gradient(w, q), rtol=1e-12)
    np.testing.assert_allclose(oracle.losses(w, index), model.losses(w, index), rtol=1e-13)
    np.testing.assert_allclose(oracle.gradient(w, q[:4], index), model.gradient(w, q[:4], index), rtol=1e-12)


def test_functions_are_called_once_a_batch_with_read_only_arrays_that_are_kept():
    seen = []

    def spy(w, index):
        seen.append((w, index))
        for argument in (w, index):
            with pytest.raises(ValueError, match="read-only"):
                argument[0] = 1
            with pytest.raises(ValueError, match="WRITEABLE"):
                argument.flags.writeable = True
        assert (w.dtype, index.dtype) == (np.float64, np.int64)
        return losses(w, index)

    oracle = made(losses=spy)
    oracle.losses([1.0, 2.0, 3.0], [5, 6])
    oracle.losses([4.0, 5.0, 6.0], [7, 8])
    assert len(seen) == 2
    assert seen[0][0] is seen[1][0]
    assert seen[0][1] is seen[1][1]
    np.testing.assert_array_equal(seen[0][0], [4.0, 5.0, 6.0])
    np.testing.assert_array_equal(seen[0][1], [7, 8])
    oracle.losses([4.0, 5.0, 6.0])
    np.testing.assert_array_equal(seen[2][1], np.arange(40))


def test_exceptions_of_the_functions_come_back_as_the_same_object():
    class Mine(Exception):
        pass

    error = Mine("from user code")

    def fails(*_):
        raise error

    for call in (lambda: made(losses=fails).losses(np.zeros(3)), lambda: made(gradient=fails).gradient(np.zeros(3), B)):
        with pytest.raises(Mine) as caught:
            call()
        assert caught.value is error
    oracle = made(losses=fails)
    for _ in range(2):  # the kept arguments are given back after an exception
        with pytest.raises(Mine):
            oracle.losses(np.zeros(3))
    with pytest.raises(Mine) as caught:
        lw.minimize(lw.Robust(made(losses=fails), lw.Mean()), algorithm=lw.SGD(lw.Minibatch(4), step=0.1), max_passes=2)
    assert caught.value is error


def nan_at(sample):
    def spoiled(w, index):
        return np.where(index == sample, np.nan, losses(w, index))

    return spoiled


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            lambda w, i: losses(w, i)[:, None],
            "must return an array of shape (3,), one loss for each entry of index; got shape (3, 1)",
        ),
        (lambda w, i: losses(w, i).sum(), "shape (3,), one loss for each entry of index; got shape ()"),
        (lambda w, i: losses(w, i)[:2], "got shape (2,)"),
        (lambda w, i: None, "got an array of dtype object"),
        (lambda w, i: losses(w, i) + 0j, "got an array of dtype complex128"),
        (lambda w, i: ["a"] * 3, "got an array of dtype <U1"),
        (lambda w, i: np.array([1, 2, 3], "M8[s]"), "got an array of dtype datetime64[s]"),
        (lambda w, i: np.array([1, 2, 3], "m8[s]"), "got an array of dtype timedelta64[s]"),
        (lambda w, i: np.ma.array(losses(w, i), mask=[0, 1, 0]), "got a masked array: fill or drop the masked entries"),
        (lambda w, i: np.ma.array(losses(w, i)), "got a masked array: fill or drop the masked entries"),
        (nan_at(17), "must return finite numbers, got nan for sample 17 (entry 1 of the batch)"),
        (lambda w, i: losses(w, i) + np.inf, "must return finite numbers, got inf for sample 4 (entry 0 of the batch)"),
    ],
)
def test_wrong_losses_are_refused_with_sample_numbers(function, words):
    with pytest.raises(lw.OracleError, match=re.escape(words)):
        made(losses=function).losses(np.ones(3), [4, 17, 9])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda w, q, i: np.ma.array(gradient(w, q, i), mask=[1, 0, 0]), "got a masked array"),
        (
            lambda w, q, i: gradient(w, q, i)[:2],
            "must return an array of shape (3,), the sum of weights[k] times the gradient of loss index[k]; got shape (2,)",
        ),
        (lambda w, q, i: A[i] * q[:, None], "got shape (7, 3)"),
        (
            lambda w, q, i: np.array([0.0, np.nan, 0.0]),
            "got nan in coordinate 1 for a batch of samples 4, 17, 9, 1, 2, ...",
        ),
    ],
)
def test_wrong_gradients_are_refused_with_sample_numbers(function, words):
    with pytest.raises(lw.OracleError, match=re.escape(words)):
        made(gradient=function).gradient(np.ones(3), np.ones(7), [4, 17, 9, 1, 2, 3, 5])


@pytest.mark.parametrize(
    "returned",
    [
        [1, 2, 3],
        (1.0, 2.0, 3.0),
        np.float32([1, 2, 3]),
        np.float16([1, 2, 3]),
        np.longdouble([1, 2, 3]),
        np.array([1, 2, 3], ">f8"),
        np.array([1, 2, 3], np.uint8),
        np.array([3.0, 2.0, 1.0])[::-1],
        np.array([1.0, 0.0, 2.0, 0.0, 3.0])[::2],
        np.frombuffer(b"x" + np.arange(1.0, 4.0).tobytes(), offset=1),
        np.arange(1.0, 4.0).view(np.recarray),
    ],
    ids=lambda r: f"{type(r).__name__} {getattr(r, 'dtype', '')} {getattr(r, 'strides', '')}",
)
def test_numbers_of_any_real_kind_and_layout_are_taken(returned):
    oracle = made(losses=lambda w, i: returned, gradient=lambda w, q, i: returned)
    np.testing.assert_array_equal(oracle.losses(np.zeros(3), [2, 9, 4]), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(oracle.gradient(np.zeros(3), [1.0], [0]), [1.0, 2.0, 3.0])


def test_one_nan_is_found_wherever_it_stands():
    for count in (1, 15, 16, 17, 40):
        for k in range(count):
            bad = np.zeros(count)
            bad[k] = np.nan
            with pytest.raises(lw.OracleError, match=rf"got nan for sample {39 - k} \(entry {k} of the batch\)"):
                made(losses=lambda w, i, bad=bad: bad).losses(np.zeros(3), np.arange(39, 39 - count, -1))


def test_batches_of_the_last_few_sizes_keep_their_arrays():
    seen = {}

    def spy(w, q, index):
        same = seen.setdefault(index.size, (q, index))
        assert same[0] is q
        assert same[1] is index
        return gradient(w, q, index)

    oracle = made(gradient=spy)
    for size in [4, 32, 4, 40, 1, 32, 4, 1]:
        index, q = np.arange(size), np.linspace(0, 1, size)
        np.testing.assert_array_equal(oracle.gradient(np.ones(3), q, index), gradient(np.ones(3), q, index))


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"losses": 3}, TypeError, "losses must be callable, got int"),
        ({"gradient": None}, TypeError, "gradient must be callable, got NoneType"),
        ({"size": 0}, ValueError, "size must be at least 1, got 0"),
        ({"dim": 2.5}, TypeError, "dim must be an integer, got 2.5"),
        ({"penalised": 4}, ValueError, r"penalised must be in \[0, 3\], got 4"),
        ({"l2": -1}, ValueError, "l2 must be finite and not negative, got -1"),
        ({"sample_weight": np.ones(3)}, ValueError, r"sample_weight must have shape \(40,\), got shape \(3,\)"),
    ],
)
def test_wrong_settings_are_refused_in_words(settings, error, words):
    with pytest.raises(error, match=words):
        lw.FunctionOracle(**({"losses": losses, "gradient": gradient, "size": 40, "dim": 3} | settings))


def test_settings_are_kept_and_pickled():
    oracle = made(l2=0.5, penalised=2, convex=True, smooth=False, sample_weight=np.arange(40.0))
    for o in (oracle, pickle.loads(pickle.dumps(oracle))):
        assert (o.size, o.dim, o.l2, o.penalised, o.convex, o.smooth) == (40, 3, 0.5, 2, True, False)
        np.testing.assert_array_equal(o.sample_weight, np.arange(40.0))
        np.testing.assert_array_equal(o.losses(np.ones(3)), oracle.losses(np.ones(3)))


def test_index_out_of_range_never_reaches_the_functions():
    oracle = made(losses=lambda w, i: pytest.fail("called"))
    with pytest.raises(IndexError, match=r"index\[0\] is 40, must be in \[0, 40\)"):
        oracle.losses(np.zeros(3), [40])


def test_an_oracle_may_call_itself_and_serve_several_threads():
    def nested(w, index):
        if index.size > 1:  # the inner call must not overwrite the arguments of the outer one
            first = index[0]
            oracle.losses(w + 1, index[:1])
            assert index[0] == first
        return losses(w, index)

    oracle = made(losses=nested)
    np.testing.assert_array_equal(oracle.losses(np.ones(3), [7, 8]), losses(np.ones(3), np.array([7, 8])))
    points = [np.full(3, float(k)) for k in range(4)]
    wrong = []

    def work(k):
        index = np.arange(k, 40)
        for _ in range(50):
            if not np.array_equal(oracle.losses(points[k], index), losses(points[k], index)):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def fun(w, index):
    residual = A[index] @ w - B[index]
    return 0.5 * residual**2, lambda weights: (weights * residual) @ A[index]


def test_from_vjp_agrees_and_uses_the_pullback_of_the_losses():
    calls = []

    def counted(w, index):
        calls.append(len(index))
        return fun(w, index)

    oracle = lw.from_vjp(counted, size=40, dim=3)
    w, q = RNG.standard_normal(3), RNG.standard_normal(40)
    oracle.losses(w)
    np.testing.assert_allclose(oracle.gradient(w, q), gradient(w, q, np.arange(40)), rtol=1e-13)
    assert calls == [40]  # one evaluation for both
    oracle.gradient(w, q)
    assert calls == [40, 40]  # a pullback is used once
    oracle.losses(w, [1, 2])
    np.testing.assert_allclose(
        oracle.gradient(w + 1, [1.0, 2.0], [1, 2]), gradient(w + 1, [1.0, 2.0], [1, 2]), rtol=1e-13
    )
    np.testing.assert_allclose(oracle.gradient(w, [1.0, 2.0], [3, 4]), gradient(w, [1.0, 2.0], [3, 4]), rtol=1e-13)
    assert pickle.loads(pickle.dumps(lw.from_vjp(fun, 40, 3))).losses(w)[0] == oracle.losses(w)[0]


def test_from_vjp_refuses_functions_that_return_no_pullback():
    with pytest.raises(lw.OracleError, match=r"must return \(losses, pullback\) with a callable pullback"):
        lw.from_vjp(losses, size=40, dim=3).losses(np.zeros(3))
    with pytest.raises(TypeError, match="fun must be callable, got int"):
        lw.from_vjp(3, size=40, dim=3)


@pytest.mark.parametrize(
    "oracle",
    [
        made(),
        lw.from_vjp(fun, size=40, dim=3),
        lw.LinearModel(A, B > 0, "logistic"),
        lw.LinearModel(A, RNG.integers(0, 5, 40), "softmax"),
        lw.LinearModel(np.hstack([A] * 10), B, "huber"),
        lw.LinearModel(A, np.abs(B), "poisson"),
        lw.LinearModel(A, B, "quantile"),
    ],
    ids=repr,
)
def test_check_oracle_passes_sound_oracles(oracle):
    report = check_oracle(oracle)
    assert report.gradient_error <= 1e-7
    assert report.pairing_error <= 1e-12
    assert report.batch_error <= 1e-12
    assert report.samples == 16


NOISE = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gradient": lambda w, q, i: 2 * gradient(w, q, i)}, "the gradient is not the derivative of the losses"),
        ({"gradient": lambda w, q, i: gradient(w, q, i) / len(i)}, r"the gradient is not sum_k weights\[k\]"),
        ({"gradient": lambda w, q, i: gradient(w, np.abs(q), i)}, r"the gradient is not sum_k weights\[k\]"),
        ({"losses": lambda w, i: losses(w, np.sort(i))}, "the loss of a sample depends on the batch it is asked in"),
        ({"losses": lambda w, i: losses(w, i) + NOISE.random()}, "losses gave two answers for the same w and index"),
        ({"gradient": lambda w, q, i: gradient(w, q, i) + NOISE.random()}, "gradient gave two answers"),
    ],
)
def test_check_oracle_finds_the_usual_mistakes(settings, words):
    with pytest.raises(AssertionError, match=words):
        check_oracle(made(**settings))


def test_check_oracle_finds_a_wrong_coordinate_at_a_given_point_and_batch():
    def slightly_wrong(w, q, i):
        g = gradient(w, q, i)
        g[1] *= 1 + 1e-3
        return g

    with pytest.raises(AssertionError, match="for samples 4, 5; slope"):
        check_oracle(made(gradient=slightly_wrong), w=[1.0, -2.0, 3.0], index=[4, 5])
    assert check_oracle(made(), w=[1.0, -2.0, 3.0], index=[4, 5], seed=3).samples == 2


def test_a_function_oracle_is_fitted_like_a_model():
    oracle = made(l2=0.1, convex=True)
    model = lw.LinearModel(A, B, "squared", l2=0.1, intercept=False)
    exact = np.linalg.solve(A.T @ A / 40 + 0.1 * np.eye(3), A.T @ B / 40)
    for problem in (lw.Robust(oracle), lw.Robust(model)):
        evaluation = problem.evaluate(exact)
        assert np.abs(evaluation.gradient).max() < 1e-14


def test_a_fit_with_free_coordinates_and_no_certificate_converges_by_its_gradient():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    y = X @ [1.0, -2.0, 3.0] + rng.normal(size=60)

    oracle = lw.FunctionOracle(
        lambda w, i: (X[i] @ w - y[i]) ** 2 / 2,
        lambda w, q, i: X[i].T @ (q * (X[i] @ w - y[i])),
        size=60,
        dim=3,
        l2=0.1,
        penalised=2,
        convex=True,
    )
    result = lw.minimize(oracle, algorithm=lw.LBFGS(), max_passes=60)
    assert result.status is lw.Status.CONVERGED
    assert result.gap is None
    assert "scaled gradient norm" in result.message
