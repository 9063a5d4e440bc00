"""Draws: published answers, twins, statistics at a stated confidence, and the errors of wrong arguments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leeward import _core
from reference import draws as twin
from reference.philox import words

draws = _core.draws
STREAM = (20261130, 4, 7)  # seed, purpose, step
N = 200_000
P_MIN = 1e-3  # a test of statistics fails a right generator once in a thousand seeds, and the seed is fixed


def chi_square(observed: Any, probability: Any) -> float:
    """Return the p-value of counts against probabilities."""
    expected = np.asarray(probability) * np.sum(observed)
    assert expected.min() >= 5
    return float(stats.chisquare(observed, expected * (np.sum(observed) / expected.sum())).pvalue)


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_answers(counter: list[int], key: list[int], answer: str) -> None:
    assert " ".join(f"{word:08x}" for word in draws.philox(counter, key)) == answer


@pytest.mark.parametrize("first", [0, 1, 2**33 - 3])
def test_words_are_those_of_the_twin(first: int) -> None:
    big = (2**64 - 1, 65535, 2**63 + 5)
    for stream in (STREAM, big):
        np.testing.assert_array_equal(draws.words(*stream, 100, first), words(*stream, 100, first))


def test_uniforms_are_those_of_the_twin() -> None:
    w = words(*STREAM, 1000)
    np.testing.assert_array_equal(draws.uniform(*STREAM, 1000), twin.uniform(w))
    np.testing.assert_array_equal(draws.open_uniform(*STREAM, 1000), twin.uniform(w) + 2.0**-53)


def test_normals_are_those_of_the_twin_to_rounding() -> None:
    np.testing.assert_allclose(draws.normal(*STREAM, 20_000), twin.normal(words(*STREAM, 20_000)), rtol=0, atol=4e-15)


@pytest.mark.parametrize("n", [1, 2, 10, 2**40 + 1, 2**62 + 2**61])
def test_bounded_integers_are_those_of_the_twin(n: int) -> None:
    assert draws.below(*STREAM, n, 300).tolist() == twin.below(*STREAM, n, 300)


@pytest.mark.parametrize("mean", [0.25, 1.0, 32.0, 1e6])
def test_geometric_lengths_are_those_of_the_twin(mean: float) -> None:
    np.testing.assert_array_equal(draws.geometric(*STREAM, mean, 5000), twin.geometric(words(*STREAM, 5000), mean))


def test_levels_are_those_of_the_twin() -> None:
    for j_max in (1, 2, 9, 65):
        assert draws.level(*STREAM, j_max, 2000).tolist() == twin.level(words(*STREAM, 2000), j_max)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 17, 100, 1023, 1024, 1025])
def test_permutations_are_those_of_the_twin(n: int) -> None:
    assert draws.permutation(*STREAM, n, n).tolist() == twin.permutation(*STREAM, n)


def test_a_part_of_a_permutation_is_that_part_of_the_whole() -> None:
    whole = draws.permutation(*STREAM, 1000, 1000)
    np.testing.assert_array_equal(draws.permutation(*STREAM, 1000, 123, 456), whole[456 : 456 + 123])
    assert sorted(whole) == list(range(1000))


def test_weighted_draws_are_those_of_the_twin() -> None:
    weights = np.random.default_rng(0).exponential(size=37)
    keep, other = twin.alias_table(weights)
    w = [int(v) for v in words(*STREAM, 5000)]
    column = np.array([v * 37 >> 64 for v in w])
    low = np.array([v * 37 % 2**64 for v in w], dtype=np.uint64)
    expected = np.where(twin.uniform(low) < keep[column], column, other[column])
    # One draw in 2^40 may differ, where the twin's sums round otherwise.
    np.testing.assert_array_equal(draws.weighted(*STREAM, weights, 5000), expected)


def test_uniforms_are_uniform() -> None:
    u = draws.uniform(*STREAM, N)
    assert u.min() >= 0
    assert u.max() < 1
    assert chi_square(np.histogram(u, 256, (0, 1))[0], np.full(256, 1 / 256)) > P_MIN
    assert stats.kstest(u, "uniform").pvalue > P_MIN


def test_pairs_of_neighbouring_uniforms_are_uniform_in_the_square() -> None:
    u = draws.uniform(*STREAM, N)
    for x, y in ((u[:-1:2], u[1::2]), (u[1:-1:2], u[2::2])):
        counts = np.histogram2d(x, y, 32, ((0, 1), (0, 1)))[0].ravel()
        assert chi_square(counts, np.full(1024, 1 / 1024)) > P_MIN


def test_streams_of_neighbouring_steps_seeds_and_purposes_are_independent() -> None:
    seed, purpose, step = STREAM
    u = draws.uniform(*STREAM, N)
    for other in ((seed, purpose, step + 1), (seed + 1, purpose, step), (seed, purpose + 1, step)):
        v = draws.uniform(*other, N)
        counts = np.histogram2d(u, v, 32, ((0, 1), (0, 1)))[0].ravel()
        assert chi_square(counts, np.full(1024, 1 / 1024)) > P_MIN


def test_each_bit_of_a_word_is_fair() -> None:
    bits = np.unpackbits(draws.words(*STREAM, N).view(np.uint8).reshape(N, 8), axis=1).sum(axis=0)
    z = (bits - N / 2) / math.sqrt(N / 4)
    assert stats.chi2.sf(float(z @ z), 64) > P_MIN


@pytest.mark.parametrize("n", [2, 7, 100, 1000])
def test_bounded_integers_are_uniform(n: int) -> None:
    assert chi_square(np.bincount(draws.below(*STREAM, n, N), minlength=n), np.full(n, 1 / n)) > P_MIN


def test_bounded_integers_are_unbiased_where_many_words_are_rejected() -> None:
    n = 3 * 2**61  # a quarter of the words is rejected
    thirds = draws.below(*STREAM, n, N) // 2**61
    assert chi_square(np.bincount(thirds, minlength=3), np.full(3, 1 / 3)) > P_MIN


def test_normals_are_normal() -> None:
    z = draws.normal(*STREAM, N)
    assert stats.kstest(z, "norm").pvalue > P_MIN
    edges = stats.norm.ppf(np.linspace(0, 1, 101))
    assert chi_square(np.histogram(z, edges)[0], np.full(100, 0.01)) > P_MIN


def test_tails_of_normals_have_their_probability() -> None:
    z = np.abs(draws.normal(*STREAM, 4_000_000))
    for bound in (3.0, 4.0, 4.5):
        expected = 4_000_000 * 2 * stats.norm.sf(bound)
        assert stats.poisson.sf(int((z > bound).sum()) - 1, expected) > P_MIN / 2
        assert stats.poisson.cdf(int((z > bound).sum()), expected) > P_MIN / 2


def test_the_two_normals_of_a_pair_are_independent() -> None:
    z = draws.normal(*STREAM, N).reshape(-1, 2)
    edges = stats.norm.ppf(np.linspace(0, 1, 21))
    counts = np.histogram2d(z[:, 0], z[:, 1], (edges, edges))[0].ravel()
    assert chi_square(counts, np.full(400, 1 / 400)) > P_MIN
    for f in (np.square, np.abs):
        assert stats.pearsonr(f(z[:, 0]), f(z[:, 1])).pvalue > P_MIN


def test_moments_of_normals_are_those_of_the_array() -> None:
    z = draws.normal(*STREAM, 30_001)
    expected = [np.mean(z**k) for k in (1, 2, 3, 4)]
    np.testing.assert_allclose(draws.normal_moments(*STREAM, 30_001), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mean", [0.3, 1.0, 16.0, 1000.0])
def test_geometric_lengths_have_their_law(mean: float) -> None:
    k = draws.geometric(*STREAM, mean, N)
    gamma = mean / (1 + mean)
    quantiles = np.unique(np.floor(np.log1p(-np.linspace(0, 0.999, 60)) / math.log(gamma)).astype(int))
    upper = np.concatenate([quantiles[1:], [np.inf]])
    probability = gamma**quantiles - np.where(np.isinf(upper), 0.0, gamma**upper)
    counts = np.histogram(k, np.concatenate([quantiles, [k.max() + 1]]))[0]
    assert k.min() == 0
    assert chi_square(counts, probability) > P_MIN


def test_a_geometric_length_of_mean_zero_is_zero() -> None:
    assert not draws.geometric(*STREAM, 0.0, 1000).any()


@pytest.mark.parametrize("j_max", [1, 2, 6, 12])
def test_levels_have_the_truncated_law(j_max: int) -> None:
    j = draws.level(*STREAM, j_max, N)
    probability = [2.0**-k for k in range(1, j_max)] + [2.0 ** -(j_max - 1)]
    counts = np.bincount(j, minlength=j_max + 1)
    assert counts[0] == 0
    assert counts.sum() == N
    assert len(counts) == j_max + 1
    if j_max > 1:
        assert chi_square(counts[1:], probability) > P_MIN


def first_elements(n: int, take: int, keys: int) -> np.ndarray[Any, Any]:
    return np.array([draws.permutation(99, 1, step, n, take) for step in range(keys)])


@pytest.mark.parametrize("n", [3, 4, 5])
def test_all_orders_of_a_few_elements_are_equally_likely(n: int) -> None:
    orders = {order: k for k, order in enumerate(itertools.permutations(range(n)))}
    drawn = [orders[tuple(row)] for row in first_elements(n, n, 30_000).tolist()]
    assert chi_square(np.bincount(drawn, minlength=len(orders)), np.full(len(orders), 1 / len(orders))) > P_MIN


@pytest.mark.parametrize("n", [6, 8, 16, 17, 31, 33, 64])
def test_the_first_two_elements_of_a_permutation_are_a_uniform_pair(n: int) -> None:
    rows = first_elements(n, 2, 60_000)
    pair = rows[:, 0] * (n - 1) + rows[:, 1] - (rows[:, 1] > rows[:, 0])
    cells = n * (n - 1)
    assert chi_square(np.bincount(pair, minlength=cells), np.full(cells, 1 / cells)) > P_MIN


@pytest.mark.parametrize("position", [0, 1, 499, 999])
def test_each_position_of_a_permutation_is_uniform(position: int) -> None:
    drawn = [int(draws.permutation(7, 1, step, 1000, 1, position)[0]) // 10 for step in range(20_000)]
    assert chi_square(np.bincount(drawn, minlength=100), np.full(100, 0.01)) > P_MIN


def test_a_batch_without_replacement_spreads_over_its_range() -> None:
    batch = draws.permutation(*STREAM, 10**9 + 7, 100_000)
    assert len(np.unique(batch)) == 100_000
    assert stats.kstest(batch / (10**9 + 7), "uniform").pvalue > P_MIN


def test_weighted_draws_have_their_probabilities() -> None:
    weights = np.array([0.0, 1.0, 2.0, 3.0, 0.5, 0.0, 10.0])
    counts = np.bincount(draws.weighted(*STREAM, weights, N), minlength=7)
    assert counts[0] == counts[5] == 0
    some = weights > 0
    assert chi_square(counts[some], weights[some] / weights.sum()) > P_MIN


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draws.uniform(0, 0, 0, -1), "count must be at least 0, got -1"),
        (lambda: draws.uniform(0, 65536, 0, 1), r"purpose must be in \[0, 65536\), got 65536"),
        (lambda: draws.uniform(0, 0, 0, 1, 2**41), "first must be at least 0"),
        (lambda: draws.below(0, 0, 0, 0, 1), "n must be at least 1, got 0"),
        (lambda: draws.permutation(0, 0, 0, 5, 6), "first .* count at most n"),
        (lambda: draws.geometric(0, 0, 0, -1.0, 1), "mean must be in"),
        (lambda: draws.geometric(0, 0, 0, math.nan, 1), "mean must be in"),
        (lambda: draws.level(0, 0, 0, 66, 1), "j_max must be in"),
        (lambda: draws.weighted(0, 0, 0, np.array([1.0, -1.0]), 1), "got -1.0+ at position 1"),
        (lambda: draws.weighted(0, 0, 0, np.array([0.0]), 1), "positive, finite sum"),
        (lambda: draws.normal_moments(0, 0, 0, 0), "count must be in"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
