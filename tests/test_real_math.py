"""The core's own exp, log and relatives: ulps against mpmath, edges against IEEE's answers, identities."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from leeward import _core

Vector = NDArray[np.float64]
INF, NAN, TINY = math.inf, math.nan, 5e-324
REFERENCE = {
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
}


def core(name: str, x: Any) -> Vector:
    result: Vector = getattr(_core.real_math, name)(np.asarray(x, dtype=np.float64))
    return result


def powers(rng: np.random.Generator, low: float, high: float, size: int) -> Vector:
    return np.asarray(10.0 ** rng.uniform(low, high, size))


def arguments(name: str) -> Vector:
    rng = np.random.default_rng(20261130)
    n = 3000
    if name == "exp":
        return np.concatenate([rng.uniform(-745.1, 709.7, n), rng.uniform(-1, 1, n), rng.uniform(-745.1, -707, n)])
    if name == "expm1":
        signs = rng.choice([-1.0, 1.0], n)
        return np.concatenate(
            [rng.uniform(-40, 709.7, n), rng.uniform(-1.5, 1.5, 2 * n), signs * powers(rng, -300, 0, n)]
        )
    if name == "log":
        return np.concatenate([powers(rng, -323, 308, n), rng.uniform(0.5, 2, 2 * n), 1 + rng.normal(size=n) * 1e-10])
    if name == "log1p":
        small = np.concatenate([powers(rng, -320, 0, n), powers(rng, -17, -15, n)])
        return np.concatenate([rng.uniform(-1, 3, 2 * n), powers(rng, 0, 308, n), small, -small])
    return np.concatenate([rng.uniform(-40, 40, 2 * n), rng.uniform(-745, 709, n), rng.normal(size=n) * 1e-8])


# Largest error in units in the last place of the correctly rounded result.
@pytest.mark.parametrize(
    ("name", "ulps"),
    [("exp", 1.0), ("expm1", 2.0), ("log", 1.0), ("log1p", 1.0), ("sigmoid", 2.5), ("softplus", 2.0)],
)
def test_error_stays_below_a_few_units_in_the_last_place(name: str, ulps: float) -> None:
    x = arguments(name)
    y = core(name, x)
    with mpmath.workprec(200):
        for argument, value in zip(x.tolist(), y.tolist(), strict=True):
            exact = REFERENCE[name](mpmath.mpf(argument))
            unit = max(np.spacing(abs(float(exact))), TINY)
            assert abs(mpmath.mpf(value) - exact) <= ulps * mpmath.mpf(unit), (argument, value)


@pytest.mark.parametrize(
    ("name", "argument", "answer"),
    [
        ("exp", 0.0, 1.0),
        ("exp", -0.0, 1.0),
        ("exp", INF, INF),
        ("exp", -INF, 0.0),
        ("exp", 709.782712893384, 1.7976931348622732e308),
        ("exp", 709.7827128933841, INF),
        ("exp", 1e308, INF),
        ("exp", -745.1332191019411, TINY),
        ("exp", -745.14, 0.0),
        ("exp", -1e308, 0.0),
        ("exp", TINY, 1.0),
        ("exp", NAN, NAN),
        ("expm1", 0.0, 0.0),
        ("expm1", -0.0, -0.0),
        ("expm1", TINY, TINY),
        ("expm1", INF, INF),
        ("expm1", -INF, -1.0),
        ("expm1", -1e300, -1.0),
        ("expm1", NAN, NAN),
        ("log", 1.0, 0.0),
        ("log", 0.0, -INF),
        ("log", -0.0, -INF),
        ("log", INF, INF),
        ("log", -1.0, NAN),
        ("log", -TINY, NAN),
        ("log", -INF, NAN),
        ("log", TINY, -744.4400719213812),
        ("log", NAN, NAN),
        ("log1p", 0.0, 0.0),
        ("log1p", -0.0, -0.0),
        ("log1p", -1.0, -INF),
        ("log1p", -1.0000000000000002, NAN),
        ("log1p", -INF, NAN),
        ("log1p", INF, INF),
        ("log1p", TINY, TINY),
        ("log1p", NAN, NAN),
        ("sigmoid", 0.0, 0.5),
        ("sigmoid", INF, 1.0),
        ("sigmoid", -INF, 0.0),
        ("sigmoid", NAN, NAN),
        ("softplus", INF, INF),
        ("softplus", -INF, 0.0),
        ("softplus", 1e300, 1e300),
        ("softplus", -1e300, 0.0),
        ("softplus", NAN, NAN),
    ],
)
def test_edges_have_their_answers_in_every_lane(name: str, argument: float, answer: float) -> None:
    for y in core(name, np.full(19, argument)).tolist():  # 16 vector lanes and a short end
        assert (math.isnan(y) and math.isnan(answer)) or (
            y == answer and math.copysign(1, y) == math.copysign(1, answer)
        )


@pytest.mark.parametrize("name", REFERENCE)
def test_an_element_does_not_depend_on_its_place(name: str) -> None:
    x = arguments(name)[:1000]
    y = core(name, x)
    for shift in (1, 7, 15):
        np.testing.assert_array_equal(core(name, x[shift:]), y[shift:])
    np.testing.assert_array_equal([core(name, x[k : k + 1])[0] for k in range(50)], y[:50])


def test_exp_is_monotone_over_its_cutoffs() -> None:
    for low, high in ((-745.2, -744), (-709, -708), (-0.4, 0.4), (709.7, 709.8)):
        y = core("exp", np.linspace(low, high, 50_001))
        assert np.all(y[1:] >= y[:-1])


def test_shapes_are_kept_and_other_types_are_refused() -> None:
    assert core("exp", np.zeros((3, 0, 2))).shape == (3, 0, 2)
    np.testing.assert_array_equal(core("exp", np.zeros((2, 3))), np.ones((2, 3)))
    for wrong in ([1.0], np.ones(3, dtype=np.float32), np.ones((4, 4))[:, ::2]):
        with pytest.raises(TypeError):
            _core.real_math.exp(wrong)  # type: ignore[arg-type]


def test_a_pair_of_softplus_and_sigmoid_fits_together() -> None:
    x = np.linspace(-30, 30, 2001)
    np.testing.assert_allclose(core("softplus", x) - core("softplus", -x), x, rtol=0, atol=1e-14)
    np.testing.assert_allclose(core("sigmoid", x) + core("sigmoid", -x), 1.0, rtol=0, atol=3e-16)


def test_the_simd_level_is_one_of_three() -> None:
    assert _core.simd_level() in ("baseline", "avx2", "avx512")
