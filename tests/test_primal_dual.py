"""The primal-dual method: the adversary's distribution against the risks of its scores, its draws, and the optimum."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse, stats

import leeward as lw
from leeward.algorithms.primal_dual import _Game

RNG = np.random.default_rng(8)
N = 60
X = RNG.normal(size=(N, 4))
T = X @ np.array([1.0, -1.0, 0.5, 0.0]) + RNG.normal(size=N)
W = np.array([0.3, 0.1, -0.2, 0.4, 0.05])
# Each game with the risk whose worst case of the scores is the adversary's answer.
GAMES = [
    ((0, 0.0), lw.KL(penalty=1.0)),
    ((1, 0.25), lw.KLCVaR(0.25, 1.0)),
    ((2, 0.4), lw.ChiSquare(radius=0.4, penalty=1.0)),
]


def problem(**settings: object) -> lw.Robust:
    return lw.Robust(lw.LinearModel(X, T, "huber", l2=1e-2, **settings), lw.CVaR(0.25))  # type: ignore[arg-type]


def played(
    form: tuple[int, float], steps: int, p: lw.Robust | None = None, n: int = 3, dual_step: float = 0.02
) -> object:
    native = _Game(form, n, dual_step).start(problem() if p is None else p, 4)
    for t in range(steps):
        native.direction(W, t)
    return native


@pytest.mark.parametrize(("form", "risk"), GAMES, ids=["worst", "cvar", "chi-square"])
@pytest.mark.parametrize("steps", [1, 4, 40, 400])
@pytest.mark.parametrize("weighted", [False, True])
def test_q_is_the_worst_case_of_the_scores(form: tuple[int, float], risk: lw.Risk, steps: int, weighted: bool) -> None:
    p = problem(sample_weight=np.where(np.arange(N) % 5 == 0, 0.0, 1.0 + np.arange(N) % 3)) if weighted else problem()
    q, scores = played(form, steps, p).adversary(N)  # type: ignore[attr-defined]
    known = np.where(np.isnan(scores), 0.0, scores)
    np.testing.assert_allclose(q, risk.solve(known, sample_weight=p.base).weights, atol=2e-9)
    assert q.sum() == pytest.approx(1.0, abs=1e-10)
    if steps == 1:
        assert np.isnan(scores).sum() >= N - 3


@pytest.mark.parametrize("dual_step", [1.0, 50.0])
def test_scores_of_any_size_keep_q_a_distribution(dual_step: float) -> None:
    for form, risk in GAMES:
        q, scores = played(form, 300, dual_step=dual_step).adversary(N)  # type: ignore[attr-defined]
        known = np.where(np.isnan(scores), 0.0, scores)
        assert np.all(q >= 0)
        assert q.sum() == pytest.approx(1.0, abs=1e-8)
        assert q @ known == pytest.approx(risk.solve(known).weights @ known, rel=1e-6)


def test_scores_are_the_sums_of_the_centred_losses() -> None:
    native, p = _Game((1, 0.25), 3, 0.02).start(problem(), 4), problem()
    draws = lw.Minibatch(3).start(p, 4)  # draws from the base weights by the same words
    scores, base = np.zeros(N), None
    for t in range(50):
        native.direction(W, t)
        index = draws.draw(t)
        losses = p.oracle.losses(W, index)
        base = losses.mean() if base is None else base
        for j, l in zip(index, losses, strict=True):
            scores[j] += 0.02 * (l - base) * N / 3
        base += max(1.0 / (t + 1), 0.01) * (losses.mean() - base)
    known = native.adversary(N)[1]
    np.testing.assert_allclose(np.where(np.isnan(known), 0.0, known), scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", [g[0] for g in GAMES], ids=["worst", "cvar", "chi-square"])
@pytest.mark.parametrize("steps", [2, 200])
def test_draws_follow_q(form: tuple[int, float], steps: int) -> None:
    """20000 draws, chi-square test, samples expected less than five times put together: p > 1e-3."""
    native = played(form, steps)
    q = native.adversary(N)[0]  # type: ignore[attr-defined]
    counts = np.bincount(native.draws(0, 20_000, 1), minlength=N)  # type: ignore[attr-defined]
    assert np.all(counts[q == 0] == 0)
    rare = 20_000 * q < 5
    seen = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(20_000 * q[~rare], 20_000 * q[rare].sum())
    keep = wanted > 0
    assert stats.chisquare(seen[keep], wanted[keep] * seen.sum() / wanted[keep].sum()).pvalue > 1e-3


def test_directions_are_mean_gradients_of_draws_from_q() -> None:
    p = problem()
    native = played((1, 0.25), 100, p, n=5)
    index = native.draws(100, 5, 4)  # type: ignore[attr-defined]
    g = native.direction(W, 100)[0]  # type: ignore[attr-defined]
    np.testing.assert_allclose(g, p.oracle.gradient(W, np.full(5, 0.2), index), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("risk", [lw.CVaR(0.3), lw.ChiSquare(radius=0.3)], ids=repr)
@pytest.mark.parametrize("data", ["dense", "float32", "csr"])
def test_default_steps_reach_the_optimum(risk: lw.Risk, data: str) -> None:
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(800, 5))
    y = Z @ rng.normal(size=5) + rng.normal(size=800)
    rows = {"dense": Z, "float32": Z.astype(np.float32), "csr": sparse.csr_array(Z)}[data]
    p = lw.Robust(lw.LinearModel(rows, y, "huber", l2=1e-2), risk)
    best = lw.minimize(p).fun
    result = lw.minimize(p, algorithm=lw.PrimalDual(4), max_passes=200)
    assert result.fun <= best + 0.01 * (p.value(np.zeros(6)) - best)
    assert result.gap is not None
    assert result.fun - result.gap <= best


def test_bits_do_not_depend_on_threads_or_on_being_stopped(tmp_path: Path) -> None:
    for risk in (lw.CVaR(0.3), lw.ChiSquare(radius=0.3), lw.Worst()):
        p = lw.Robust(problem().oracle, risk)
        runs = [lw.minimize(p, algorithm=lw.PrimalDual(4), max_passes=30, threads=t) for t in (1, 2)]
        assert runs[0].x.tobytes() == runs[1].x.tobytes()
        for first in (1, 13):  # before and after all samples have been seen
            file = lw.Checkpoint(tmp_path / f"{type(risk).__name__}{first}", every=0.0)
            lw.minimize(p, algorithm=lw.PrimalDual(4), max_passes=first, checkpoint=file)
            rest = lw.minimize(p, algorithm=lw.PrimalDual(4), max_passes=30, checkpoint=file)
            assert rest.x.tobytes() == runs[0].x.tobytes()


def test_a_step_hardly_depends_on_the_number_of_samples() -> None:
    """A million against ten thousand samples of one column: less than three times (two is shown by the bench)."""
    rng, taken = np.random.default_rng(0), []
    for n in (10_000, 1_000_000):
        p = lw.Robust(lw.LinearModel(rng.normal(size=(n, 1)), rng.normal(size=n), "squared"), lw.CVaR(0.1))
        native, w = _Game((1, 0.1), 8, 1e-6).start(p, 0), np.zeros(2)
        times = []
        for t in range(600):
            start = time.perf_counter()
            native.direction(w, t, 1)
            times.append(time.perf_counter() - start)
        taken.append(np.median(times))
    assert taken[1] < 3.0 * taken[0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lw.PrimalDual(0), "n must be at least 1, got 0"),
        (lambda: lw.PrimalDual(dual_step=-1.0), "dual_step must be finite and at least 0"),
        (
            lambda: lw.minimize(lw.Robust(problem().oracle, lw.KL(penalty=1.0)), algorithm=lw.PrimalDual()),
            "PrimalDual is for CVaR",
        ),
        (
            lambda: lw.minimize(
                lw.Robust(problem().oracle, lw.CVaR(0.5), groups=np.arange(N) % 3), algorithm=lw.PrimalDual()
            ),
            "not supported with groups",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]
