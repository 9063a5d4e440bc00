"""Cases from practice beyond the value of a risk; each test is named by its identifier.

==================  ====================================================================================================
Case                Where it is held
==================  ====================================================================================================
BL-01, 02, 05, 07,  test_cases_risks.py
08, 10 to 15, 25
BL-03, 06, 12, 13,  the values of risks in test_cases_risks.py; fits and other inputs here
28
BL-34 to 36         test_sklearn_data.py (labels, columns), test_sklearn_state.py (clones, parameters)
BL-37 to 42         test_cases_processes.py
BL-43 to 45         the steps of `.ci/run`: baseline instructions (check_baseline.py), wheel in an environment of its own,
                    lowest versions by nox; no test inside one process can show them
BL-09, 24           left out: Wasserstein and Sinkhorn models are not part of the package
BL-46, 47           left out: the package has no layer for PyTorch
BL-48 to 53         left out: the package has no portfolio models (BL-04 is here: it is a value of a risk)
==================  ====================================================================================================
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import leeward as lw

# BL-16: logistic data with row counts, and the minimiser of the weighted mean loss + (0.01/2) beta^2.
X4, Y4, COUNTS = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1, 1, -1, 1]), np.array([40, 3, 2, 55])
W4, P4 = np.array([2.33023085700318, -3.16177745364801]), 0.125362298622951

# BL-19: (1/2n) |y - Xw - b|^2 + 0.05 |w|^2.
X6 = np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 3], [1, 0, 1], [0, 1, 0], [2, 0, 0]])
Y6 = np.array([11, 13, 8, 10.5, 12, 12])
W6 = np.array([13465 / 41812, 17735 / 20906, -40055 / 41812, 115852 / 10453])

T8 = np.array(
    [
        [0.020, -0.010, 0.004],
        [-0.031, 0.012, 0.003],
        [0.015, 0.022, -0.002],
        [-0.044, -0.008, 0.001],
        [0.027, -0.025, 0.002],
        [0.008, 0.017, -0.012],
        [-0.012, -0.030, 0.005],
        [0.033, 0.006, -0.004],
    ]
)


def ridge(X: Any = X6, y: Any = Y6, **settings: Any) -> lw.Result:
    return lw.minimize(lw.LinearModel(X, y, "squared", l2=0.1), **{"tol": 1e-13, **settings})


def test_bl_03_missing_entries_of_data_targets_and_weights_are_named() -> None:
    X = X6.copy()
    X[3, 2] = np.nan
    y, p = Y6.copy(), np.ones(6)
    y[4], p[1] = np.inf, np.nan
    for data in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match="X must hold finite numbers, got nan in row 3, column 2"):
            lw.LinearModel(data, Y6, "squared")
    with pytest.raises(ValueError, match="y must hold finite numbers, got inf at position 4"):
        lw.LinearModel(X6, y, "squared")
    with pytest.raises(ValueError, match="sample_weight must hold finite numbers, got nan at position 1"):
        lw.LinearModel(X6, Y6, "squared", sample_weight=p)
    hidden = np.ma.masked_greater(Y6, 12.5)
    with pytest.raises(ValueError, match="y has masked entries"):
        lw.LinearModel(X6, hidden, "squared")


@pytest.mark.parametrize(
    ("weights", "tail", "value"),
    [
        ((0.5, 0.3, 0.2), 0.25, 0.0191),
        ((0.5, 0.3, 0.2), 0.3, 0.0178),
        ((0.5, 0.3, 0.2), 0.05, 0.0242),
        ((1, 0, 0), 0.25, 0.0375),
    ],
)
def test_bl_04_a_risk_is_evaluated_at_any_weights_without_a_fit(
    weights: tuple[float, ...], tail: float, value: float
) -> None:
    assert lw.CVaR(tail)(-T8 @ weights) == pytest.approx(value, rel=1e-12)


def test_bl_04_the_value_after_a_fit_is_that_function_at_the_fitted_weights() -> None:
    problem = lw.Robust(lw.LinearModel(X6, Y6, "squared", l2=0.1), lw.CVaR(0.3))
    result = lw.minimize(problem)
    by_hand = lw.CVaR(0.3)((X6 @ result.x[:3] + result.x[3] - Y6) ** 2 / 2) + 0.05 * result.x[:3] @ result.x[:3]
    assert result.fun == pytest.approx(by_hand, rel=1e-12)
    assert problem.value(result.x) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(
    ("alpha", "intercept", "objective"), [(1, 2.5, 18.75), (0.75, 10 / 3, 200 / 9), (0.5, 5, 25), (0.1, 5, 25)]
)
def test_bl_06_a_smaller_tail_is_the_more_cautious_fit(alpha: float, intercept: float, objective: float) -> None:
    model = lw.LinearModel(np.zeros((4, 1)), [0, 0, 0, 10], "squared", l2=0.1)
    result = lw.minimize(lw.Robust(model, lw.CVaR(alpha)), tol=1e-9)
    assert 2 * result.fun == pytest.approx(objective, rel=1e-8)  # the loss here has a half
    assert result.x == pytest.approx([0, intercept], rel=1e-4, abs=1e-9)


def test_bl_12_and_13_groups_of_any_size_weigh_the_same_in_a_fit() -> None:
    model = lw.LinearModel(np.zeros((4, 1)), [0.0, 0.0, 0.0, 4.0], "squared", l2=1.0)
    result = lw.minimize(lw.Robust(model, lw.Mean(), groups=[7, 7, 7, -3]), tol=1e-12)
    assert result.x == pytest.approx([0, 2.0], abs=1e-6)
    assert result.weights == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2], rel=1e-14)


@pytest.mark.parametrize("factor", [1, 10, 1e-200, 1e100])
def test_bl_16_and_17_row_weights_are_repeated_rows_and_only_ratios_matter(factor: float) -> None:
    weighted = lw.LinearModel(X4, Y4, l2=0.01, sample_weight=factor * COUNTS)
    repeated = lw.LinearModel(np.repeat(X4, COUNTS, axis=0), np.repeat(Y4, COUNTS), l2=0.01)
    for model in (weighted, repeated):
        result = lw.minimize(model, tol=1e-12)
        assert result.x == pytest.approx(W4, rel=1e-6)
        assert result.fun == pytest.approx(P4, rel=1e-11)


def test_bl_16_the_smoothness_bound_knows_the_intercept() -> None:
    assert lw.LinearModel(X4, Y4).smoothness() == pytest.approx((X4[:, 0] ** 2 + 1) / 4, rel=1e-14)


def test_bl_18_unscaled_features_reach_the_optimum() -> None:
    small = [0.5, 1.5, -0.5, 2, -1, 0.2, 1.1, -0.7]
    large = [120000, 90000, 150000, 60000, 110000, 80000, 140000, 70000]
    model = lw.LinearModel(np.column_stack([small, large]), [1, 1, -1, 1, -1, -1, 1, -1], l2=0.1)
    result = lw.minimize(model, tol=1e-12)
    assert result.x == pytest.approx([1.52747676582111, 1.41192934157879e-5, -2.06841321091765], rel=1e-5)
    assert result.fun == pytest.approx(0.380451288620778, rel=1e-11)


FORMATS: dict[str, Any] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "csr": sparse.csr_matrix,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "csr array": sparse.csr_array,
    "lil": sparse.lil_array,
    ">f8": lambda X: X.astype(">f8"),
    ">f4": lambda X: X.astype(">f4"),
    ">i8": lambda X: X.astype(">i8"),
    "object": lambda X: X.astype(object),
    "list": lambda X: X.tolist(),
}


@pytest.mark.parametrize(
    "algorithm", [lw.LBFGS(), lw.Nesterov(lw.Minibatch(6, replace=False))], ids=["LBFGS", "Nesterov"]
)
@pytest.mark.parametrize("form", FORMATS)
def test_bl_19_and_31_every_format_gives_the_same_model(form: str, algorithm: Any) -> None:
    y = Y6.astype(form) if form in (">f8", ">f4") else Y6
    exact = isinstance(algorithm, lw.LBFGS)
    result = ridge(FORMATS[form](X6), y, algorithm=algorithm, **({} if exact else {"tol": 1e-9, "max_passes": 5000}))
    assert result.x == pytest.approx(W6, rel=1e-6 if exact else 1e-3)
    plain = ridge(X6, algorithm=algorithm, **({} if exact else {"tol": 1e-9, "max_passes": 5000}))
    assert result.fun == pytest.approx(plain.fun, rel=1e-12 if exact else 1e-8)


def test_bl_20_columns_near_the_end_of_the_double_range_are_named() -> None:
    rng = np.random.default_rng(0)
    for X in (rng.uniform(5e306, 1.7e308, (10, 2)), np.column_stack([rng.normal(size=10), np.full(10, 1e200)])):
        with pytest.raises(ValueError, match=r"overflow when squared: rescale column \d of X"):
            lw.LinearModel(X, [0, 1] * 5)


@pytest.mark.filterwarnings("ignore::leeward.ConvergenceWarning")
@pytest.mark.parametrize("scale", [1e140, 1e-140])
def test_bl_20_scales_that_can_be_squared_end_finite(scale: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = lw.LinearModel(scale * X, X[:, 0] + rng.normal(size=30) > 0, l2=0.1)
    result = lw.minimize(lw.Robust(model, lw.KL(penalty=1.0)))
    assert np.isfinite(result.x).all()
    assert np.isfinite(result.fun)


def test_bl_21_a_tolerance_below_float32_is_reached_in_doubles() -> None:
    result = ridge(X6.astype(np.float32), Y6.astype(np.float32), tol=1e-10)
    assert result.status is lw.Status.CONVERGED
    assert result.x == pytest.approx(W6, rel=1e-6)
    assert result.nit < 1000


def test_bl_22_a_row_of_weight_zero_changes_nothing() -> None:
    X, y = np.vstack([X4, [[1000.0]]]), np.append(Y4, 1)
    result = lw.minimize(lw.LinearModel(X, y, l2=0.01, sample_weight=np.append(COUNTS, 0)), tol=1e-12)
    assert result.x == pytest.approx(W4, rel=1e-6)
    assert result.weights[-1] == 0
    sgd = [
        lw.minimize(
            lw.LinearModel(X[:m], y[:m], l2=0.01, sample_weight=p), algorithm=lw.SGD(lw.Minibatch(2)), max_passes=200
        )
        for m, p in ((4, COUNTS), (5, np.append(COUNTS, 0)))
    ]
    assert sgd[0].fun < 0.15
    assert sgd[1].fun < 0.15  # the step does not know the far row either


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([40, -1, 2, 55], "sample_weight must not be negative, got -1 at position 1"),
        ([0, 0, 0, 0], "sample_weight must have a positive sum, got all zeros"),
        ([1, np.nan, 1, 1], "sample_weight must hold finite numbers, got nan at position 1"),
        ([1, 1, 1], r"sample_weight must have shape \(4,\), got shape \(3,\)"),
    ],
)
def test_bl_22_and_25_useless_weights_are_named(weights: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        lw.LinearModel(X4, Y4, sample_weight=weights)


def test_bl_23_a_run_that_cannot_converge_says_so_once() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    problem = lw.Robust(lw.LinearModel(X, X[:, 0] + X[:, 1] ** 2 > 1, l2=1e-4), lw.KL(radius=0.1))
    with pytest.warns(lw.ConvergenceWarning) as caught:
        result = lw.minimize(problem, tol=1e-12, max_passes=3)
    assert len(caught) == 1
    assert result.status is lw.Status.BUDGET
    assert not result.success
    assert result.gap is not None
    assert result.gap > 1e-12 * result.fun


@pytest.mark.parametrize("algorithm", [lw.LBFGS(), lw.SGD(lw.Minibatch(2)), lw.Nesterov(lw.Minibatch(2))], ids=repr)
def test_bl_23_an_oracle_that_turns_nan_is_never_converged(algorithm: Any) -> None:
    calls = itertools.count()

    def losses(w: Any, index: Any) -> Any:
        return np.full(len(index), np.nan) if next(calls) >= 5 else np.cosh(w[0] - index)

    def gradient(w: Any, weights: Any, index: Any) -> Any:
        return np.array([weights @ np.sinh(w[0] - index)])

    oracle = lw.FunctionOracle(losses, gradient, 4, 1)
    with pytest.raises(lw.OracleError, match="sample"):
        lw.minimize(oracle, algorithm=algorithm, max_passes=100, tol=1e-14)


def test_bl_26_sums_over_any_split_of_the_rows_agree() -> None:
    oracle = lw.FunctionOracle(
        lambda w, index: (index + 1) * w[0], lambda w, q, index: np.array([q @ (index + 1.0)]), 10, 1
    )
    whole = oracle.gradient([0.0], np.full(10, 0.1))
    parts = [oracle.gradient([0.0], np.full(len(i), 0.1), i) for i in np.split(np.arange(10), [4, 8])]
    assert whole == pytest.approx([5.5], rel=1e-15)
    assert np.sum(parts) == pytest.approx(5.5, rel=1e-15)


LOSSES = ["squared", lw.losses.Huber(0.2), "absolute", lw.losses.Quantile(0.7), "logistic", "hinge", "squared_hinge"]
LOSSES += ["poisson", "softmax"]


RISKS = [lw.Mean(), lw.CVaR(0.8), lw.KL(radius=0.05)]


def test_bl_27_every_option_changes_the_answer() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    X[:, 0] += 2 * y - 0.3
    seen = {}
    for loss, risk, intercept in itertools.product(LOSSES, RISKS, [True, False]):
        result = lw.minimize(lw.Robust(lw.LinearModel(X, y, loss, l2=0.3, intercept=intercept), risk), tol=1e-4)
        seen[str(loss), repr(risk), intercept] = result.fun
        direct = lw.LinearModel(X, y, loss, l2=0.3, intercept=intercept)
        coef = result.x[: direct.penalised]
        assert result.fun == pytest.approx(risk(direct.losses(result.x)) + 0.15 * coef @ coef, rel=1e-12)
    values = np.sort(list(seen.values()))
    assert len(values) == 54
    assert np.diff(values).min() > 1e-7  # no two options mean the same


def test_bl_28_logistic_loss_at_large_margins() -> None:
    model = lw.LinearModel(np.array([[-800.0], [-40], [40], [800]]), np.ones(4), "logistic", intercept=False)
    losses, slopes = model.losses([1.0]), model.slopes([1.0])
    assert losses == pytest.approx([800, 40, 4.2483542552916e-18, 0], rel=1e-13, abs=0)
    assert slopes == pytest.approx([-1, -1, -4.2483542552916e-18, 0], rel=1e-13, abs=0)
    assert np.isfinite(lw.KL(radius=0.3)(losses))
    assert np.isfinite(lw.Tilted(1.0)(losses))


def test_bl_29_read_only_input_is_enough_and_stays_as_it_was(tmp_path: Any) -> None:
    X, y, p = X6.copy(), Y6.copy(), np.ones(6)
    csr = sparse.csr_array(X)
    for part in (X, y, p, csr.data, csr.indices, csr.indptr):
        part.flags.writeable = False
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for data in (X, csr, mapped):
        model = lw.LinearModel(data, y, "squared", l2=0.1, sample_weight=p)
        assert lw.minimize(model, tol=1e-13).x == pytest.approx(W6, rel=1e-6)
    assert X.tobytes() == X6.tobytes()
    assert y.tobytes() == Y6.tobytes()


@pytest.mark.parametrize("name", ["steps", "backwards", "transposed", "broadcast", "field"])
def test_bl_30_a_view_fits_to_the_bits_of_its_copy(name: str) -> None:
    Z = np.random.default_rng(0).normal(size=(40, 12))
    field = np.zeros(40, dtype=[("flag", "u1"), ("x", "f8", (3,))])
    field["x"] = Z[:, :3]
    X = {
        "steps": Z[::2, ::3],
        "backwards": Z[::-1, ::-1],
        "transposed": Z.T,
        "broadcast": np.broadcast_to(Z[:, :1], (40, 2)),
        "field": field["x"],
    }[name]
    y = np.random.default_rng(1).normal(size=2 * len(X))[::-2]
    view, copied = (
        lw.minimize(lw.Robust(lw.LinearModel(A, b, "huber", l2=0.1), lw.CVaR(0.5)))
        for A, b in ((X, y), (np.array(X, order="C"), y.copy()))
    )
    assert view.x.tobytes() == copied.x.tobytes()


@pytest.mark.parametrize("types", [("i8", "i8"), ("i4", "i8"), ("i8", "i4")])
def test_bl_32_wide_indices_are_read_and_wrong_ones_refused(types: tuple[str, str]) -> None:
    X = sparse.csr_array(X6)
    X.indices, X.indptr = X.indices.astype(types[0]), X.indptr.astype(types[1])
    assert ridge(X).x == pytest.approx(W6, rel=1e-6)
    X.indices[2] = 3
    with pytest.raises(ValueError, match=r"X\.indices\[2\] is 3 \(row 2\), must be in \[0, 3\)"):
        lw.LinearModel(X, Y6, "squared")


def test_bl_33_offsets_beyond_two_to_the_31_are_read_where_they_lie(tmp_path: Any) -> None:
    """A sparse file of 2**31 + 46341 bytes-wide entries: rows of zeros but the last."""
    rows, columns = 46342, 46341
    path = tmp_path / "wide.dat"
    with path.open("wb") as file:
        try:
            file.truncate(4 * rows * columns)
        except OSError:
            pytest.skip("no file of 8.6 GB can be made here")
    X = np.memmap(path, dtype=np.float32, mode="r+", shape=(rows, columns))
    X[-1, -1] = 2.0
    if os.environ.get("LEEWARD_SANITIZED"):
        pytest.skip("reads 8.6 GB")
    view = X[-3:]  # the last rows, far beyond 2**33 bytes from the start
    model = lw.LinearModel(view, [0.0, 0.0, 1.0], "squared", intercept=False)
    w = np.zeros(columns)
    w[-1] = 3.0
    assert model.losses(w).tolist() == [0.0, 0.0, 12.5]
    apart = lw.LinearModel(X[:: rows - 1], [0.0, 1.0], "squared", intercept=False)  # a row stride of 2**33 bytes
    assert apart.losses(w).tolist() == [0.0, 12.5]
    assert apart.gradient(w, [1.0, 1.0])[-1] == 10.0
