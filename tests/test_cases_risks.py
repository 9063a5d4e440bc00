"""Cases from practice that concern the value of a risk; each is named by its identifier."""

from __future__ import annotations

import math
import re
import tracemalloc

import numpy as np
import pytest

import leeward as lw

SQRT3 = math.sqrt(3)


def test_bl_01_a_tail_that_is_no_whole_number_of_observations() -> None:
    losses = np.arange(5.0)
    s = lw.CVaR(0.25).solve(losses)
    assert s.value == pytest.approx(3.8, abs=1e-12)
    assert s.weights == pytest.approx([0, 0, 0, 0.2, 0.8], abs=1e-12)
    assert s.weights @ losses == pytest.approx(3.8, abs=1e-12)
    assert s.eta + np.maximum(losses - s.eta, 0).mean() / 0.25 == pytest.approx(3.8, abs=1e-12)
    h = 1e-6
    slopes = [(lw.CVaR(0.25)(losses + h * e) - lw.CVaR(0.25)(losses - h * e)) / (2 * h) for e in np.eye(5)]
    assert slopes == pytest.approx(s.weights, abs=1e-8)


@pytest.mark.parametrize(
    ("n", "tail", "value"), [(10, 1 - 0.9, 10.0), (50, 0.01, 50.0), (100, 0.29, 86.0), (100, 0.07, 97.0)]
)
def test_bl_02_the_tail_is_a_real_number_and_never_empty(n: int, tail: float, value: float) -> None:
    assert lw.CVaR(tail)(np.arange(1.0, n + 1)) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("tail", [0.0, 1.0000001, -0.1, math.nan])
def test_bl_02_a_tail_outside_zero_to_one_is_named(tail: float) -> None:
    with pytest.raises(ValueError, match=re.escape(f"alpha must be in (0, 1], got {tail:.12g}")):
        lw.CVaR(tail)


def test_bl_03_missing_losses_and_weights_are_refused_with_their_position() -> None:
    losses = np.append(np.arange(1.0, 21.0), [math.nan] * 5)
    with pytest.raises(ValueError, match=r"losses.*20"):
        lw.CVaR(0.05)(losses)
    assert lw.CVaR(0.05)(losses[:20]) == 20.0
    weights = np.ones(20)
    weights[7] = math.nan
    with pytest.raises(ValueError, match=r"sample_weight.*7"):
        lw.CVaR(0.05)(losses[:20], sample_weight=weights)


def test_bl_05_the_empirical_tail_mean_and_no_silent_fallback() -> None:
    returns = np.concatenate([np.full(90, 0.01), -np.arange(1, 11) / 100])
    assert lw.CVaR(0.05)(-returns) == pytest.approx(0.08, rel=1e-12)
    assert lw.CVaR(0.05)(np.full(20, -0.01)) == pytest.approx(-0.01, rel=1e-12)


def test_bl_06_alpha_is_the_tail_mass() -> None:
    losses = np.arange(1.0, 101.0)
    assert lw.CVaR(0.05)(losses) == pytest.approx(98.0, rel=1e-12)
    assert lw.CVaR(0.95)(losses) == pytest.approx(53.0, rel=1e-12)
    values = [lw.CVaR(tail)(losses) for tail in np.linspace(1, 0.001, 200)]
    assert np.all(np.diff(values) >= 0)


@pytest.mark.parametrize(
    ("losses", "base", "pearson", "value", "weights"),
    [
        ([1, 2, 3], None, 0.5, 2 + 1 / SQRT3, [1 / 3 - 1 / (2 * SQRT3), 1 / 3, 1 / 3 + 1 / (2 * SQRT3)]),
        ([1, 2, 3], None, 1.0, 2.5 + 1 / math.sqrt(12), [0, 0.5 - 1 / math.sqrt(12), 0.5 + 1 / math.sqrt(12)]),
        ([1, 2, 3], [0.5, 0.3, 0.2], 0.3, 1.7 + math.sqrt(0.3 * 0.61), None),
    ],
)
def test_bl_07_the_chi_square_radius_is_half_of_pearson(
    losses: list[float], base: list[float] | None, pearson: float, value: float, weights: list[float] | None
) -> None:
    s = lw.ChiSquare.from_pearson(radius=pearson).solve(losses, base)
    assert s.value == pytest.approx(value, rel=1e-13)
    assert lw.ChiSquare(radius=pearson / 2)(losses, base) == s.value
    if weights is not None:
        assert s.weights == pytest.approx(weights, abs=1e-12)


@pytest.mark.parametrize(
    ("shift", "value"), [(100, 102.053895337441), (10000, 10002.0538953374), (-10000, -9997.94610466256)]
)
def test_bl_08_the_entropic_value_never_overflows(shift: float, value: float) -> None:
    losses = shift + np.arange(4.0)
    exact = shift + math.log(sum(math.exp(i) for i in range(4)) / 4)
    softmax = np.exp(np.arange(4.0)) / np.exp(np.arange(4.0)).sum()
    for risk in (lw.Tilted(1.0), lw.KL(penalty=1.0)):
        s = risk.solve(losses)
        assert s.value == pytest.approx(value, rel=1e-12)
        assert s.value == pytest.approx(exact, rel=1e-12)
        assert s.weights == pytest.approx(softmax, abs=1e-13)
        assert risk(losses.astype(np.float32)) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(("tail", "value", "gradient"), [(0.1, 3.0, [0, 1, 0]), (0.5, 7 / 3, [0, 2 / 3, 1 / 3])])
def test_bl_10_a_batch_smaller_than_the_tail(tail: float, value: float, gradient: list[float]) -> None:
    s = lw.CVaR(tail).solve([0.2, 3.0, 1.0])
    assert s.value == pytest.approx(value, rel=1e-14)
    assert s.weights == pytest.approx(gradient, abs=1e-14)


@pytest.mark.parametrize(
    "risk",
    [
        lw.CVaR(0.1),
        lw.KL(penalty=0.5),
        lw.KL(radius=0.5),
        lw.ChiSquare(penalty=0.5),
        lw.ChiSquare(radius=1),
        lw.Tilted(1),
    ],
    ids=repr,
)
def test_bl_10_a_batch_of_one_and_an_empty_batch(risk: lw.Risk) -> None:
    s = risk.solve([0.7])
    assert s.value == 0.7
    assert s.weights.tolist() == [1.0]
    with pytest.raises(ValueError, match="losses must have at least one"):
        risk([])


def test_bl_11_batches_are_biased_low() -> None:
    """A risk of halves, averaged, is not the risk of the whole: the numbers the documentation quotes."""
    losses = np.arange(1.0, 9.0)
    assert lw.CVaR(0.25)(losses) == pytest.approx(7.5, rel=1e-14)
    assert lw.Tilted(1.0)(losses) == pytest.approx(6.37889808479917, rel=1e-13)
    assert np.mean(lw.CVaR(0.25)(losses.reshape(2, 4))) == pytest.approx(6.0, rel=1e-14)
    assert np.mean(lw.Tilted(1.0)(losses.reshape(2, 4))) == pytest.approx(5.05389533744130, rel=1e-13)
    pairs = np.array([[a, b] for a in range(1, 5) for b in range(a + 1, 5)], dtype=float)
    assert lw.CVaR(0.5)(np.arange(1.0, 5.0)) == pytest.approx(3.5, rel=1e-14)
    assert np.mean(lw.CVaR(0.5)(pairs)) == pytest.approx(10 / 3, rel=1e-14)


def _fixed_losses(losses: list[float]) -> lw.FunctionOracle:
    values = np.array(losses)
    return lw.FunctionOracle(
        losses=lambda w, index: values[index] + w[0],
        gradient=lambda w, weights, index: np.array([weights.sum()]),
        size=values.size,
        dim=1,
    )


def test_bl_12_groups_are_averaged_within_before_they_are_weighed() -> None:
    problem = lw.Robust(_fixed_losses([1.0, 1.0, 1.0, 5.0]), lw.Mean(), groups=[0, 0, 0, 1])
    there = problem.evaluate(np.zeros(1))
    assert there.value == pytest.approx(3.0, rel=1e-14)
    assert there.weights == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2], rel=1e-14)


def test_bl_13_a_loss_of_zero_belongs_to_its_group() -> None:
    problem = lw.Robust(_fixed_losses([0.0, 0.0, 1.0, 0.0]), lw.Worst(), groups=[0, 0, 1, 1])
    there = problem.evaluate(np.zeros(1))
    assert there.value == 0.5
    assert there.weights.tolist() == [0, 0, 0.5, 0.5]
    assert np.isfinite(there.gradient).all()


def test_bl_12_a_multiplicative_step_on_group_weights_is_the_kl_risk() -> None:
    s = lw.KL(penalty=1 / 0.1).solve([1.0, 5.0], sample_weight=[0.5, 0.5])
    assert s.weights == pytest.approx([0.401312339887548, 0.598687660112452], rel=1e-13)
    assert s.weights @ [1.0, 5.0] == pytest.approx(3.39475064044981, rel=1e-13)
    s = lw.KL(penalty=1.0).solve([1000.0, 1001.0], sample_weight=[0.5, 0.5])
    assert s.weights == pytest.approx([0.268941421369995, 0.731058578630005], rel=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "rel"), [(np.float64, 0.0), (np.float32, 1e-6)])
def test_bl_14_no_hidden_limit_at_seventeen_million_losses(dtype: type, rel: float) -> None:
    n = 17_000_000
    losses = np.arange(n, dtype=dtype)
    tracemalloc.start()
    s = lw.CVaR(0.01).solve(losses)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert s.value == pytest.approx(16_914_999.5, rel=rel, abs=0)
    assert s.weights.dtype == dtype
    assert s.weights.sum(dtype=np.float64) == pytest.approx(1.0, abs=1e-12 if dtype is np.float64 else 1e-6)
    assert np.count_nonzero(s.weights) == pytest.approx(170_000, abs=2)
    assert peak <= 4 * losses.nbytes
    if dtype is np.float64:
        assert s.eta == n - 170_000  # an order statistic, not an interpolation


def test_bl_15_half_precision_losses_are_computed_in_a_wider_type() -> None:
    s = lw.Tilted(1.0).solve(np.array([0, 12], dtype=np.float16))
    assert s.value == pytest.approx(11.3068589636, rel=1e-3)
    assert float(np.sum(s.weights, dtype=np.float64)) == pytest.approx(1.0, abs=2e-3)
    assert np.isfinite(s.weights).all()
    big = lw.ChiSquare(radius=0.25).solve(np.array([1e20, 3e20], dtype=np.float32))
    assert big.value == pytest.approx(2e20 + math.sqrt(0.5) * 1e20, rel=1e-6)


def test_bl_25_probabilities_are_renormalised_and_bad_ones_refused() -> None:
    losses = np.arange(1.0, 11.0)
    base = np.full(10, np.float32(0.1)).astype(np.float64)
    assert base.sum() != 1.0
    assert lw.CVaR(0.2)(losses, sample_weight=base) == pytest.approx(9.5, rel=1e-12)
    base[4] = -0.1
    with pytest.raises(ValueError, match=r"sample_weight.*4.*-0\.1"):
        lw.CVaR(0.2)(losses, sample_weight=base)


def test_bl_28_losses_of_any_margin_stay_finite_in_every_exponential_risk() -> None:
    losses = [800.0, 40.0, 4.2483542552916e-18, 0.0]
    for rho in (0.0, 1e-12, 0.1, 1.0, math.log(4), 5.0, 1e6):
        s = lw.KL(radius=rho).solve(losses)
        assert math.isfinite(s.value)
        assert s.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert lw.Tilted(1.0)(losses) == pytest.approx(800 - math.log(4), rel=1e-14)
    assert lw.Tilted(-1.0)(losses) == pytest.approx(math.log(2), rel=1e-14)
