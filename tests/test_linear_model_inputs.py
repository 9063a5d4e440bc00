"""What linear models take, what they convert, and the words with which they refuse the rest."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

import leeward as lw

# Case BL-19: squared loss, l2 = 0.1.
X19 = np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 3], [1, 0, 1], [0, 1, 0], [2, 0, 0]])
Y19 = np.array([11, 13, 8, 10.5, 12, 12])
W19 = np.array([13465 / 41812, 17735 / 20906, -40055 / 41812, 115852 / 10453])


def gradient19(X, y=Y19):
    """Gradient of the objective of BL-19 at its solution."""
    model = lw.LinearModel(X, y, "squared", l2=0.1)
    return model.gradient(W19, np.full(6, 1 / 6)) + 0.1 * np.append(W19[:3], 0.0)


FORMATS = {
    "dense C": lambda: X19.copy(),
    "dense Fortran": lambda: np.asfortranarray(X19),
    "list of lists": lambda: X19.tolist(),
    "integers": lambda: X19.astype(np.int32),
    "float16": lambda: X19.astype(np.float16),
    "float32": lambda: X19.astype(np.float32),
    "big-endian doubles": lambda: X19.astype(">f8"),
    "big-endian floats": lambda: X19.astype(">f4"),
    "big-endian integers": lambda: X19.astype(">i8"),
    "objects": lambda: X19.astype(object),
    "csr matrix": lambda: sparse.csr_matrix(X19),
    "csr array": lambda: sparse.csr_array(X19),
    "csr float32": lambda: sparse.csr_array(X19.astype(np.float32)),
    "csr integers": lambda: sparse.csr_array(X19.astype(np.int64)),
    "csc": lambda: sparse.csc_array(X19),
    "coo": lambda: sparse.coo_array(X19),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_gives_the_stationary_point_of_case_19(name):
    assert np.abs(gradient19(FORMATS[name]())).max() < 1e-13


@pytest.mark.parametrize("labels", ["<f8", ">f8", ">f4"])
def test_labels_of_any_byte_order(labels):
    assert np.abs(gradient19(X19, Y19.astype(labels))).max() < 1e-13
    signs = lw.LinearModel(X19, np.array([0, 1, 1, 0, 1, 0], dtype=">i4"))
    np.testing.assert_array_equal(
        signs.losses(W19), lw.LinearModel(X19, [False, True, True, False, True, False]).losses(W19)
    )


def wide_csr(index_type, pointer_type):
    X = sparse.csr_array(X19)
    X.indices, X.indptr = X.indices.astype(index_type), X.indptr.astype(pointer_type)
    return X


@pytest.mark.parametrize(
    ("index_type", "pointer_type"), [(np.int64, np.int64), (np.int32, np.int64), (np.int64, np.int32)]
)
def test_csr_with_64_bit_indices(index_type, pointer_type):
    assert np.abs(gradient19(wide_csr(index_type, pointer_type))).max() < 1e-13


def test_csr_with_unsorted_and_repeated_entries_means_their_sum():
    data, indices, indptr = [2.0, 1.0, -0.5, 0.5, 3.0], [2, 0, 2, 2, 1], [0, 4, 4, 5]
    X = sparse.csr_array((data, indices, indptr), shape=(3, 3))
    dense = np.array([[1.0, 0, 2.0], [0, 0, 0], [0, 3.0, 0]])
    y, w = [1.0, 2.0, 3.0], np.array([0.3, -0.2, 0.7, 0.1])
    given, summed = lw.LinearModel(X, y, "squared"), lw.LinearModel(dense, y, "squared")
    np.testing.assert_allclose(given.losses(w), summed.losses(w), rtol=1e-15)
    np.testing.assert_allclose(given.gradient(w, np.ones(3)), summed.gradient(w, np.ones(3)), rtol=1e-14)
    np.testing.assert_allclose(given.smoothness(), summed.smoothness(), rtol=1e-15)
    np.testing.assert_array_equal(given.rows([2, 0, 1]), dense[[2, 0, 1]])


@pytest.mark.parametrize("column", [3, -1, 2**31 - 1])
def test_a_csr_index_out_of_range_is_refused_before_it_is_used(column):
    X = sparse.csr_array(X19)
    X.indices[3] = column
    with pytest.raises(ValueError, match=rf"X\.indices\[3\] is {column} \(row 3\), must be in \[0, 3\)"):
        lw.LinearModel(X, Y19, "squared")


@pytest.mark.parametrize("pointer", [[0, 1, 2, 3, 5, 6, 9], [0, 2, 1, 3, 5, 6, 7], [1, 1, 2, 3, 5, 6, 7]])
def test_malformed_csr_pointers_are_refused(pointer):
    X = sparse.csr_array(X19)
    X.indptr = np.array(pointer, dtype=np.int32)
    with pytest.raises(ValueError, match=r"X\.indptr is not a valid list of row starts at row"):
        lw.LinearModel(X, Y19, "squared")


def views(Z):
    """Case BL-30: views of one array, of the kinds that compiled code misreads."""
    field = np.zeros(40, dtype=[("flag", "u1"), ("x", "f8", (12,))])
    field["x"] = Z
    return {
        "strided": Z[::2, ::3],
        "reversed": Z[::-1, ::-1],
        "reversed rows": Z[::-1],
        "transposed": Z.T,
        "rows apart": Z[:, 2:9],
        "every third row": Z[::3],
        "broadcast column": np.broadcast_to(Z[:, :1], (40, 12)),
        "broadcast rows": np.broadcast_to(Z[:1], (40, 12)),
        "unaligned field": field["x"],
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", views(np.zeros((40, 12))))
def test_views_give_the_bits_of_a_contiguous_copy(name, dtype):
    rng = np.random.default_rng(0)
    X = views(rng.standard_normal((40, 12)).astype(dtype))[name]
    y = rng.standard_normal(2 * len(X))[::-2]
    w, q = rng.standard_normal(X.shape[1] + 1), rng.standard_normal(len(X))
    given, plain = lw.LinearModel(X, y, "huber"), lw.LinearModel(np.array(X, order="C"), y.copy(), "huber")
    np.testing.assert_array_equal(given.losses(w), plain.losses(w))
    np.testing.assert_array_equal(given.gradient(w, q), plain.gradient(w, q))
    np.testing.assert_array_equal(given.gradient(w[::-1], q[::-1]), plain.gradient(w[::-1].copy(), q[::-1].copy()))


def test_read_only_arrays_are_used_where_they_lie(tmp_path):
    # Case BL-29: a model over a file takes no copy, and its labels and weights may be read-only too.
    path = tmp_path / "X.dat"
    stored = np.memmap(path, dtype=np.float32, mode="w+", shape=(64, 5))
    stored[:] = np.random.default_rng(0).standard_normal((64, 5))
    stored.flush()
    X = np.memmap(path, dtype=np.float32, mode="r", shape=(64, 5))
    y, p = np.arange(64) % 2, np.ones(64)
    y.flags.writeable = p.flags.writeable = False
    model = lw.LinearModel(X, y, sample_weight=p)
    assert np.shares_memory(model._X, X)
    dense = lw.LinearModel(np.array(X), y)
    w = np.linspace(-1, 1, 6)
    w.flags.writeable = False
    np.testing.assert_array_equal(model.losses(w), dense.losses(w))
    csr = sparse.csr_array(np.array(X))
    for part in (csr.data, csr.indices, csr.indptr):
        part.flags.writeable = False
    over_csr = lw.LinearModel(csr, y)
    assert np.shares_memory(over_csr._X.data, csr.data)
    assert np.shares_memory(over_csr._X.indices, csr.indices)
    np.testing.assert_allclose(over_csr.losses(w), dense.losses(w), rtol=1e-13)


def test_arrays_live_as_long_as_the_model():
    w = np.array([0.5, -1.0, 0.25])

    def made():
        X = np.random.default_rng(0).standard_normal((500, 2))
        return lw.LinearModel(X, np.arange(500) % 2), lw.LinearModel(sparse.csr_array(X), np.arange(500) % 2)

    dense, csr = made()
    ballast = [np.full((500, 2), np.nan) for _ in range(50)]
    np.testing.assert_allclose(dense.losses(w), csr.losses(w), rtol=1e-13)
    assert len(ballast) == 50


@pytest.mark.parametrize("sparse_format", [None, "csr"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.nan, "X must hold finite numbers, got nan in row 3, column 2"),
        (-np.inf, "X must hold finite numbers, got -inf in row 3, column 2"),
        (1.7e308, r"X\[3, 2\] is 1.7e\+308; numbers beyond 1e\+150 overflow when squared: rescale column 2 of X"),
    ],
)
def test_numbers_that_cannot_be_used_are_named_by_row_and_column(value, words, sparse_format):
    X = np.ones((5000, 3))
    X[3, 2] = X[4000, 1] = value
    with pytest.raises(ValueError, match=words):
        lw.LinearModel(X if sparse_format is None else sparse.csr_array(X), np.arange(5000) % 2)


def test_the_largest_floats_are_taken():
    X = np.full((4, 2), np.finfo(np.float32).max)
    assert np.isfinite(lw.LinearModel(X.astype(np.float32), [0, 1, 0, 1], "squared").losses([1e-3, -1.0, 0.0])).all()


SMALL = np.ones((4, 2))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((np.ones(4), [0, 1, 0, 1]), ValueError, r"X must have shape \(n, d\), got shape \(4,\)"),
        (
            (np.ones((4, 0)), [0, 1, 0, 1]),
            ValueError,
            r"X must have at least one row and one column, got shape \(4, 0\)",
        ),
        ((np.ones((0, 4)), []), ValueError, r"at least one row and one column, got shape \(0, 4\)"),
        ((sparse.csr_array((0, 4)), []), ValueError, r"at least one row and one column, got shape \(0, 4\)"),
        ((SMALL + 1j, [0, 1, 0, 1]), TypeError, "X must hold real numbers, got dtype complex128"),
        ((SMALL.astype(str), [0, 1, 0, 1]), TypeError, "X must hold real numbers, got dtype <U"),
        ((np.full((4, 2), "a", dtype=object), [0, 1, 0, 1]), TypeError, "X must hold real numbers, got objects"),
        ((np.ma.masked_equal(SMALL, 1.0), [0, 1, 0, 1]), ValueError, "X has masked entries"),
        ((SMALL, [0, 1, 0]), ValueError, r"y must have shape \(4,\), got shape \(3,\)"),
        ((SMALL, [[0], [1], [0], [1]]), ValueError, r"y must be one-dimensional, got shape \(4, 1\)"),
        ((SMALL, ["a", "b", "a", "b"]), TypeError, "y must hold real numbers"),
        ((SMALL, [0, np.inf, 1, 1], "squared"), ValueError, "y must hold finite numbers, got inf at position 1"),
        ((SMALL, [0, 1e200, 1, 1], "squared"), ValueError, r"y\[1\] is 1e\+200; numbers beyond 1e\+150"),
        ((SMALL, [0, 1, 2, 1]), ValueError, "labels -1/.1 or 0/1 for the logistic loss, got 2 at position 2"),
        ((SMALL, [0, 1, -1, 1], "hinge"), ValueError, "for the hinge loss, got -1, 0 and 1 together"),
        ((SMALL, [0, 1.5, 1, 0], "softmax"), ValueError, r"class numbers 0, 1, \.\.\. for the softmax loss, got 1.5"),
        ((SMALL, [0, 1, 3, 0], lw.losses.Softmax(3)), ValueError, r"below 3 for the softmax loss, got 3 at position 2"),
        ((SMALL, [0, 1, -2, 0], "softmax"), ValueError, "softmax loss, got -2 at position 2"),
        (
            (SMALL, [0, 1, -2, 0], "poisson"),
            ValueError,
            "y must not be negative for the poisson loss, got -2 at position 2",
        ),
        ((SMALL, [0, 1, 0, 1], "log"), ValueError, "loss must be one of absolute, .*, got 'log'"),
    ],
)
def test_wrong_data_are_refused_in_words(arguments, error, words):
    with pytest.raises(error, match=words):
        lw.LinearModel(*arguments)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"sample_weight": [1, 1, 1]}, ValueError, r"sample_weight must have shape \(4,\), got shape \(3,\)"),
        (
            {"sample_weight": [1, np.nan, 1, 1]},
            ValueError,
            "sample_weight must hold finite numbers, got nan at position 1",
        ),
        ({"sample_weight": [1, 1, -2, 1]}, ValueError, "sample_weight must not be negative, got -2 at position 2"),
        ({"sample_weight": [0, 0, 0, 0]}, ValueError, "sample_weight must have a positive sum, got all zeros"),
        ({"l2": -1.0}, ValueError, "l2 must be finite and not negative, got -1.0"),
        ({"l2": np.inf}, ValueError, "l2 must be finite and not negative, got inf"),
        ({"threads": 0}, ValueError, "threads must be an integer of at least 1, got 0"),
        ({"threads": 2.5}, TypeError, "threads must be an integer of at least 1 or None, got 2.5"),
    ],
)
def test_wrong_settings_are_refused_in_words(settings, error, words):
    with pytest.raises(error, match=words):
        lw.LinearModel(SMALL, [0, 1, 0, 1], **settings)


def test_wrong_calls_are_refused_in_words():
    model = lw.LinearModel(SMALL, [0, 1, 0, 1])
    w, q = np.zeros(3), np.ones(4)
    refused = [
        (lambda: model.losses(np.zeros(2)), ValueError, r"w must have shape \(3,\), got shape \(2,\)"),
        (lambda: model.losses(w, [0, 4]), IndexError, r"index\[1\] is 4, must be in \[0, 4\)"),
        (lambda: model.losses(w, [-1]), IndexError, r"index\[0\] is -1, must be in \[0, 4\)"),
        (lambda: model.gradient(w, [1.0], [2**40]), IndexError, r"index\[0\] is 1099511627776"),
        (lambda: model.losses(w, [0.0, 1.0]), TypeError, "index must hold sample numbers, got dtype float64"),
        (lambda: model.losses(w, [True] * 4), TypeError, "index must hold sample numbers, got dtype bool"),
        (lambda: model.losses(w, [[0]]), ValueError, r"index must be one-dimensional, got shape \(1, 1\)"),
        (lambda: model.gradient(w, q, [0, 1]), ValueError, r"weights must have shape \(2,\), got shape \(4,\)"),
        (lambda: model.losses(w, out=np.zeros(3)), ValueError, r"out must have shape \(4,\), got shape \(3,\)"),
        (
            lambda: model.losses(w, out=np.zeros(4, np.float32)),
            TypeError,
            "out must be a writable, C-contiguous float64",
        ),
        (lambda: model.losses(w, out=np.zeros(8)[::2]), TypeError, "out must be a writable, C-contiguous float64"),
        (lambda: model.scores(w, np.ones((2, 3))), ValueError, "X must have 2 columns, got 3"),
        (
            lambda: model.scores(w, [[np.nan, 0.0]]),
            ValueError,
            "X must hold finite numbers, got nan in row 0, column 0",
        ),
        (lambda: model.adjoint(np.ones(3)), ValueError, r"v must have shape \(4,\), got shape \(3,\)"),
        (lambda: model.conjugate(np.ones((4, 1))), ValueError, r"s must have shape \(4,\), got shape \(4, 1\)"),
    ]
    for call, error, words in refused:
        with pytest.raises(error, match=words):
            call()


def test_empty_batches_are_answered():
    model = lw.LinearModel(SMALL, [0, 1, 0, 1])
    assert model.losses(np.zeros(3), []).shape == (0,)
    np.testing.assert_array_equal(model.gradient(np.zeros(3), [], []), np.zeros(3))


def test_results_are_written_where_asked():
    model = lw.LinearModel(SMALL, [0, 1, 0, 1])
    losses, gradient = np.full(4, np.nan), np.full(3, np.nan)
    assert model.losses(np.zeros(3), out=losses) is losses
    assert model.gradient(np.zeros(3), np.ones(4), out=gradient) is gradient
    np.testing.assert_allclose(losses, np.log(2))
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_models_pickle_and_copy_to_equal_models(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    model = lw.LinearModel(kind(X), rng.integers(0, 3, 30), lw.losses.Softmax(4), l2=0.5, sample_weight=np.arange(30.0))
    w = rng.standard_normal(model.dim)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.losses(w), model.losses(w))
        np.testing.assert_array_equal(twin.sample_weight, model.sample_weight)
        assert (twin.l2, twin.n_outputs, twin.penalised, repr(twin)) == (0.5, 4, 16, repr(model))


def test_the_base_class_is_not_made():
    with pytest.raises(
        TypeError, match="use LinearModel, FunctionOracle, CFunctionOracle, SamplerOracle, PointOracle or from_vjp"
    ):
        lw.Oracle()
