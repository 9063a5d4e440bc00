"""Portfolios by tails and semideviations: optima of linear and conic programs, twins of the levels, smoothing, certificates, inputs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize

import leeward as lw
from leeward.testing import check_level
from reference import compositions as twin
from reference import updates as moves

Vector = NDArray[np.float64]
RNG = np.random.default_rng(4)
R = RNG.normal([0.05, 0.02, 0.03, 0.1], [1.0, 0.2, 0.5, 2.0], size=(300, 4))
RMS = float(np.sqrt(np.mean(R**2)))
MARKET = 0.5 * RNG.normal(size=(4000, 1)) + RNG.normal(0.1, 1.0, size=(4000, 5)) * [0.3, 0.5, 0.7, 0.9, 1.1]


def linear_program(returns: Vector, lam: float, share: float | None) -> float:
    """The least ``-mean + lam risk`` over the simplex: CVaR at a share, or the semideviation of order 1 (None)."""
    T, d = returns.shape
    mean = returns.mean(axis=0)
    if share is None:  # x, z with z_t >= <rbar - r_t, x>
        cost = np.r_[-mean, np.full(T, lam / T)]
        rows = np.c_[mean - returns, -np.eye(T)]
        free = 0
    else:  # x, eta, z with z_t >= -<r_t, x> - eta
        cost = np.r_[-mean, lam, np.full(T, lam / (share * T))]
        rows = np.c_[-returns, -np.ones(T), -np.eye(T)]
        free = 1
    bounds = [(0, None)] * d + [(None, None)] * free + [(0, None)] * T
    budget = np.r_[np.ones(d), np.zeros(free + T)][None]
    found = linprog(cost, A_ub=rows, b_ub=np.zeros(T), A_eq=budget, b_eq=[1.0], bounds=bounds)
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize(("lam", "alpha"), [(1.0, 0.05), (0.3, 0.5), (2.0, 1.0)])
def test_mean_cvar_and_its_bounds_enclose_the_linear_programs_optimum(lam: float, alpha: float) -> None:
    problem, best = lw.MeanCVaR(R, lam, alpha, smoothing=0.02), linear_program(R, lam, alpha)
    result = lw.minimize(problem, tol=1e-4)
    assert result.success
    assert best - 1e-9 <= problem.unsmoothed(result.x) <= best + 0.01 * abs(best)
    assert result.fun - result.gap - lam * problem.smoothing <= best <= result.fun
    assert abs(result.x[:-1].sum() - 1.0) < 1e-12
    assert result.eta == pytest.approx(problem.unit * result.x[-1], rel=1e-14)


@pytest.mark.parametrize("lam", [0.3, 1.0])
def test_the_semideviation_of_order_1_and_its_bounds_enclose_the_linear_programs_optimum(lam: float) -> None:
    problem, best = lw.MeanUpperSemideviation(R, lam, order=1, smoothing=0.02), linear_program(R, lam, None)
    result = lw.minimize(problem, tol=1e-3)
    assert result.success
    assert best - 1e-9 <= problem.unsmoothed(result.x) <= best + 1e-3
    assert result.fun - result.gap - lam * problem.smoothing / 4 <= best <= result.fun


def test_the_semideviation_of_order_2_is_the_conic_optimum() -> None:
    problem = lw.MeanUpperSemideviation(R, 0.5)
    result = lw.minimize(problem, tol=1e-4)
    assert result.success

    def objective(x: Vector) -> float:
        series = R @ x
        return float(-series.mean() + 0.5 * np.sqrt(np.mean(np.maximum(series.mean() - series, 0.0) ** 2)))

    budget = {"type": "eq", "fun": lambda x: x.sum() - 1.0}
    other = minimize(objective, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=[budget], options={"ftol": 1e-14})
    assert result.fun == pytest.approx(objective(result.x), abs=1e-14)
    assert result.fun - result.gap <= other.fun + 1e-9
    assert abs(result.fun - other.fun) <= 1.1e-4 * abs(other.fun)


def test_runs_on_batches_are_certified() -> None:
    for problem in (lw.MeanCVaR(MARKET), lw.MeanUpperSemideviation(MARKET)):
        result = lw.minimize(problem, tol=1e-2, algorithm=lw.SMVR(32))
        assert result.success
        assert result.gap <= 1e-2 * abs(result.fun)


def simplex(v: Vector, steps: Vector) -> Vector:
    return np.r_[lw.Simplex().project(v[:4]), v[4:]]


PROBLEMS: dict[str, tuple[Any, Any]] = {
    "CVaR": (
        lambda R: lw.MeanCVaR(R, 0.7, 0.1, smoothing=0.05),
        lambda R: twin.mean_cvar_levels(R, 0.7, 0.1, 0.05),
    ),
    "order 1": (
        lambda R: lw.MeanUpperSemideviation(R, 0.4, order=1, smoothing=0.05),
        lambda R: twin.semideviation_levels(R, 0.4, 0.05),
    ),
    "order 2": (lambda R: lw.MeanUpperSemideviation(R, 0.4), lambda R: twin.semideviation_levels(R, 0.4, 0.0)),
}


def settings(*betas: Any, **rest: Any) -> twin.Settings:
    return twin.Settings(5, 5, 11, betas=list(betas), **rest)


METHODS: dict[str, tuple[lw.Algorithm, Any]] = {
    "SMVR": (lw.SMVR(5, beta=0.3, step=0.05), lambda ls: twin.SMVR(ls, settings(twin.power(0.3)))),
    "PMVR": (lw.PMVR(5, beta=0.3, step=0.05), lambda ls: twin.PMVR(ls, settings(twin.power(0.3)))),
    "PMVR, average": (
        lw.PMVR(5, beta=0.3, step=0.05, direction="average"),
        lambda ls: twin.PMVRAverage(ls, settings(twin.power(0.3))),
    ),
    "SCSC": (lw.SCSC(5, beta=0.25, step=0.05), lambda ls: twin.SCSC(ls, settings(twin.power(0.25)))),
    "NestedSPIDER": (
        lw.NestedSPIDER(5, big=5, period=6, step=0.05),
        lambda ls: twin.NestedSPIDER(ls, settings(), 6),
    ),
    "SCGD": (
        lw.SCGD(5, step=0.05),
        lambda ls: twin.SCGD(ls, settings(twin.power(1.0, 0.5), size=twin.power(1.0, 0.75))),
    ),
    "NLASG": (lw.NLASG(5, tau=0.2, step=0.05), lambda ls: twin.NLASG(ls, settings(twin.power(0.2)))),
    "NASA": (lw.NASA(5, tau=0.2, step=0.05), lambda ls: twin.NASA(ls, settings(twin.power(0.2)))),
}


@pytest.mark.parametrize(("name", "method"), [(n, m) for n in PROBLEMS for m in METHODS if m != "NASA" or n == "CVaR"])
def test_trajectories_are_those_of_the_twin(name: str, method: str) -> None:
    (make, levels), (algorithm, reference) = PROBLEMS[name], METHODS[method]
    problem, points = make(R), []

    def note(state: lw.State) -> bool:
        points.append(state.w.copy())
        return state.step >= 60

    result = lw.minimize(problem, algorithm=algorithm, trace="step", max_passes=1e9, seed=11, callback=note)
    own = reference(levels(R))
    moving = twin.Relaxed(0.2, simplex) if method in ("NLASG", "NASA") else moves.Plain(simplex)
    expected = twin.run(own, moving, problem.start(), 0.05, 60)
    assert np.abs(np.array(points) - np.array(expected)).max() < 1e-12
    assert result.counts == vars(own.counts)


@pytest.mark.parametrize("d", [1, 7, 8, 13, 30])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_levels_are_their_twins_at_every_width_and_length(d: int, dtype: Any) -> None:
    returns = RNG.normal(0.05, 1.0, size=(9000, d)).astype(dtype)
    wide = returns.astype(float)
    for name, (make, levels) in PROBLEMS.items():
        problem, own = make(returns), levels(wide)
        for level, other in zip(problem.levels, own, strict=True):
            u = np.abs(RNG.normal(size=level.inputs)) + 0.1
            for index in (np.arange(level.size), RNG.integers(level.size, size=5)):
                value, jacobian = other.value(u, index), other.jacobian(u, index)
                scale = max(1.0, np.abs(jacobian).max())
                chosen = None if len(index) == level.size else index
                assert np.abs(level.value(u, chosen) - value).max() < 1e-12 * max(1.0, np.abs(value).max()), name
                assert np.abs(level.jacobian(u, chosen) - jacobian).max() < 1e-12 * scale, name
            if level.size > 1 and d in (7, 8):
                check_level(level, u=u)


@pytest.mark.parametrize("lam", [0.1, 0.3, 0.5])
def test_a_default_step_that_overshoots_is_cut_where_the_direction_is_exact(lam: float) -> None:
    problem = lw.MeanUpperSemideviation(R, lam)
    for algorithm in (None, lw.PMVR(len(R), decay="constant")):
        result = lw.minimize(problem, algorithm=algorithm, tol=1e-6)
        assert result.success
        assert all(np.diff(result.trace.objective) <= 1e-12)


@pytest.mark.parametrize("make", [lw.MeanDeviation, lw.MeanCVaR, lw.MeanUpperSemideviation])
@pytest.mark.parametrize("T", [4096, 4097, 20_000])
def test_full_evaluations_have_the_same_bits_for_any_number_of_threads(make: Any, T: int) -> None:
    problem = make(RNG.normal(0.05, 1.0, size=(T, 9)))
    w = problem.start()
    found = [problem.evaluate(w, threads=threads) for threads in (1, 2, 3, 8)]
    assert len({(e.value, e.gradient.tobytes()) for e in found}) == 1
    runs = [lw.minimize(problem, algorithm=lw.SMVR(T), max_passes=20, threads=threads).x for threads in (1, 3)]
    assert runs[0].tobytes() == runs[1].tobytes()


def test_the_quantile_is_the_best_one_and_weights_alone_are_completed_by_it() -> None:
    for alpha in (0.01, 0.05, 0.5, 1.0):
        problem, x = lw.MeanCVaR(R, 0.7, alpha, smoothing=0.03), RNG.dirichlet(np.ones(4))
        w = problem.point(x)
        e = problem.evaluate(w)
        assert abs(e.gradient[-1]) < 1e-10
        assert problem.value(x) == e.value
        assert all(e.value <= problem.value(np.r_[x, w[-1] + step]) + 1e-15 for step in (-0.3, -1e-3, 1e-3, 0.3))
        exact = -(R @ x).mean() + 0.7 * lw.CVaR(alpha)(-(R @ x))
        assert problem.unsmoothed(x) == pytest.approx(exact, rel=1e-13)
        assert exact - 1e-14 <= e.value <= exact + 0.7 * 0.03
        assert result_from_weights(problem, x).x.shape == (5,)


def result_from_weights(problem: lw.MeanCVaR, x: Vector) -> lw.Result:
    return lw.minimize(problem, w0=x, algorithm=lw.SMVR(8, step=1e-3), max_passes=2)


def test_smoothing_adds_no_more_than_it_says() -> None:
    x = RNG.dirichlet(np.ones(4))
    for h in (1e-9, 0.01, 0.3, 5.0):
        first = lw.MeanUpperSemideviation(R, 0.8, order=1, smoothing=h)
        exact = -(R @ x).mean() + 0.8 * np.maximum((R @ x).mean() - R @ x, 0.0).mean()
        assert first.unsmoothed(x) == pytest.approx(exact, rel=1e-12)
        assert exact - 1e-12 <= first.value(x) <= exact + 0.8 * h / 4
    second = lw.MeanUpperSemideviation(R, 0.8)
    assert second.unsmoothed(x) == second.value(x)


@pytest.mark.parametrize("domain", [lw.Box(0.0, 0.4), lw.L2Ball(0.5), lw.Simplex(2.0)])
@pytest.mark.parametrize("make", [lw.MeanCVaR, lw.MeanUpperSemideviation])
def test_domains_hold_for_the_weights_alone(make: Any, domain: lw.Domain) -> None:
    problem = make(R, 0.1, l2=0.1)
    result = lw.minimize(problem, domain=domain, algorithm=lw.SMVR(32, step=0.02), max_passes=50)
    x = result.x[:4]
    assert np.abs(domain.project(x) - x).max() < 1e-12
    assert result.gap is not None
    assert result.gap >= 0
    value, h = problem.value(result.x), 1e-6
    slope = [(problem.value(result.x + h * e) - problem.value(result.x - h * e)) / (2 * h) for e in np.eye(problem.dim)]
    assert np.abs(problem.evaluate(result.x).gradient - slope).max() < 1e-7
    assert result.fun == value


def test_guards_act_and_portfolios_without_risk_are_finite() -> None:
    up = np.tile([0.1, 0.3], (50, 1))
    for make in (lw.MeanCVaR, lw.MeanUpperSemideviation):
        result = lw.minimize(make(up), algorithm=lw.SMVR(4, step=1e-2), max_passes=20)
        assert np.isfinite(result.x).all()
        zeros = make(np.zeros((3, 2)))
        assert np.isfinite(zeros.value(zeros.start()))
        one = lw.minimize(make(R[:1]), max_passes=50)
        assert np.isfinite(one.fun)
        alone = lw.minimize(make(R[:, :1]), algorithm=lw.SMVR(8, step=1e-2), max_passes=50)
        assert alone.x[0] == 1.0
    noisy = lw.minimize(lw.MeanUpperSemideviation(R), algorithm=lw.SMVR(1, beta=0.9, step=0.5), max_passes=20, seed=3)
    assert noisy.counts["guards"] > 0
    assert "kept positive by their guard" in noisy.message


def test_any_layout_of_returns_gives_the_same_portfolio() -> None:
    whole = np.rint(100 * R)
    frozen = whole.copy()
    frozen.flags.writeable = False
    strided = np.zeros((600, 8))
    strided[::2, ::2] = whole
    layouts: list[Any] = [
        whole, frozen, strided[::2, ::2], np.asfortranarray(whole), whole.astype(">f8"), whole.astype(np.int64), whole.tolist(),
    ]  # fmt: skip
    try:
        import pandas as pd
    except ImportError:
        pass
    else:
        layouts.append(pd.DataFrame(whole, columns=list("abcd")))
    for make in (lw.MeanDeviation, lw.MeanCVaR, lw.MeanUpperSemideviation):
        w = make(whole).start()
        found = [make(each).evaluate(w) for each in layouts]
        assert len({(e.value, e.gradient.tobytes()) for e in found}) == 1


@pytest.mark.parametrize("make", [lw.MeanDeviation, lw.MeanCVaR, lw.MeanUpperSemideviation])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_returns_that_are_no_numbers_are_named(make: Any, value: float) -> None:
    bad = R.copy()
    bad[[7, 9], 2] = value
    with pytest.raises(ValueError, match=rf"got {value} in row 7, column 2; 2 of 300 rows have such entries"):
        make(bad)
    with pytest.raises(ValueError, match="squares overflow, rescale them"):
        make(1e200 * R)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lw.MeanCVaR(R, alpha=0.0), r"alpha must be in \(0, 1\], got 0.0"),
        (lambda: lw.MeanCVaR(R, alpha=1.5), r"alpha must be in \(0, 1\], got 1.5"),
        (lambda: lw.MeanCVaR(R, -1.0), "lam must be finite and at least 0, got -1.0"),
        (lambda: lw.MeanCVaR(R, smoothing=0.0), "smoothing must be positive and finite, or None, got 0.0"),
        (
            lambda: lw.MeanCVaR(R).value([0.1, 0.2]),
            r"w must have shape \(5,\), or \(4,\) for the weights alone, got shape \(2,\)",
        ),
        (lambda: lw.MeanCVaR(R).value([0.1, 0.2, np.nan, 0.1]), "w must be finite, got nan at position 2"),
        (lambda: lw.MeanUpperSemideviation(R, order=3), "order must be 1 or 2, got 3"),
        (lambda: lw.MeanUpperSemideviation(R, smoothing=0.1), "smoothing is for order=1"),
        (lambda: lw.MeanUpperSemideviation(R[0]), r"returns must have shape \(n, d\)"),
        (lambda: lw.PMVR(direction="both"), "direction must be 'differences' or 'average', got 'both'"),
    ],
)
def test_wrong_settings_are_refused_in_words(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_portfolios_are_picklable_and_say_what_they_are() -> None:
    for problem in (
        lw.MeanCVaR(R, 0.7, 0.1, smoothing=0.02, l2=0.1),
        lw.MeanUpperSemideviation(R, order=1),
        lw.MeanUpperSemideviation(R),
    ):
        again = pickle.loads(pickle.dumps(problem))
        assert again.value(problem.start()) == problem.value(problem.start())
        assert repr(again) == repr(problem)
