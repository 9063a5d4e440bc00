"""Lengths and draws of the finite-sum methods: their laws at a stated confidence (p > 1e-3 at a fixed seed), and counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import leeward as lw

P_MIN = 1e-3
N = 60


def problem(n: int = N, **settings: Any) -> lw.Robust:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return lw.Robust(lw.LinearModel(X, np.sign(X[:, 0] + rng.normal(size=n)), l2=0.1, **settings))


def native(algorithm: Any, target: lw.Robust, seed: int = 20261130) -> Any:
    return algorithm._estimator(target).start(target, seed)


def p_value(observed: NDArray[Any], probability: NDArray[Any]) -> float:
    expected = probability * observed.sum()
    assert expected.min() >= 5
    return float(stats.chisquare(observed, expected * (observed.sum() / expected.sum())).pvalue)


@pytest.mark.parametrize(("B", "b"), [(1, 1), (8, 1), (32, 32), (40, 7), (1000, 1), (1024, 32)])
def test_a_million_inner_lengths_follow_the_geometric_law(B: int, b: int) -> None:
    lengths = native(lw.SCSG(B, b), problem(max(B, N))).lengths(1, 1_000_000)
    gamma = B / (B + b)
    # Equally likely cells as far as the law has atoms for them, the last one open.
    quantiles = np.unique(np.ceil(np.log1p(-np.linspace(0, 1, 101)[1:-1]) / np.log(gamma)).astype(int))
    edges = np.concatenate([[0], quantiles[quantiles > 0]])
    probability = gamma**edges - np.append(gamma ** edges[1:], 0.0)
    observed = np.bincount(np.searchsorted(edges, lengths, side="right") - 1, minlength=len(edges))
    assert lengths.min() == 0
    assert p_value(observed, probability) > P_MIN
    error = np.sqrt(gamma) / (1 - gamma) / 1000.0
    assert abs(lengths.mean() - B / b) < 4.5 * error  # chance below 1e-5


def test_the_first_atoms_of_the_law_are_those_of_the_formula() -> None:
    lengths = native(lw.SCSG(8, 2), problem()).lengths(1, 1_000_000)
    for k in range(6):
        wanted = 0.8**k * 0.2
        assert abs(np.mean(lengths == k) - wanted) < 5 * np.sqrt(wanted * (1 - wanted)) / 1000


def test_loopless_lengths_are_those_of_a_coin_after_each_step() -> None:
    lengths = native(lw.SVRG(1, inner_steps=5, loopless=True), problem()).lengths(1, 200_000)
    k = np.arange(1, 30)
    observed = np.append(np.bincount(lengths, minlength=30)[1:30], np.sum(lengths >= 30))
    assert lengths.min() == 1
    assert p_value(observed, np.append(0.2 * 0.8 ** (k - 1), 0.8**29)) > P_MIN


def test_lengths_of_growing_batches_follow_their_own_means() -> None:
    estimator = native(lw.SCSG("growing", 1), problem(5000))
    for j in (1, 2, 4, 9, 100, 292, 293):
        B = min(int(np.ceil(j * np.sqrt(j))), 5000)
        assert estimator.stage(j)[:2] == (B, 1)
    tails = np.array([estimator.stage(j)[2] for j in range(400, 20_400)])  # B = n from stage 293
    assert abs(tails.mean() - 5000) < 4.5 * 5000 / np.sqrt(20_000)


def test_the_doubling_batch_doubles_up_to_everyone() -> None:
    estimator = native(lw.SCSG("doubling", 1), problem(3000))
    assert [estimator.stage(j)[0] for j in range(1, 7)] == [256, 512, 1024, 2048, 3000, 3000]


@pytest.mark.parametrize(("B", "n"), [(1, N), (7, N), (59, N), (5, 13)])
def test_batches_without_replacement_are_uniform(B: int, n: int) -> None:
    estimator = native(lw.SCSG(B, 1), problem(n))
    rounds = 4000
    batches = np.array([estimator.batch(j) for j in range(1, rounds + 1)])
    assert all(len(np.unique(batch)) == B for batch in batches)
    counts = np.bincount(batches.ravel(), minlength=n)
    assert counts.min() > 0
    # Inclusions of one batch have variance q (1 - q) and covariance -q (1 - q) / (n - 1), q = B/n.
    q = B / n
    statistic = np.sum((counts - rounds * q) ** 2) / (rounds * q * (1 - q)) * (n - 1) / n
    assert stats.chi2.sf(statistic, n - 1) > P_MIN
    if B > 1:  # pairs of positions are as uniform as their elements
        pairs = np.bincount(batches[:, 0] * n + batches[:, 1], minlength=n * n).reshape(n, n)
        assert np.trace(pairs) == 0
        tens = np.add.reduceat(np.add.reduceat(pairs, np.arange(0, n, 10), 0), np.arange(0, n, 10), 1)
        size = np.minimum(10, n - np.arange(0, n, 10))
        chance = (np.outer(size, size) - np.diag(size)) / (n * (n - 1))
        assert p_value(tens.ravel(), chance.ravel()) > P_MIN


@pytest.mark.parametrize("b", [1, 4, 30])
def test_every_sample_is_drawn_by_the_mini_batches_and_equally_often(b: int) -> None:
    estimator = native(lw.SCSG(30, b), problem())
    counts = np.zeros(N, dtype=int)
    rounds, step = 6000, 0
    for j in range(1, 61):
        for k in range(rounds // 60):
            index = estimator.mini_batch(j, k, step)
            assert len(np.unique(index)) == b  # a subset of the samples, as Algorithm 1 has it
            counts[index] += 1
            step += 1
    assert counts.min() > 0
    q = b / N
    statistic = np.sum((counts - rounds * q) ** 2) / (rounds * q * (1 - q)) * (N - 1) / N
    assert stats.chi2.sf(statistic, N - 1) > P_MIN


def test_mini_batches_are_drawn_by_weight_and_never_without_one() -> None:
    weight = np.arange(N) % 4 * 1.0
    estimator = native(lw.SCSG(30, 5), problem(sample_weight=weight))
    drawn = np.concatenate([estimator.mini_batch(j, k, 0) for j in range(1, 101) for k in range(40)])
    counts = np.bincount(drawn, minlength=N)
    assert np.all(counts[weight == 0] == 0)
    assert p_value(counts[weight > 0], weight[weight > 0] / weight.sum()) > P_MIN
    batches = np.concatenate([estimator.batch(j) for j in range(1, 201)])
    assert not np.isin(batches, np.flatnonzero(weight == 0)).any()
    assert len(np.unique(batches)) == np.sum(weight > 0)


def test_slices_cut_the_batch_and_take_each_sample_once() -> None:
    estimator = native(lw.SCSG(30, 7, inner="slices"), problem())
    for j in (1, 2, 9):
        slices = [estimator.mini_batch(j, k, 0) for k in range(estimator.stage(j)[2])]
        assert [len(part) for part in slices] == [7, 7, 7, 7, 2]
        np.testing.assert_array_equal(np.concatenate(slices), estimator.batch(j))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "algorithm", [lw.SCSG(10, 3), lw.SCSG(10, 1), lw.SCSG(12, 4, inner="slices"), lw.SVRG(5)], ids=repr
)
def test_directions_are_unbiased(algorithm: Any, weighted: bool) -> None:
    weight = 1.0 + np.arange(N) % 3 if weighted else None
    target = problem(sample_weight=weight)
    start, w = np.array([0.3, -0.2, 0.1, 0.05]), np.array([-0.1, 0.2, 0.4, -0.3])
    directions = []
    for seed in range(4000):
        estimator = native(algorithm, target, seed)
        at_start = estimator.direction(start, 0)[0]
        directions.append(estimator.direction(w, 1)[0])
        if isinstance(algorithm, lw.SVRG):  # exact at the reference point
            np.testing.assert_allclose(at_start, mean_gradient(target, start), rtol=1e-11, atol=1e-14)
    error = np.mean(directions, axis=0) - mean_gradient(target, w)
    assert np.all(np.abs(error) <= 5.0 * np.std(directions, axis=0) / np.sqrt(4000))  # chance below 1e-5


def mean_gradient(target: lw.Robust, w: NDArray[np.float64]) -> NDArray[np.float64]:
    """The gradient at w without the l2 term."""
    return np.asarray(target.evaluate(w).gradient - 0.1 * np.append(w[:3], 0.0))


@pytest.mark.parametrize(
    "algorithm",
    [lw.SCSG(8, 4, step=0.05), lw.SCSG(32, 32, step=0.05), lw.SCSG("growing", 0.25, step=0.05), lw.SVRG(3, step=0.05)],
    ids=repr,
)
def test_counts_are_exact(algorithm: Any) -> None:
    """``B + 2 b N`` gradients and ``B + b N`` samples, stages without a step included."""
    target = problem()
    result = lw.minimize(target, algorithm=algorithm, max_passes=40, seed=5, trace="step")
    estimator = native(algorithm, target, 5)
    steps = gradients = samples = 0
    j, wanted = 0, [(0, 0, 0)]
    while steps < result.nit:
        j += 1
        B, b, length = estimator.stage(j)
        gradients, samples = gradients + B, samples + B
        for _ in range(length):
            steps, gradients, samples = steps + 1, gradients + 2 * b, samples + b
            wanted.append((steps, gradients, samples))
    rows = np.array(wanted[: result.nit + 1])
    np.testing.assert_array_equal(result.trace.steps, rows[:, 0])
    np.testing.assert_array_equal(result.trace.gradients, rows[:, 1])
    np.testing.assert_array_equal(result.trace.samples, rows[:, 2])
    assert (result.njev, result.samples) == (rows[-1, 1], rows[-1, 2])
    assert result.passes == result.njev / N
