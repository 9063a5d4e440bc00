"""The chi-square radius by its penalty form: the joint steps, the intervals, and the optimum."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import leeward as lw
from leeward.algorithms.doubling import _Search

RNG = np.random.default_rng(6)
X = RNG.normal(size=(600, 4))
T = X @ np.array([1.0, -1.0, 0.5, 0.0]) + RNG.normal(size=600)
W = np.array([0.3, 0.1, -0.2, 0.4, 0.05])


def problem(radius: float = 0.3, **settings: object) -> lw.Robust:
    model = lw.LinearModel(X, T, "huber", l2=1e-2, **settings)  # type: ignore[arg-type]
    return lw.Robust(model, lw.ChiSquare(radius=radius))


def test_steps_are_multi_level_estimates_of_the_penalty_form() -> None:
    p, rho = problem(), 0.3
    settings, interval = lw.Doubling(n0=3, n_max=24, lam_step=0.05), (0.2, 0.4)
    native = _Search(settings, rho, interval, True).start(p, 9)
    lam, period = np.sqrt(0.08), np.ceil(600 / 12)
    for t in range(40):
        twin = lw.MLMC(3, 24).start(lw.Robust(p.oracle, lw.ChiSquare(penalty=lam)), 9)
        g, value, cost, _ = twin.direction(W, t)
        paid = twin.paid(W, t)
        ours, ours_value, ours_cost, fine = native.direction(W, t)
        np.testing.assert_allclose(ours, g, rtol=1e-9, atol=1e-12)
        assert ours_value == pytest.approx(value + lam * rho, rel=1e-9)
        assert ours_cost == cost
        assert fine
        lam = np.clip(lam - 0.05 / np.sqrt(1.0 + t / period) * (rho - paid / lam), *interval)
        assert native.lam == pytest.approx(lam, rel=1e-9)


def test_the_penalty_form_plus_lam_rho_is_the_radius_form_at_its_least() -> None:
    losses, rho = RNG.exponential(size=200), 0.4
    exact = lw.ChiSquare(radius=rho).solve(losses)
    grid = exact.multiplier * np.exp(np.linspace(-0.1, 0.1, 201))
    values = [lw.ChiSquare(penalty=lam)(losses) + lam * rho for lam in grid]
    assert min(values) == pytest.approx(exact.value, rel=1e-9)
    assert int(np.argmin(values)) == 100


def test_intervals_cover_what_they_must_with_ratio_two() -> None:
    p = problem()
    start = p.evaluate(np.zeros(5))
    intervals = lw.Doubling(accuracy=0.05).intervals(p, start.losses, start.value)
    eps, span = 0.05 * start.value, np.ptp(start.losses)
    assert len(intervals) == np.ceil(np.log2(2 * span / eps))
    assert intervals[0][1] == pytest.approx(span / 0.3)
    assert intervals[-1][0] <= eps / (2 * 0.3)
    for (low, high), (_, below) in itertools.pairwise(intervals):
        assert high == pytest.approx(2 * low)
        assert low == below


@pytest.mark.parametrize("radius", [0.05, 0.5, 2.0])
def test_default_steps_reach_the_optimum(radius: float) -> None:
    p = problem(radius)
    best = lw.minimize(p).fun
    result = lw.minimize(p, algorithm=lw.Doubling(), max_passes=600)
    assert result.fun <= best * (1 + 3e-3)
    assert result.gap is not None
    assert result.fun - result.gap <= best
    assert 600 <= result.passes < 700
    assert result.status is lw.Status.BUDGET


def test_a_domain_and_weights_hold() -> None:
    weight = np.where(np.arange(600) % 3 == 0, 0.0, 1.0)
    result = lw.minimize(
        problem(sample_weight=weight), algorithm=lw.Doubling(), domain=lw.Box(-0.1, 0.1), max_passes=50
    )
    assert np.all(np.abs(result.x[:4]) <= 0.1)
    assert np.all(result.weights[::3] == 0.0)


def test_bits_do_not_depend_on_threads_or_on_being_stopped(tmp_path: Path) -> None:
    p = problem()
    runs = [lw.minimize(p, algorithm=lw.Doubling(), max_passes=60, threads=t) for t in (1, 2)]
    assert runs[0].x.tobytes() == runs[1].x.tobytes()
    file, seen = lw.Checkpoint(tmp_path / "run", every=0.0), []

    def stop(state: lw.State) -> bool:
        seen.append(state.step)
        return state.step == 4

    part = lw.minimize(p, algorithm=lw.Doubling(), max_passes=60, checkpoint=file, callback=stop)
    assert part.status is lw.Status.STOPPED_BY_CALLBACK
    rest = lw.minimize(p, algorithm=lw.Doubling(), max_passes=60, checkpoint=file)
    assert rest.x.tobytes() == runs[0].x.tobytes()
    assert rest.passes == runs[0].passes


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lw.Doubling(accuracy=0.0), r"accuracy must be in \(0, 1\), got 0.0"),
        (lambda: lw.Doubling(n_max=8), "n_max must be at least 2 n0 = 16, got 8"),
        (lambda: lw.Doubling(lam_step=-1.0), "lam_step must be finite and at least 0"),
        (
            lambda: lw.minimize(lw.Robust(problem().oracle, lw.ChiSquare(penalty=1.0)), algorithm=lw.Doubling()),
            r"Doubling is for ChiSquare\(radius=\) with a positive radius",
        ),
        (
            lambda: lw.minimize(
                lw.Robust(problem().oracle, lw.ChiSquare(radius=1.0), groups=np.arange(600) % 3),
                algorithm=lw.Doubling(),
            ),
            "not supported with groups",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]
