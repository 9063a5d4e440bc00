"""A table: each kind of bad input, at each public entry, has its words or its stated answer."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leeward as lw

pytest.importorskip("sklearn")

from leeward.sklearn import RobustClassifier, RobustRegressor

X = np.random.default_rng(0).standard_normal((6, 2))
Y = np.array([0.0, 1, 0, 1, 0, 1])
ONES = np.ones(6)
MODEL = lw.LinearModel(X, Y, l2=0.1)


def spoiled(value: float) -> Callable[[np.ndarray], Any]:
    def spoil(array: np.ndarray) -> Any:
        copy = np.array(array, dtype=float)
        copy.flat[1] = value
        return copy

    return spoil


BAD: dict[str, Callable[[np.ndarray], Any]] = {
    "nan": spoiled(np.nan),
    "infinity": spoiled(-np.inf),
    "huge": spoiled(1e200),
    "empty": lambda a: a[:0],
    "short": lambda a: a[:-1],
    "three-dimensional": lambda a: np.zeros((2, 2, 2)),
    "scalar": lambda a: 3.0,
    "complex": lambda a: a + 1j,
    "letters": lambda a: np.full(a.shape, "a"),
    "objects": lambda a: np.full(a.shape, object()),
    "masked": lambda a: np.ma.masked_equal(a, a.flat[1]),
    "ragged": lambda a: [[1.0], [1.0, 2.0]],
    "generator": lambda a: (v for v in a),
    "dictionary": lambda a: {"a": 1},
}


def user_losses(values: Any) -> None:
    lw.FunctionOracle(lambda w, i: values, lambda w, q, i: np.zeros(1), 6, 1).losses([0.0])


def user_gradient(values: Any) -> None:
    lw.FunctionOracle(lambda w, i: np.zeros(6), lambda w, q, i: values, 6, 2).gradient([0.0, 0.0], ONES)


ENTRIES: dict[str, Callable[[Callable[[np.ndarray], Any]], Any]] = {
    "risk": lambda bad: lw.CVaR(0.5)(bad(Y)),
    "solve": lambda bad: lw.KL(radius=0.1).solve(bad(Y)),
    "base weights": lambda bad: lw.CVaR(0.5)(Y, bad(ONES)),
    "X": lambda bad: lw.LinearModel(bad(X), Y),
    "y": lambda bad: lw.LinearModel(X, bad(Y), "squared"),
    "sample_weight": lambda bad: lw.LinearModel(X, Y, sample_weight=bad(ONES)),
    "losses": lambda bad: MODEL.losses(bad(np.ones(3))),
    "gradient": lambda bad: MODEL.gradient(np.ones(3), bad(ONES)),
    "evaluate": lambda bad: lw.Robust(MODEL).evaluate(bad(np.ones(3))),
    "minimize": lambda bad: lw.minimize(MODEL, bad(np.ones(3)), tol=1e-2),
    "groups": lambda bad: lw.Robust(MODEL, groups=bad(np.arange(6))),
    "user losses": lambda bad: user_losses(bad(Y)),
    "user gradient": lambda bad: user_gradient(bad(np.zeros(2))),
    "classifier": lambda bad: RobustClassifier(l2=0.1).fit(bad(X), Y),
    "regressor": lambda bad: RobustRegressor(l2=0.1).fit(X, bad(Y)),
    "weighted fit": lambda bad: RobustClassifier(l2=0.1).fit(X, Y, sample_weight=bad(ONES)),
}

# Words of an error, or None where the input has an answer (stated in a test below). "*" is any entry that is not named.
SKLEARN_NAN = "Input (X|y) contains NaN|sample_weight must be finite, got nan at position 1"
TABLE: dict[str, dict[str, str | None]] = {
    "nan": {
        "risk|solve": r"losses\[1\] is nan; losses must be finite",
        "base weights": r"sample_weight\[1\] is nan; sample weights must be finite and not negative",
        "X": "X must hold finite numbers, got nan in row 0, column 1",
        "y|sample_weight": "(y|sample_weight) must hold finite numbers, got nan at position 1",
        "losses|gradient": None,
        "evaluate|minimize": "w must be finite, got nan at position 1",
        "groups": "groups must be integers, got dtype float64",
        "user losses": r"losses\(w, index\) must return finite numbers, got nan for sample 1 \(entry 1 of the batch\)",
        "user gradient": r"gradient\(w, weights, index\) must return finite numbers, got nan in coordinate 1",
        "*": SKLEARN_NAN,
    },
    "infinity": {
        "risk|solve": r"losses\[1\] is -inf; losses must be finite",
        "base weights": r"sample_weight\[1\] is -inf; sample weights must be finite",
        "X": "X must hold finite numbers, got -inf in row 0, column 1",
        "y|sample_weight": "(y|sample_weight) must hold finite numbers, got -inf at position 1",
        "losses|gradient": None,
        "evaluate|minimize": "w must be finite, got -inf at position 1",
        "groups": "groups must be integers",
        "user losses|user gradient": "must return finite numbers, got -inf (for sample|in coordinate) 1",
        "*": "Input (X|y) contains infinity|sample_weight must be finite, got -inf at position 1",
    },
    "huge": {
        "X|classifier": r"X\[0, 1\] is 1e\+200; numbers beyond 1e\+150 overflow when squared: rescale column 1 of X",
        "y|sample_weight|regressor|weighted fit": r"(y|sample_weight)\[1\] is 1e\+200; numbers beyond 1e\+150 overflow",
        "groups": "groups must be integers",
        "*": None,
    },
    "empty": {
        "risk|solve": r"losses must have at least one entry, got shape \(0,\)",
        "X": r"X must have at least one row and one column, got shape \(0, 2\)",
        "classifier": "minimum of 1 is required by RobustClassifier",
        "regressor": r"inconsistent numbers of samples: \[6, 0\]",
        "*": r"must (have|return an array of) shape \(\d,\)|sample_weight.shape == \(0,\), expected \(6,\)",
    },
    "short": {
        "risk|solve": None,
        "X": r"y must have shape \(5,\), got shape \(6,\)",
        "classifier|regressor": "inconsistent numbers of samples",
        "*": r"must (have|return an array of) shape \(\d,\).* got (shape )?\(\d,\)|sample_weight.shape == \(5,\), expected",
    },
    "three-dimensional": {
        "classifier|regressor": "Found array with dim 3",
        "*": r"(must|sample_weight).*shape \(2, 2, 2\)|got \(2, 2, 2\)",
    },
    "scalar": {
        "weighted fit": None,
        "classifier|regressor": "Expected 2D array|y should be a 1d array",
        "*": r"shape \(\)|got \(\)",
    },
    "complex": {
        "groups": "groups must be integers, got dtype complex128",
        "classifier|regressor": "Complex data not supported",
        "*": "must hold real numbers(, |: )got dtype complex128|got an array of dtype complex128",
    },
    "letters": {
        "groups": "groups must be integers, got dtype <U1",
        "classifier|regressor": "could not convert string to float",
        "*": "must hold (real )?numbers|got an array of dtype <U1",
    },
    "objects": {
        "groups": "groups must be integers, got dtype object",
        "classifier|regressor": "must be a string or a real number, not 'object'",
        "*": "must hold (real )?numbers.* not 'object'|got an array of dtype object",
    },
    "masked": {
        "user losses|user gradient": "got a masked array: fill or drop the masked entries",
        "*": "(losses|sample_weight|X|y|w|weights|groups) (has masked entries|must not be a masked array); ?fill or drop"
        "|must not be a masked array; fill or drop the masked entries",
    },
    "ragged": {
        "classifier|regressor": "inhomogeneous shape",
        "*": "(must be an array of numbers|must hold real numbers).*inhomogeneous|got an object of type list",
    },
    "generator": {
        "classifier|regressor": "not 'generator'|y should be a 1d array",
        "*": r"not 'generator'|shape \(\)|got \(\)|dtype object",
    },
    "dictionary": {
        "classifier|regressor": "not 'dict'|y should be a 1d array",
        "*": r"not 'dict'|shape \(\)|got \(\)|dtype object",
    },
}


def words(kind: str, entry: str) -> str | None:
    row = TABLE[kind]
    return next((said for names, said in row.items() if entry in names.split("|")), row.get("*"))


CELLS = [(kind, entry) for kind in BAD for entry in ENTRIES]


@pytest.mark.parametrize(("kind", "entry"), [c for c in CELLS if words(*c) is not None])
def test_a_bad_input_is_refused_in_words(kind: str, entry: str, capfd: pytest.CaptureFixture[str]) -> None:
    said = words(kind, entry)
    assert said is not None
    with pytest.raises((ValueError, TypeError, lw.OracleError), match=f"(?s){said}"):
        ENTRIES[entry](BAD[kind])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("kind", "entry"), [c for c in CELLS if words(*c) is None])
def test_an_odd_input_that_has_an_answer_gets_it(kind: str, entry: str, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.ConvergenceWarning)  # a start at 1e200 is allowed, and reported
        ENTRIES[entry](BAD[kind])
    assert capfd.readouterr() == ("", "")


def test_nan_and_infinity_in_w_and_weights_go_through_to_the_result() -> None:
    assert np.isnan(MODEL.losses([1.0, np.nan, 1.0])).all()
    assert np.isnan(MODEL.gradient(np.ones(3), [1, np.nan, 1, 1, 1, 1])).all()
    scores = np.sign(X[:, 1]) * np.where(Y == 1, 1, -1)
    assert MODEL.losses([1.0, np.inf, 1.0]).tolist() == np.where(scores > 0, 0.0, np.inf).tolist()


def test_a_trial_step_to_infinite_losses_is_shortened() -> None:
    counts = np.arange(100) * 1e3
    data = np.random.default_rng(0).standard_normal((100, 3))
    problem = lw.Robust(lw.LinearModel(data, counts, "poisson", l2=0.1), lw.CVaR(0.2))
    result = lw.minimize(problem)
    assert result.status is lw.Status.CONVERGED
    assert result.gap <= 1e-4 * abs(result.fun)


def test_a_start_with_infinite_losses_is_named() -> None:
    rng = np.random.default_rng(0)
    model = lw.LinearModel(1e4 * rng.standard_normal((3000, 3)), rng.poisson(3.0, 3000), "poisson", l2=0.1)
    with pytest.raises(ValueError, match=r"losses\[\d+\] is inf; losses must be finite"):
        lw.minimize(model, np.ones(4))


ODD: dict[str, Callable[[np.ndarray], Any]] = {
    "tied": np.zeros_like,
    "constant": lambda a: np.full_like(a, 7.0),
    "negative": lambda a: -a - 5.0,
    "denormal": lambda a: a * 5e-324,
    "huge": lambda a: a * 1e300,
    "integers": lambda a: a.astype(int),
    "read-only": lambda a: np.broadcast_to(a[0], a.shape),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("risk", [lw.Worst(), lw.CVaR(0.3), lw.KL(radius=0.1), lw.ChiSquare(radius=1.0)], ids=repr)
def test_odd_losses_have_a_value_between_their_mean_and_their_maximum(risk: lw.Risk, kind: str) -> None:
    losses = ODD[kind](Y)
    s = risk.solve(losses)
    assert losses.mean() * (1 - 1e-15) - 1e-12 * np.ptp(losses) <= s.value <= losses.max()
    assert s.weights.sum() == pytest.approx(1.0, abs=1e-14)
    if np.ptp(losses) == 0:
        assert s.value == losses[0]
        assert s.weights == pytest.approx(np.full(6, 1 / 6), rel=1e-14)


READ_AS_INDEX = ("read-only", "strided", "reversed", "big-endian", "unaligned")


def unaligned(array: np.ndarray) -> np.ndarray:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    view = raw[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "strided": lambda a: np.repeat(a, 3, axis=0)[::3],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "unaligned": unaligned,
    "Fortran": np.asfortranarray,
    "long double": lambda a: a.astype(np.longdouble),
    "objects that are numbers": lambda a: a.astype(object),
    "masked without a masked entry": lambda a: np.ma.masked_invalid(a),
}


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_the_same_numbers_gives_the_same_bits(form: str) -> None:
    change = FORMS[form]
    model = lw.LinearModel(change(X), change(Y), l2=0.1, sample_weight=change(ONES))
    w, q = np.array([0.5, -1.0, 0.25]), np.arange(6.0)
    np.testing.assert_array_equal(model.losses(change(w)), MODEL.losses(w))
    np.testing.assert_array_equal(model.gradient(change(w), change(q)), MODEL.gradient(w, q))
    rows = np.array([5, 0, 3])
    np.testing.assert_array_equal(
        model.losses(w, change(rows) if form in READ_AS_INDEX else rows), MODEL.losses(w, rows)
    )
    if "masked" not in form:
        assert lw.KL(radius=0.1)(change(q), change(ONES)) == lw.KL(radius=0.1)(q, ONES)
    assert lw.minimize(model, change(w)).x == pytest.approx(lw.minimize(MODEL, w).x, rel=1e-12)
    fitted = RobustRegressor(l2=0.1).fit(change(X), change(Y), sample_weight=change(ONES))
    assert fitted.coef_ == pytest.approx(RobustRegressor(l2=0.1).fit(X, Y, sample_weight=ONES).coef_, rel=1e-10)


def test_a_memory_mapped_file_is_read_like_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    model = lw.LinearModel(
        np.load(tmp_path / "X.npy", mmap_mode="r"), np.load(tmp_path / "y.npy", mmap_mode="r"), l2=0.1
    )
    assert lw.minimize(model).x.tobytes() == lw.minimize(MODEL).x.tobytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "bad.csv"),
        ("a,y\n", "the table has no rows"),
        ("a,y\n1,0\nnan,1\n2,0\n3,1\n", "column 'a'"),
        ("a,y\n1,0\n2,inf\n3,1\n", "y contains infinity"),
        ("a,y\n1,1\n2,1\n3,1\n4,1\n", "needs samples of at least two classes, only one class remains: 1"),
        ("a,b\n1,0\n2,1\n", "'y'"),
    ],
)
def test_the_command_names_what_is_wrong_with_a_file(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from leeward.__main__ import main

    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert main(["fit", str(path), "--target", "y", "--risk", "cvar", "--alpha", "0.5"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert re.search(said, err), err


@pytest.mark.parametrize("alpha", [1e-300, 1e-320, 5e-324])
def test_a_tail_below_every_chance_is_the_maximum(alpha: float) -> None:
    losses = [0.69, -0.09, 0.3]
    for risk in (lw.CVaR(alpha), lw.Spectral.superquantile(alpha)):
        s = risk.solve(losses)
        assert (s.value, s.gap, s.weights.tolist()) == (0.69, 0.0, [1.0, 0.0, 0.0])
    for risk in (lw.KLCVaR(alpha, 0.1), lw.SmoothedCVaR(alpha, 0.1)):
        assert risk(losses) == pytest.approx(lw.KL(penalty=0.1)(losses), rel=1e-14)
