"""The divergence functions: known values, conjugacy by brute force, Fenchel-Young, and the identities between them."""

from __future__ import annotations

import doctest
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leeward as lw
from leeward import divergences as dv

ALL = [
    dv.KL(),
    dv.ChiSquare(),
    dv.CVaR(0.3),
    dv.CVaR(1.0),
    dv.KLCVaR(0.3),
    dv.KLCVaR(1.0),
    dv.SmoothedCVaR(0.3),
    dv.SmoothedCVaR(1.0),
    dv.CressieRead(1.5),
    dv.CressieRead(3.0),
    dv.TotalVariation(),
]
FINITE_CONJUGATE = [d for d in ALL if not isinstance(d, dv.TotalVariation)]
each = pytest.mark.parametrize("divergence", ALL, ids=repr)


@each
def test_f_is_zero_at_one_non_negative_and_infinite_outside_its_domain(divergence: dv.Divergence) -> None:
    assert divergence.f(1.0) == 0.0
    t = np.linspace(0, min(divergence.upper, 9.0), 301)
    assert np.all(divergence.f(t) >= 0)
    assert divergence.f(-1e-9) == np.inf
    assert divergence.f(np.inf) == np.inf
    if math.isfinite(divergence.upper):
        assert divergence.f(divergence.upper * 1.001) == np.inf


@each
def test_conjugate_is_the_supremum_on_a_fine_grid(divergence: dv.Divergence) -> None:
    t = np.unique(np.concatenate([np.linspace(0, min(divergence.upper, 400.0), 400_001), [1.0]]))
    f = divergence.f(t)
    for s in (-3.0, -1.0, -0.4, 0.0, 0.3, 0.5, 1.0, 2.0):
        conjugate = divergence.conjugate(s)
        if not math.isfinite(conjugate):
            assert np.argmax(s * t - f) == t.size - 1  # still rising at the end of the grid
            continue
        assert np.max(s * t - f) <= conjugate + 1e-12 * (1 + abs(conjugate))
        assert np.max(s * t - f) == pytest.approx(conjugate, abs=2e-6)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(0, 50), st.floats(-30, 30), st.sampled_from(ALL))
def test_fenchel_young_holds_and_is_tight_at_the_derivative(t: float, s: float, divergence: dv.Divergence) -> None:
    bound = divergence.f(t) + divergence.conjugate(s)
    assert bound >= s * t - 1e-10 * (1 + abs(s * t))
    best = divergence.conjugate_grad(s)
    if math.isfinite(best):
        scale = 1 + abs(s * best) + divergence.f(best)
        assert abs(divergence.f(best) + divergence.conjugate(s) - s * best) <= 1e-12 * scale


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(-20, 5), st.sampled_from(FINITE_CONJUGATE))
def test_conjugate_grad_lies_between_the_one_sided_slopes_of_the_conjugate(s: float, divergence: dv.Divergence) -> None:
    h = 1e-6
    here, left, right = (divergence.conjugate(s + d) for d in (0.0, -h, h))
    noise = 1e-9 * (1 + abs(here))
    assert (here - left) / h - noise <= divergence.conjugate_grad(s) <= (right - here) / h + noise


def test_known_answers() -> None:
    assert dv.KL().f([0.0, math.e]) == pytest.approx([1.0, 1.0], abs=1e-15)
    assert dv.ChiSquare().conjugate([-5.0, -1.0, 0.0, 1.0]) == pytest.approx([-0.5, -0.5, 0.0, 1.5], abs=0)
    assert dv.CVaR(0.25).conjugate([-1.0, 2.0]) == pytest.approx([0.0, 8.0], abs=0)
    kl_cvar = dv.KLCVaR(0.5)
    assert kl_cvar.conjugate(1.0) == pytest.approx(1.0 / 0.5 - kl_cvar.f(2.0), rel=1e-15)
    smooth = dv.SmoothedCVaR(0.25)
    assert smooth.f(0.0) == pytest.approx(4 * math.log(4 / 3), rel=1e-14)
    assert smooth.f(4.0) == pytest.approx(4 * math.log(4), rel=1e-14)
    assert smooth.conjugate(1.0) == pytest.approx(4 * math.log(0.75 + 0.25 * math.e), rel=1e-14)
    assert dv.CressieRead(3.0).f(2.0) == pytest.approx((8 - 6 + 2) / 6, rel=1e-14)
    assert dv.TotalVariation().f([0.0, 3.0]) == pytest.approx([0.5, 1.0], abs=0)


def test_cressie_read_of_order_two_is_chi_square_and_near_one_is_kl() -> None:
    t, s = np.linspace(0, 6, 61), np.linspace(-3, 3, 61)
    two, chi = dv.CressieRead(2.0), dv.ChiSquare()
    assert two.f(t) == pytest.approx(chi.f(t), abs=1e-13)
    assert two.conjugate(s) == pytest.approx(chi.conjugate(s), abs=1e-13)
    assert two.conjugate_grad(s) == pytest.approx(chi.conjugate_grad(s), abs=1e-13)
    near, kl = dv.CressieRead(1 + 1e-7), dv.KL()
    assert near.f(t) == pytest.approx(kl.f(t), abs=1e-5)
    assert near.conjugate(s) == pytest.approx(kl.conjugate(s), abs=1e-4)


def test_the_conjugate_printed_with_a_quarter_belongs_to_pearson() -> None:
    """reg ((s+2)_+^2/4 - 1) at s = a/reg equals the conjugate of twice the penalty with the factor one half."""
    a, reg = np.linspace(-7, 5, 49), 1.7
    pearson = reg * (np.maximum(a / reg + 2, 0) ** 2 / 4 - 1)
    assert pearson == pytest.approx(2 * reg * dv.ChiSquare().conjugate(a / (2 * reg)), abs=1e-13)


@pytest.mark.parametrize("divergence", FINITE_CONJUGATE, ids=repr)
def test_far_arguments_neither_warn_nor_give_nan(divergence: dv.Divergence) -> None:
    s = np.array([-1e300, -800.0, 0.0, 800.0, 1e300])
    for value in (divergence.conjugate(s), divergence.conjugate_grad(s)):
        assert not np.isnan(value).any()
        assert np.all(value[1:] >= value[:-1])


def test_smoothed_cvar_keeps_its_digits_near_zero_and_its_line_far_out() -> None:
    smooth = dv.SmoothedCVaR(0.2)
    assert smooth.conjugate(1e-12) == pytest.approx(1e-12, rel=1e-11)
    assert smooth.conjugate(2000.0) == pytest.approx(5 * (2000 + math.log(0.2)), rel=1e-15)
    assert smooth.conjugate_grad(2000.0) == 5.0
    # f*(s) = e^s - 1 in the limit of a vanishing alpha
    assert dv.SmoothedCVaR(1e-13).conjugate(1.0) == pytest.approx(math.expm1(1.0), rel=1e-12)


@each
def test_shape_is_kept_scalars_stay_scalars_and_nan_stays_nan(divergence: dv.Divergence) -> None:
    for method in (divergence.f, divergence.conjugate, divergence.conjugate_grad):
        assert method(np.ones((2, 3), dtype=np.float32)).shape == (2, 3)
        assert method([]).shape == (0,)
        assert isinstance(method(1), np.float64)
        assert math.isnan(method(math.nan))


@each
def test_divergences_are_values(divergence: dv.Divergence) -> None:
    again = eval(repr(divergence), vars(dv))
    assert again == divergence
    assert hash(again) == hash(divergence)
    assert pickle.loads(pickle.dumps(divergence)) == divergence


def test_parameters_out_of_range_are_named() -> None:
    for make in (dv.CVaR, dv.KLCVaR, dv.SmoothedCVaR):
        for alpha in (0.0, 1.5, -0.1, math.nan):
            with pytest.raises(ValueError, match=rf"alpha must be in \(0, 1\], got {alpha}"):
                make(alpha)
    for k in (1.0, 0.5, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"k must be a finite number above 1, got {k}"):
            dv.CressieRead(k)


def test_the_examples_in_the_docstrings_are_true() -> None:
    outcome = doctest.testmod(lw.divergences)
    assert outcome.attempted >= 7
    assert outcome.failed == 0
