"""Risks of vectors whose answer is known: stored values, closed forms, and the two ends of every parameter."""

from __future__ import annotations

import doctest
import importlib
import itertools
import math
import pkgutil

import numpy as np
import pytest

import leeward as lw
from reference import risk_catalogue as cat

TEN = np.arange(1.0, 11.0)
THREE = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(("alpha", "value"), [(0.1, 10.0), (0.25, 9.2), (0.3, 9.0)])
def test_cvar_of_one_to_ten(alpha: float, value: float) -> None:
    assert lw.CVaR(alpha)(TEN) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("lam", "value"), [(0.5, 8.616666666666667), (1, 8.0), (5, 6.325), (100, 5.54125)])
def test_chi_square_penalty_of_one_to_ten(lam: float, value: float) -> None:
    assert lw.ChiSquare(penalty=lam)(TEN) == pytest.approx(value, rel=1e-12)
    assert lw.CressieRead(2.0, penalty=lam)(TEN) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("rho", "value"),
    [
        (0.01, 5.906201920231798),
        (0.1, 6.784523257866513),
        (0.5, 8.26491106406735),
        (1, 9.0),
        (4, 9.947213595499958),
        (4.5, 10.0),
    ],
)
def test_chi_square_radius_of_one_to_ten(rho: float, value: float) -> None:
    assert lw.ChiSquare(radius=rho)(TEN) == pytest.approx(value, rel=1e-12)
    assert lw.CressieRead(2.0, radius=rho)(TEN) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("alpha", "lam", "value"),
    [
        (0.1, 0.1, 9.76974603079664),
        (0.1, 1.0, 8.156044651432683),
        (0.3, 1.0, 7.948807071167067),
        (0.3, 10.0, 5.909082226629633),
    ],
)
def test_kl_cvar_of_one_to_ten(alpha: float, lam: float, value: float) -> None:
    assert lw.KLCVaR(alpha, lam)(TEN) == pytest.approx(value, rel=1e-12)


def test_mean_worst_and_total_variation_of_one_to_ten() -> None:
    assert lw.Mean()(TEN) == 5.5
    assert lw.Worst()(TEN) == 10.0
    # one quarter of the mass: all of 1 and 2 and half of 3 become 10
    assert lw.TotalVariation(0.25)(TEN) == pytest.approx(5.5 + (9 + 8 + 3.5) / 10, rel=1e-14)


@pytest.mark.parametrize("lam", [0.01, 1.0, 300.0])
def test_kl_penalty_of_two_losses_is_the_logistic_formula(lam: float) -> None:
    s = lw.KL(penalty=lam).solve([0.0, 1.0], sample_weight=[3.0, 1.0])
    assert s.value == pytest.approx(1 + lam * math.log(0.25 + 0.75 * math.exp(-1 / lam)), rel=1e-12)
    assert s.weights[1] == pytest.approx(1 / (1 + 3 * math.exp(-1 / lam)), rel=1e-12)


def test_kl_radius_of_two_losses_inverts_the_binary_divergence() -> None:
    for q in (0.51, 0.7, 0.999):
        rho = q * math.log(2 * q) + (1 - q) * math.log(2 * (1 - q))
        assert lw.KL(radius=rho)([0.0, 1.0]) == pytest.approx(q, rel=1e-11)


def test_smoothed_cvar_of_two_losses_solves_its_quadratic() -> None:
    """With z = e^(-eta/lam): (1/2) z/(a + b z) + (1/2) c z/(a + b c z) = 1, a quadratic in z."""
    alpha, lam = 0.3, 0.5
    a, b, c = 1 - alpha, alpha, math.exp(1 / lam)
    quadratic = (2 * b * c * (b - 1), (1 + c) * a * (2 * b - 1), 2 * a * a)
    z = max(np.roots(quadratic).real)
    weight = 0.5 * c * z / (a + b * c * z)
    s = lw.SmoothedCVaR(alpha, lam).solve([0.0, 1.0])
    assert s.weights == pytest.approx([1 - weight, weight], rel=1e-12)
    f = lw.divergences.SmoothedCVaR(alpha).f
    assert s.value == pytest.approx(weight - lam * float(np.mean(f(2 * s.weights))), rel=1e-12)


def test_small_variance_risks_are_mean_plus_deviation() -> None:
    """While no weight vanishes: penalty mean + var/(2 lam), radius mean + sqrt(2 rho var)."""
    variance = 8.25
    assert lw.ChiSquare(penalty=50.0)(TEN) == pytest.approx(5.5 + variance / 100, rel=1e-14)
    assert lw.ChiSquare(radius=0.02)(TEN) == pytest.approx(5.5 + math.sqrt(0.04 * variance), rel=1e-14)


def test_the_active_set_form_of_the_chi_square_penalty() -> None:
    """m_A + P_A v_A/(2 lam) - (lam/2)(1/P_A - 1) on the losses above the threshold."""
    lam, active = 0.5, TEN[7:]
    p, m, v = 0.3, active.mean(), active.var()
    assert 7 < m - lam / p < 8  # the threshold leaves 8, 9 and 10
    assert lw.ChiSquare(penalty=lam)(TEN) == pytest.approx(m + p * v / (2 * lam) - lam / 2 * (1 / p - 1), rel=1e-14)


def test_extremile_is_the_expected_maximum_of_independent_draws() -> None:
    losses = np.array([3.0, -1.0, 7.0])
    for draws in (1, 2, 3):
        expected = np.mean([max(draw) for draw in itertools.product(losses, repeat=draws)])
        assert lw.Spectral.extremile(draws)(losses) == pytest.approx(expected, rel=1e-14)


def test_superquantile_spectrum_is_cvar_and_uniform_spectrum_the_mean() -> None:
    losses = np.random.default_rng(7).normal(size=37)
    for alpha in (1.0, 0.5, 0.123, 0.01):
        assert lw.Spectral.superquantile(alpha)(losses) == pytest.approx(lw.CVaR(alpha)(losses), rel=1e-13)
    assert lw.Spectral(np.ones(37) / 37)(losses) == pytest.approx(losses.mean(), rel=1e-13)


def test_spectral_weights_meet_the_sorted_losses() -> None:
    s = lw.Spectral([0.1, 0.2, 0.7]).solve([5.0, 1.0, 3.0])
    assert s.value == pytest.approx(0.1 * 1 + 0.2 * 3 + 0.7 * 5, rel=1e-15)
    assert s.weights == pytest.approx([0.7, 0.1, 0.2], rel=1e-15)


def test_exponential_spectrum_of_two_losses() -> None:
    r = 2.0
    low = math.expm1(r / 2) / math.expm1(r)
    assert lw.Spectral.exponential(r).solve([1.0, 0.0]).weights == pytest.approx([1 - low, low], rel=1e-14)


def test_tilting_down_is_minus_tilting_up_of_minus_the_losses() -> None:
    s, mirrored = lw.Tilted(-0.7).solve(TEN), lw.KL(penalty=1 / 0.7).solve(-TEN)
    assert s.value == pytest.approx(-mirrored.value, rel=1e-13)
    assert s.weights == pytest.approx(mirrored.weights, rel=1e-12)
    assert lw.Tilted(0.0)(TEN) == pytest.approx(5.5, rel=1e-15)
    assert lw.Tilted(2.0)(TEN) == pytest.approx(lw.KL(penalty=0.5)(TEN), rel=1e-14)


@pytest.mark.parametrize(
    ("spec", "weights"),
    [
        (cat.mean(), [1 / 3] * 3),
        (cat.worst(), [0, 0, 1]),
        (cat.cvar(0.5), [0, 1 / 3, 2 / 3]),
        (cat.chi_square_penalty(1.0), [0, 1 / 3, 2 / 3]),
        (cat.total_variation(0.5), [0, 1 / 6, 5 / 6]),
    ],
    ids=repr,
)
def test_weights_of_one_two_three(spec: cat.Spec, weights: list[float]) -> None:
    assert spec.risk.solve(THREE).weights == pytest.approx(weights, abs=1e-15)


@pytest.mark.parametrize("scale", [1.0, 1e-5, 1e7])
@pytest.mark.parametrize("index", range(len(cat.one_of_each())), ids=[repr(s) for s in cat.one_of_each()])
def test_values_and_weights_are_those_of_the_twin(index: int, scale: float) -> None:
    spec = cat.one_of_each(scale)[index]
    rng = np.random.default_rng(index)
    for n in (1, 2, 3, 10, 100, 257):
        losses = scale * rng.gamma(2.0, size=n)
        losses[: n // 3] = losses[n // 2]  # ties
        for base in (None, rng.random(n) * (rng.random(n) < 0.8) + np.eye(n)[n // 2]):
            want, got = spec.twin(losses, base), spec.risk.solve(losses, base)
            assert got.value == pytest.approx(float(want.value), rel=1e-12)
            assert spec.risk(losses, base) == got.value
            assert np.abs(got.weights - want.weights).max() <= 1e-11


@pytest.mark.parametrize("spec", cat.one_of_each(), ids=repr)
def test_one_loss_is_its_own_risk(spec: cat.Spec) -> None:
    for loss in (0.7, -3.0, 0.0, 1e300, 5e-324):
        s = spec.risk.solve([loss])
        assert s.value == loss
        assert s.weights.tolist() == [1.0]


@pytest.mark.parametrize("spec", cat.one_of_each(), ids=repr)
def test_equal_losses_keep_their_value_and_the_base_weights(spec: cat.Spec) -> None:
    for loss in (0.1, -7.3, 0.0, 1e300):
        s = spec.risk.solve(np.full(6, loss), sample_weight=[1, 2, 3, 0, 5, 5])
        assert s.value == pytest.approx(loss, rel=1e-15)
        assert s.weights == pytest.approx(np.array([1, 2, 3, 0, 5, 5]) / 16, abs=1e-15)


def test_parameters_at_their_ends_give_the_mean_and_the_worst_loss() -> None:
    mean, worst = 5.5, 10.0
    for risk in (
        lw.CVaR(1.0),
        lw.KL(radius=0.0),
        lw.ChiSquare(radius=0.0),
        lw.CressieRead(1.5, radius=0.0),
        lw.TotalVariation(0.0),
        lw.KLCVaR(1.0, 2.0),
        lw.SmoothedCVaR(1.0, 2.0),
        lw.Spectral.extremile(1.0),
        lw.KL(penalty=1e14),
        lw.ChiSquare(penalty=1e14),
    ):
        assert risk(TEN) == pytest.approx(mean, rel=1e-12), risk
    for risk in (
        lw.CVaR(0.1),
        lw.CVaR(1e-9),
        lw.KL(radius=math.log(10) + 1e-12),
        lw.KL(radius=50.0),
        lw.ChiSquare(radius=4.5),
        lw.ChiSquare(radius=1e6),
        lw.CressieRead(3.0, radius=1e3),
        lw.TotalVariation(0.9),
        lw.KL(penalty=1e-14),
        lw.ChiSquare(penalty=1e-14),
        lw.KLCVaR(1e-9, 1e-14),
        lw.SmoothedCVaR(1e-9, 1e-14),
    ):
        assert risk(TEN) == pytest.approx(worst, rel=1e-12), risk


def test_past_the_ceiling_the_mass_on_tied_maxima_is_shared_by_base_weight() -> None:
    losses, base = [4.0, 9.0, 9.0, 1.0, 9.0], [1.0, 1.0, 3.0, 5.0, 0.0]
    for risk in (
        lw.Worst(),
        lw.CVaR(0.2),
        lw.KL(radius=3.0),
        lw.ChiSquare(radius=30.0),
        lw.CressieRead(1.5, radius=30.0),
        lw.TotalVariation(1.0),
        lw.Spectral.superquantile(0.1),
    ):
        s = risk.solve(losses, base)
        assert s.value == 9.0, risk
        assert s.weights == pytest.approx([0, 0.25, 0.75, 0, 0], abs=1e-15), risk


def test_solution_reports_threshold_price_gap_and_effective_size() -> None:
    s = lw.CVaR(0.25).solve(TEN)
    assert s.eta == 8.0
    assert s.effective_sample_size == pytest.approx(1 / (0.4**2 + 0.4**2 + 0.2**2), rel=1e-13)
    assert abs(s.gap) <= 1e-12
    assert s.iterations >= 0
    # the price of the ball is the derivative of the value with respect to its radius
    h = 1e-6
    for radius_form in (
        lambda rho: lw.ChiSquare(radius=rho),
        lambda rho: lw.KL(radius=rho),
        lambda rho: lw.CressieRead(3.0, radius=rho),
    ):
        slope = (radius_form(0.3 + h)(TEN) - radius_form(0.3 - h)(TEN)) / (2 * h)
        assert radius_form(0.3).solve(TEN).multiplier == pytest.approx(slope, rel=1e-7)


def test_converters_from_other_conventions_are_their_documented_formulas() -> None:
    assert lw.ChiSquare.from_pearson(radius=1.0) == lw.ChiSquare(radius=0.5)
    assert lw.ChiSquare.from_dro(eps=1.0) == lw.ChiSquare(radius=0.5)
    assert lw.ChiSquare.from_fast_dro(size=2.0) == lw.ChiSquare(radius=2.0)
    assert lw.ChiSquare.from_fast_dro(size=2.0, reg=0.1) == lw.ChiSquare(radius=2.0, penalty=0.1)
    # (shift_cost/2) sum (q - 1/n)^2 is shift_cost/n times the mean of (n q - 1)^2/2
    q, cost = np.array([0.5, 0.3, 0.2]), 0.7
    risk = lw.ChiSquare.from_deshift(shift_cost=cost, size=3)
    assert risk.penalty_term(q) == pytest.approx(cost / 2 * np.sum((q - 1 / 3) ** 2), rel=1e-14)
    # Pearson's (t - 1)^2 as a penalty is twice the half: the same risk at twice the penalty
    losses, reg = THREE, 0.8
    eta = np.linspace(-5, 3, 800_001)
    pearson = reg * np.mean([np.maximum((l - eta) / reg + 2, 0) ** 2 / 4 - 1 for l in losses], axis=0) + eta
    assert lw.ChiSquare(penalty=2 * reg)(losses) == pytest.approx(pearson.min(), abs=1e-9)


def test_the_examples_in_the_docstrings_are_true() -> None:
    attempted = 0
    for module in pkgutil.iter_modules(lw.risks.__path__, "leeward.risks."):
        outcome = doctest.testmod(importlib.import_module(module.name))
        assert outcome.failed == 0, module.name
        attempted += outcome.attempted
    assert attempted >= 20
