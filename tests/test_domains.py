"""Domains and prox terms: known answers, optimality of the projection, conjugates, and the native twin."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

import leeward as lw
from leeward import _core

SETS = [lw.Box(-0.5, 1.0), lw.Simplex(2.0), lw.L1Ball(1.5), lw.L2Ball(0.7)]
TERMS = [lw.L1(0.3), lw.ElasticNet(0.2, 0.5)]


def feasibility(domain: lw.Domain, w: np.ndarray) -> float:
    """By how much w leaves the set."""
    if isinstance(domain, lw.Box):
        return float(max(np.max(domain.lower - w), np.max(w - domain.upper), 0.0))
    if isinstance(domain, lw.Simplex):
        return float(max(-w.min(), abs(w.sum() - domain.total), 0.0))
    if isinstance(domain, lw.L1Ball):
        return float(max(np.abs(w).sum() - domain.radius, 0.0))
    assert isinstance(domain, lw.L2Ball)
    return float(max(np.sqrt(w @ w) - domain.radius, 0.0))


def random_point(domain: lw.Domain, rng: np.random.Generator, size: int) -> np.ndarray:
    """A feasible point: the projection of a random one."""
    return domain.project(rng.normal(size=size))


@pytest.mark.parametrize(
    ("domain", "v", "wanted"),
    [
        (lw.Box(0.0, 1.0), [-2.0, 0.25, 3.0], [0.0, 0.25, 1.0]),
        (lw.Box([0.0, -np.inf], [np.inf, 2.0]), [-1.0, 5.0], [0.0, 2.0]),
        (lw.Simplex(), [0.5, 1.5], [0.0, 1.0]),
        (lw.Simplex(3.0), [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
        (lw.L1Ball(1.0), [2.0, -0.5], [1.0, 0.0]),
        (lw.L1Ball(1.0), [0.25, -0.5], [0.25, -0.5]),
        (lw.L2Ball(1.0), [3.0, 4.0], [0.6, 0.8]),
    ],
)
def test_projections_have_the_known_answers(domain: lw.Domain, v: list[float], wanted: list[float]) -> None:
    np.testing.assert_allclose(domain.project(np.array(v)), wanted, atol=1e-15)


@pytest.mark.parametrize("domain", SETS, ids=repr)
def test_the_projection_is_feasible_and_no_feasible_direction_improves_it(domain: lw.Domain) -> None:
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 1e3, 1e8):
        v = scale * rng.normal(size=7)
        w = domain.project(v)
        assert feasibility(domain, w) <= 1e-12
        for _ in range(20):  # (v - w).(u - w) <= 0 for every feasible u
            u = random_point(domain, rng, 7)
            assert (v - w) @ (u - w) <= 1e-9 * scale


@pytest.mark.parametrize("domain", SETS, ids=repr)
def test_a_feasible_point_is_its_own_projection(domain: lw.Domain) -> None:
    w = random_point(domain, np.random.default_rng(1), 5)
    np.testing.assert_allclose(domain.project(w), w, atol=1e-15)


@pytest.mark.parametrize("domain", [lw.Simplex(), lw.L1Ball(1.0), lw.L2Ball(1.0)], ids=repr)
def test_projections_survive_huge_and_tiny_numbers(domain: lw.Domain) -> None:
    for v in ([1e200, -1e200, 3.0], [1e-300, 2e-300, 0.0], [5.0, 5.0, 5.0]):
        assert feasibility(domain, domain.project(np.array(v))) <= 1e-12


@pytest.mark.parametrize("term", TERMS, ids=repr)
def test_prox_minimises_its_definition(term: lw.Domain) -> None:
    rng = np.random.default_rng(2)
    for step in (0.1, 1.0, 10.0):
        for v in rng.normal(size=5):
            grid = np.linspace(-4, 4, 80001)
            values = np.array([term.value(np.array([u])) for u in (term.prox(np.array([v]), step)[0],)])
            at = values[0] + (term.prox(np.array([v]), step)[0] - v) ** 2 / (2 * step)
            l1 = term.strength if isinstance(term, lw.L1) else term.l1  # type: ignore[attr-defined]
            l2 = 0.0 if isinstance(term, lw.L1) else term.l2  # type: ignore[attr-defined]
            best = np.min(l1 * np.abs(grid) + 0.5 * l2 * grid**2 + (grid - v) ** 2 / (2 * step))
            assert at <= best + 1e-12


@pytest.mark.parametrize("domain", SETS + TERMS, ids=repr)
@pytest.mark.parametrize("mu", [0.0, 0.8])
def test_the_conjugate_bounds_every_point_and_is_attained(domain: lw.Domain, mu: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        v = rng.normal(size=4)
        if not domain.feasible_set and mu == 0.0 and not (isinstance(domain, lw.ElasticNet)):
            v *= 0.3 / np.abs(v).max()  # inside the dual ball, else infinite
        bound = domain.conjugate(v, mu)

        def value(w: np.ndarray, v: np.ndarray = v) -> float:
            return float(v @ w - domain.value(w) - 0.5 * mu * w @ w)

        points = [domain.project(rng.normal(size=4)) if domain.feasible_set else rng.normal(size=4) for _ in range(50)]
        assert all(value(w) <= bound + 1e-12 for w in points)
        if domain.feasible_set:
            start = points[0]
            w = start
            for _ in range(20000):
                w = domain.project(w + 0.05 * (v - mu * w))
        else:
            w = np.zeros(4)
            for _ in range(20000):
                w = domain.prox(w + 0.05 * (v - mu * w), 0.05)
        assert value(w) >= bound - 1e-8


def test_the_conjugate_of_l1_is_infinite_outside_its_dual_ball() -> None:
    assert lw.L1(0.3).conjugate(np.array([0.4, 0.0])) == np.inf


@pytest.mark.parametrize("domain", SETS + TERMS, ids=repr)
def test_the_native_prox_is_the_numpy_one(domain: lw.Domain) -> None:
    rng = np.random.default_rng(4)
    for step in (0.5, 2.0):
        for scale in (1e-2, 1.0, 50.0):
            v = scale * rng.normal(size=9)
            native = _core.prox(domain.kind, *domain.parameters(9), v, step)
            np.testing.assert_allclose(native, domain.prox(v, step), rtol=1e-14, atol=1e-15 * scale)


@pytest.mark.parametrize("domain", SETS + TERMS, ids=repr)
def test_domains_pickle_compare_and_hash(domain: lw.Domain) -> None:
    twin = pickle.loads(pickle.dumps(domain))
    assert twin == domain
    assert hash(twin) == hash(domain)
    assert repr(twin) == repr(domain)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lw.Box(1.0, 0.0), "lower must not exceed upper, got 1.0 > 0.0 at position 0"),
        (lambda: lw.Box([0.0, 2.0], [1.0, 1.0]), "got 2.0 > 1.0 at position 1"),
        (lambda: lw.Box(np.nan, 0.0), "lower must not be NaN"),
        (lambda: lw.Box([[0.0]], 1.0), "lower must be a number or a vector"),
        (lambda: lw.Simplex(0.0), "total must be positive and finite, got 0.0"),
        (lambda: lw.L1Ball(-1.0), "radius must be positive and finite, got -1.0"),
        (lambda: lw.L2Ball(np.inf), "radius must be positive and finite, got inf"),
        (lambda: lw.L1(-0.1), "strength must be finite and at least 0, got -0.1"),
        (lambda: lw.ElasticNet(0.1, np.nan), "l2 must be finite and at least 0, got nan"),
    ],
)
def test_wrong_settings_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError) as error:
        make()
    assert words in str(error.value)


def test_a_term_is_not_a_set() -> None:
    with pytest.raises(TypeError, match="not a set"):
        lw.L1(0.1).project(np.zeros(2))


def test_box_of_the_wrong_length_is_refused_by_minimize() -> None:
    model = lw.LinearModel(np.eye(3), np.zeros(3), loss="squared")
    with pytest.raises(ValueError, match=r"lower must be a number or have shape \(3,\), got \(2,\)"):
        lw.minimize(model, domain=lw.Box([0.0, 0.0], 1.0))


def test_projections_take_entries_at_the_ends_of_the_doubles() -> None:
    v = np.array([1e308, -1e308, 0.0, 1e308, -1e308])
    np.testing.assert_array_equal(lw.Simplex(2.0).project(v), [1.0, 0.0, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(lw.L1Ball(2.0).project(v * [1, 0, 0, 1, 0]), [1.0, 0.0, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(lw.L1Ball(1.0).project(np.append(0.0, v[1:2])), [0.0, -1.0])


@pytest.mark.parametrize("size", [1, 7, 8, 9, 60, 500])
def test_the_native_simplex_is_the_sorted_one_also_where_dropping_entries_takes_many_passes(size: int) -> None:
    rng = np.random.default_rng(size)
    spiral = -np.cumsum(2.0 ** -np.arange(size)[::-1] if size < 60 else 1.0 / np.arange(1, size + 1))
    for v in (
        rng.normal(size=size),
        np.zeros(size),
        spiral,
        spiral * 1e3,
        rng.normal(size=size) ** 9,
        -(2.0 ** np.arange(size) % 1e6),
    ):
        native = _core.prox(lw.Simplex.kind, np.array([1.0]), np.zeros(1), v, 1.0)
        assert np.abs(native - lw.Simplex().project(v)).max() <= 1e-14 * max(1.0, float(np.abs(v).max()))
        assert native.sum() == pytest.approx(1.0, abs=1e-12 * max(1.0, float(np.ptp(v))))


def test_the_simplex_projection_is_the_quadratic_program() -> None:
    v = np.array([0.9, 0.4, -0.2, 0.6])
    solved = scipy_minimize(
        lambda w: np.sum((w - v) ** 2),
        np.full(4, 0.25),
        jac=lambda w: 2 * (w - v),
        bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-15},
    )
    np.testing.assert_allclose(lw.Simplex().project(v), solved.x, atol=1e-6)
