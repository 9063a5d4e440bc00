"""What levels and compositions say to wrong answers of functions, to no samples, and to options that would do nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leeward as lw

A = np.random.default_rng(1).normal(size=(20, 3))


def level(**changes: Any) -> lw.FunctionLevel:
    settings: dict[str, Any] = {
        "value": lambda u, index: np.array([np.mean((A[index] @ u) ** 2)]),
        "jacobian": lambda u, index: 2 * ((A[index] @ u) @ A[index])[None, :] / len(index),
        "vjp": lambda u, weights, index: 2 * weights[0] * ((A[index] @ u) @ A[index]) / len(index),
        "inputs": 3, "outputs": 1, "size": 20,
    }  # fmt: skip
    return lw.FunctionLevel(**{**settings, **changes})


def slope(u: Any, a: Any) -> Any:
    return np.zeros((len(a), 1, 3))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_finite_sum_level_names_the_row_that_has_no_finite_answer(wrong: float) -> None:
    rows = lw.FiniteSumLevel(
        np.arange(5.0), lambda u, a: np.where(a == 3.0, wrong, a)[:, None], slope, inputs=3, outputs=1
    )
    with pytest.raises(lw.OracleError, match=rf"value must return finite numbers, got {wrong} for a point of sample 3"):
        rows.value(np.ones(3))
    assert rows.value(np.ones(3), index=[0, 2]) == 1.0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda a: np.ma.masked_all((len(a), 1)), "got a masked array"),
        (lambda a: np.full((len(a), 1), "x"), "got an array of dtype <U1"),
        (lambda a: [[1.0], [1.0, 2.0]], "got an object of type list"),
        (lambda a: None, "got an object of type NoneType"),
        (lambda a: np.full((len(a), 1), 1j), "got an array of dtype complex128"),
    ],
)
def test_a_finite_sum_level_refuses_answers_of_another_kind(answer: Any, words: str) -> None:
    rows = lw.FiniteSumLevel(np.arange(5.0), lambda u, a: answer(a), slope, inputs=3, outputs=1)
    with pytest.raises(lw.OracleError, match=words):
        rows.value(np.ones(3))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_mean_over_rows_of_short_numbers_is_taken_in_double(dtype: Any) -> None:
    data = np.full(100_001, 0.1, dtype=dtype)
    rows = lw.FiniteSumLevel(data, lambda u, a: a[:, None], slope, inputs=3, outputs=1)
    assert rows.value(np.ones(3))[0] == pytest.approx(float(data[0]), rel=1e-12)


def test_there_is_no_mean_over_no_samples() -> None:
    for call in (
        lambda index: level().value(np.ones(3), index),
        lambda index: level().jacobian(np.ones(3), index),
        lambda index: level().vjp(np.ones(3), [1.0], index),
    ):
        with pytest.raises(ValueError, match="index must hold at least one sample number"):
            call([])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: level(floor=1.0), "give positive too"),
        (lambda: lw.ElementwiseLevel("log", exponent=2.0), "exponent is for 'power'"),
        (lambda: lw.ElementwiseLevel("exp", floor=1.0), "floor is for maps of positive numbers"),
        (lambda: lw.SMVR(norm="fro"), "give radius too"),
        (lambda: lw.SMVR(step=0.1, decay="constant", period=5.0), "period is where a decay sets in"),
        (lambda: lw.PMVR(step=0.1, decay="constant", period=5.0), "period is where a decay sets in"),
    ],
)
def test_options_that_would_do_nothing_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_composition_says_what_it_is_made_of() -> None:
    for levels in (level(), 5):
        with pytest.raises(TypeError, match="levels must be a sequence of levels"):
            lw.Composition(levels)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="convex must be True or False, got 'no'"):
        lw.Composition([level()], convex="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="map must be one of"):
        lw.ElementwiseLevel(["log"])  # type: ignore[arg-type]
