"""Expectations from a sampler: draws are values of their numbers, batches are fresh, evaluations use a fixed sample."""

from __future__ import annotations

import math
import pickle
import re

import numpy as np
import pytest

import leeward as lw
from leeward.testing import check_oracle

DIM = 3
TRUTH = np.array([1.0, -2.0, 0.5])


def sample(draws):
    """Rows x and labels y = x.truth + noise."""
    X = draws.normal(DIM)
    return X, X @ TRUTH + 0.5 * draws.normal()


def losses(w, xi):
    X, y = xi
    return 0.5 * (X @ w - y) ** 2


def gradient(w, weights, xi):
    X, y = xi
    return (weights * (X @ w - y)) @ X


def made(**settings):
    return lw.SamplerOracle(**({"sample": sample, "losses": losses, "gradient": gradient, "dim": DIM} | settings))


def test_draws_depend_on_the_seed_and_the_number_alone():
    index = np.array([5, 2**61, 5, 0])
    z, u = lw.Draws(index).normal((2, 3)), lw.Draws(index).uniform()
    assert z.shape == (4, 2, 3)
    assert u.shape == (4,)
    np.testing.assert_array_equal(z[0], z[2])
    np.testing.assert_array_equal(z[1], lw.Draws([2**61]).normal((2, 3))[0])
    assert len(np.unique(z)) == 18
    assert not np.isin(lw.Draws(index, seed=1).normal((2, 3)), z).any()


def test_calls_hand_out_further_numbers_and_the_same_ones_again_in_a_new_batch():
    first, again = lw.Draws(np.arange(6)), lw.Draws(np.arange(6))
    a, b, c = first.normal(3), first.normal(3), first.uniform(1)
    assert not np.isin(b, a).any()
    np.testing.assert_array_equal(np.hstack([again.normal(3), again.normal(3), again.uniform(1)]), np.hstack([a, b, c]))


def test_draws_have_the_law_they_say():
    # Kolmogorov-Smirnov at 1e-3 with 200000 numbers, and no correlation between neighbours.
    from scipy import stats

    draws = lw.Draws(np.arange(50_000), seed=3)
    z, u = draws.normal(4), draws.uniform(4)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(z[:-1, 0], z[1:, 0])[0, 1]) < 4 / math.sqrt(50_000)
    assert np.abs(np.corrcoef(np.hstack([z, u]).T) - np.eye(8)).max() < 5 / math.sqrt(50_000)


def test_the_same_sample_is_seen_at_two_points_and_alone():
    oracle = made(evaluation=100)
    numbers = np.array([2**60, 7, 99, 2**62 - 1])
    batch = oracle.losses(TRUTH, numbers)
    np.testing.assert_array_equal(batch, [oracle.losses(TRUTH, [i])[0] for i in numbers])
    X, y = sample(lw.Draws(numbers))
    np.testing.assert_array_equal(batch, losses(TRUTH, (X, y)))
    np.testing.assert_allclose(oracle.gradient(0 * TRUTH, np.ones(4), numbers), -y @ X, rtol=1e-13)
    check_oracle(oracle)


def test_all_samples_are_the_first_of_the_population():
    oracle = made(evaluation=64)
    assert (oracle.size, oracle.population) == (64, 2**62)
    np.testing.assert_array_equal(oracle.losses(TRUTH), oracle.losses(TRUTH, np.arange(64)))
    with pytest.raises(IndexError, match=re.escape(f"must be in [0, {2**62})")):
        oracle.losses(TRUTH, [2**62])


def test_the_sampler_is_asked_once_for_a_batch_that_is_used_twice():
    asked = []

    def counted(draws):
        asked.append(draws.index.size)
        return sample(draws)

    oracle = made(sample=counted, evaluation=50)
    index = np.array([3, 4, 5])
    for w in (TRUTH, 0 * TRUTH):
        oracle.losses(w, index)
        oracle.gradient(w, np.ones(3), index)
    assert asked == [3]
    oracle.losses(TRUTH, index + 1)
    oracle.losses(TRUTH, index)
    assert asked == [3, 3, 3]
    for _ in range(3):
        oracle.losses(TRUTH)
        oracle.gradient(TRUTH, np.ones(50))
    assert asked == [3, 3, 3, 50]


def test_exceptions_of_the_sampler_come_back_and_the_next_call_asks_again():
    error, broken = KeyError("mine"), [True]

    def fails(draws):
        if broken[0]:
            raise error
        return sample(draws)

    oracle = made(sample=fails, evaluation=20)
    for index in ([1, 2], None):
        with pytest.raises(KeyError) as caught:
            oracle.losses(TRUTH, index)
        assert caught.value is error
    broken[0] = False
    assert oracle.losses(TRUTH, [1, 2]).shape == (2,)
    assert oracle.losses(TRUTH).shape == (20,)


def test_sgd_finds_the_minimiser_of_the_expectation_not_that_of_the_evaluation_sample():
    # E|w - truth|^2/2 + 1/8: the evaluation sample of 50 has its own minimiser, 0.07 off in each coordinate.
    oracle = made(evaluation=50, convex=True)
    result = lw.minimize(oracle, algorithm=lw.SGD(lw.Minibatch(32), step=0.1), max_passes=4000, seed=1, tol=0)
    X, y = sample(lw.Draws(np.arange(50)))
    own = np.linalg.lstsq(X, y, rcond=None)[0]
    assert np.linalg.norm(own - TRUTH) > 0.08
    assert np.linalg.norm(result.x - TRUTH) < 0.02
    assert result.fun == pytest.approx(oracle.losses(result.x).mean(), rel=1e-14)
    assert result.passes == pytest.approx(4000, rel=0.01)


def test_runs_repeat_and_the_algorithm_is_chosen_for_endless_samples():
    a, b = (lw.minimize(made(l2=0.1), max_passes=5, seed=3) for _ in range(2))
    np.testing.assert_array_equal(a.x, b.x)
    assert "SGD was chosen because the samples are drawn without end" in a.message
    assert not np.array_equal(a.x, lw.minimize(made(l2=0.1), max_passes=5, seed=4).x)


def test_full_batch_methods_solve_the_sample_average():
    result = lw.minimize(made(evaluation=500, convex=True, l2=1e-6), algorithm=lw.LBFGS(), tol=1e-10)
    X, y = sample(lw.Draws(np.arange(500)))
    np.testing.assert_allclose(result.x, np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-4)
    assert result.gap is not None


def test_batches_without_replacement_and_robust_risks_run_on_samplers():
    oracle = made(evaluation=400)
    for estimator, risk in ((lw.Minibatch(64, replace=False), lw.Mean()), (lw.Minibatch(64), lw.CVaR(0.3))):
        result = lw.minimize(lw.Robust(oracle, risk), algorithm=lw.SGD(estimator, step=0.1), max_passes=30, tol=0)
        assert np.linalg.norm(result.x - TRUTH) < 0.2


def test_a_population_may_be_finite():
    table = np.arange(30.0)
    oracle = made(
        sample=lambda draws: table[draws.index],
        losses=lambda w, x: 0.5 * (w[0] - x) ** 2,
        gradient=lambda w, q, x: np.array([q @ (w[0] - x)]),
        dim=1,
        evaluation=10,
        population=30,
    )
    result = lw.minimize(oracle, algorithm=lw.SGD(lw.Minibatch(30, replace=False), step=1.0), max_passes=9, tol=0)
    np.testing.assert_allclose(result.x, [14.5], rtol=1e-12)


def test_settings_are_kept_and_pickled():
    oracle = made(evaluation=20, population=1000, seed=5, l2=0.5, penalised=2, convex=True)
    copy = pickle.loads(pickle.dumps(oracle))
    for o in (oracle, copy):
        assert (o.size, o.population, o.seed, o.l2, o.penalised, o.convex) == (20, 1000, 5, 0.5, 2, True)
    np.testing.assert_array_equal(oracle.losses(TRUTH), copy.losses(TRUTH))
    assert not np.array_equal(oracle.losses(TRUTH), made(evaluation=20, seed=6).losses(TRUTH))


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"sample": 3}, TypeError, "sample must be callable, got int"),
        ({"evaluation": 0}, ValueError, "size must be at least 1, got 0"),
        ({"population": 9, "evaluation": 10}, ValueError, "population must be at least 10, got 9"),
        ({"population": 2**63}, ValueError, r"population must be at most 2\*\*62"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
    ],
)
def test_wrong_settings_are_refused_in_words(settings, error, words):
    with pytest.raises(error, match=words):
        made(**settings)


def test_groups_need_labelled_samples():
    with pytest.raises(ValueError, match="groups need an oracle with a label for each sample"):
        lw.Robust(made(evaluation=10), lw.CVaR(0.5), groups=np.zeros(10, dtype=int))


@pytest.mark.parametrize(
    "algorithm",
    [
        lw.SCSG(batch=256, inner_batch=8, step=0.05),
        lw.SCSG(batch="growing", inner_batch=4, step=0.05),
        lw.SCSG(batch=256, inner_batch=16, inner="slices", step=0.05),
        lw.SVRG(inner_batch=16, step=0.05),
        lw.SARAH(inner_batch=16, step=0.05),
        lw.STORM(batch=16, step=0.02),
        lw.SCSG(),
    ],
    ids=repr,
)
def test_finite_sum_methods_run_on_fresh_draws(algorithm):
    seen = []

    def noted(draws):
        seen.append(draws.index.copy())
        return sample(draws)

    result = lw.minimize(made(sample=noted, evaluation=300), algorithm=algorithm, max_passes=60, tol=0)
    assert np.linalg.norm(result.x - TRUTH) < 0.1
    drawn = np.concatenate([i for i in seen if not (i.size == 300 and i[0] == 0)])
    walked = getattr(algorithm, "inner", None) == "slices"  # a batch, then its parts
    assert (
        np.unique(drawn).size > (0.49 if walked else 0.97) * drawn.size
    )  # samples do not come again, but for the choice of a step
    assert np.median(drawn) == pytest.approx(2**61, rel=0.1)


def test_growing_batches_go_beyond_the_evaluation_sample():
    sizes = []

    def noted(draws):
        sizes.append(draws.index.size)
        return sample(draws)

    scsg = lw.SCSG(batch="growing", inner_batch=8, inner="mean", step=0.05)
    lw.minimize(made(sample=noted, evaluation=20), algorithm=scsg, max_passes=400, tol=0)
    assert max(sizes) > 100
    assert {math.ceil(j**1.5) for j in range(2, 20)} <= set(sizes) | {8, 20}
