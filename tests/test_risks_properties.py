"""Laws that every risk obeys, on vectors found by Hypothesis and by fixed seeds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leeward as lw
from reference import ratios
from reference import risk_catalogue as cat
from reference import risks_mpmath as high

SPECS = cat.one_of_each()
COUNT = len(SPECS)
IDS = [repr(spec) for spec in SPECS]
each = pytest.mark.parametrize("spec", SPECS, ids=IDS)
each_index = pytest.mark.parametrize("index", range(COUNT), ids=IDS)
CONVEX = [spec for spec in SPECS if not (isinstance(spec.risk, lw.Tilted) and spec.lam < 0)]
convex = pytest.mark.parametrize("spec", CONVEX, ids=repr)
few = settings(max_examples=20, deadline=None, derandomize=True)

# multiples of 1/8: sums and shifts are exact, ties are frequent
number = st.integers(-4000, 4000).map(lambda i: i / 8) | st.integers(-3, 3).map(float)
vectors = st.lists(number, min_size=1, max_size=24).map(np.array)


@st.composite
def weighted(draw: Any) -> tuple[Any, Any]:
    losses = draw(vectors)
    counts = np.array(draw(st.lists(st.integers(0, 3), min_size=losses.size, max_size=losses.size)))
    counts[draw(st.integers(0, losses.size - 1))] += 1
    return losses, counts


def _size(losses: Any) -> float:
    return 1.0 + float(np.abs(losses).max())


@each
@few
@given(weighted(), number)
def test_adding_a_constant_adds_it_to_the_value_and_keeps_the_weights(spec: cat.Spec, case: Any, shift: float) -> None:
    losses, base = case
    here, there = spec.risk.solve(losses, base), spec.risk.solve(losses + shift, base)
    assert there.value - shift == pytest.approx(here.value, abs=1e-12 * (_size(losses) + abs(shift)))
    assert np.abs(there.weights - here.weights).max() <= 1e-9


@each_index
@few
@given(weighted(), st.floats(-30, 30))
def test_scaling_losses_and_penalty_together_scales_the_value(index: int, case: Any, exponent: float) -> None:
    losses, base = case
    scale = 10.0**exponent
    here = SPECS[index].risk.solve(losses, base)
    there = cat.one_of_each(scale)[index].risk.solve(losses * scale, base)
    assert there.value / scale == pytest.approx(here.value, abs=1e-12 * _size(losses))
    assert np.abs(there.weights - here.weights).max() <= 1e-9


@each
@few
@given(weighted(), st.data())
def test_larger_losses_never_have_a_smaller_risk(spec: cat.Spec, case: Any, data: Any) -> None:
    losses, base = case
    more = np.array(data.draw(st.lists(st.integers(0, 40), min_size=losses.size, max_size=losses.size))) / 8
    assert spec.risk(losses + more, base) >= spec.risk(losses, base) - 1e-12 * _size(losses)


@each
@few
@given(weighted())
def test_every_risk_lies_between_the_mean_and_the_worst_loss(spec: cat.Spec, case: Any) -> None:
    losses, base = case
    tol = 1e-12 * _size(losses)
    value = spec.risk(losses, base)
    if spec in CONVEX:
        assert lw.Mean()(losses, base) - tol <= value <= lw.Worst()(losses, base) + tol
    else:  # tilting down
        assert losses[base > 0].min() - tol <= value <= lw.Mean()(losses, base) + tol


@few
@given(weighted(), st.floats(0.01, 1), st.floats(1e-3, 100))
def test_cvar_bounds_its_smooth_versions_within_the_stated_gap(case: Any, alpha: float, lam: float) -> None:
    losses, base = case
    tol = 1e-11 * (_size(losses) + lam)
    cvar = lw.CVaR(alpha)(losses, base)
    kl_cvar = lw.KLCVaR(alpha, lam)(losses, base)
    smoothed = lw.SmoothedCVaR(alpha, lam)(losses, base)
    assert -tol <= cvar - kl_cvar <= lam * math.log(1 / alpha) + tol
    largest = max(lw.divergences.SmoothedCVaR(alpha).f([0.0, 1 / alpha]))
    assert -tol <= cvar - smoothed <= lam * largest + tol
    assert kl_cvar <= lw.KL(penalty=lam)(losses, base) + tol


@few
@given(weighted())
def test_more_conservative_parameters_never_lower_the_value(case: Any) -> None:
    losses, base = case
    tol = 1e-11 * _size(losses)
    families: list[tuple[Callable[[float], Any], list[float]]] = [
        (lambda a: lw.CVaR(a), [1, 0.9, 0.5, 0.2, 0.05, 1e-4]),
        (lambda r: lw.KL(radius=r), [0, 1e-6, 0.1, 1, 5]),
        (lambda r: lw.ChiSquare(radius=r), [0, 1e-6, 0.1, 1, 5]),
        (lambda r: lw.CressieRead(1.5, radius=r), [0, 1e-6, 0.1, 1, 5]),
        (lambda r: lw.TotalVariation(r), [0, 1e-6, 0.1, 0.5, 1]),
        (lambda lam: lw.KL(penalty=lam), [1e6, 100, 1, 0.1, 1e-6]),
        (lambda lam: lw.ChiSquare(penalty=lam), [1e6, 100, 1, 0.1, 1e-6]),
        (lambda lam: lw.CressieRead(4.0, penalty=lam), [1e6, 100, 1, 0.1, 1e-6]),
        (lambda lam: lw.KLCVaR(0.3, lam), [1e6, 100, 1, 0.1, 1e-6]),
        (lambda lam: lw.SmoothedCVaR(0.3, lam), [1e6, 100, 1, 0.1, 1e-6]),
        (lambda t: lw.Tilted(t), [-50, -1, -1e-6, 0, 1e-6, 1, 50]),
        (lambda r: lw.Spectral.extremile(r), [1, 1.1, 2, 10, 100]),
        (lambda r: lw.Spectral.exponential(r), [1e-6, 0.1, 1, 10, 100]),
    ]
    for make, levels in families:
        values = [make(level)(losses, base) for level in levels]
        assert np.all(np.diff(values) >= -tol), (make(levels[0]), values)


@few
@given(weighted(), st.floats(1e-3, 1e3), st.floats(1e-3, 10))
def test_both_constraint_and_penalty_is_below_each_alone(case: Any, lam: float, rho: float) -> None:
    losses, base = case
    tol = 1e-11 * (_size(losses) + lam)
    both = lw.ChiSquare(penalty=lam, radius=rho)(losses, base)
    assert both <= min(lw.ChiSquare(penalty=lam)(losses, base), lw.ChiSquare(radius=rho)(losses, base)) + tol
    assert lw.ChiSquare(penalty=lam, radius=1e9)(losses, base) == pytest.approx(
        lw.ChiSquare(penalty=lam)(losses, base), abs=tol
    )
    assert lw.ChiSquare(penalty=1e-13, radius=rho)(losses, base) == pytest.approx(
        lw.ChiSquare(radius=rho)(losses, base), abs=tol
    )


@each
@few
@given(weighted())
def test_integer_weights_are_repeated_rows(spec: cat.Spec, case: Any) -> None:
    losses, counts = case
    weighted_, repeated = spec.risk.solve(losses, counts), spec.risk.solve(np.repeat(losses, counts))
    assert weighted_.value == pytest.approx(repeated.value, abs=1e-11 * _size(losses))
    rows = np.repeat(np.arange(losses.size), counts)
    assert np.abs(np.bincount(rows, repeated.weights, losses.size) - weighted_.weights).max() <= 1e-9


@each
@few
@given(weighted())
def test_a_row_of_weight_zero_is_a_row_left_out(spec: cat.Spec, case: Any) -> None:
    losses, base = case
    keep = base > 0
    losses = np.where(keep, losses, losses * 1e6 + 1e7)  # however extreme
    with_zeros, without = spec.risk.solve(losses, base), spec.risk.solve(losses[keep], base[keep])
    assert with_zeros.value == pytest.approx(without.value, abs=1e-12 * _size(losses[keep]))
    assert not with_zeros.weights[~keep].any()
    assert np.abs(with_zeros.weights[keep] - without.weights).max() <= 1e-9


@each
@few
@given(weighted(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(spec: cat.Spec, case: Any, random: Any) -> None:
    losses, base = case
    order = list(range(losses.size))
    random.shuffle(order)
    here, there = spec.risk.solve(losses, base), spec.risk.solve(losses[order], base[order])
    assert there.value == pytest.approx(here.value, abs=1e-12 * _size(losses))
    assert np.abs(there.weights - here.weights[order]).max() <= 1e-9


@each
@few
@given(weighted())
def test_tied_losses_share_their_weight_in_proportion_to_their_base_weight(spec: cat.Spec, case: Any) -> None:
    losses, base = case
    ratio = spec.risk.solve(losses, base).weights / np.maximum(base, 1)
    for loss in np.unique(losses[base > 0]):
        tied = ratio[(losses == loss) & (base > 0)]
        assert np.ptp(tied) <= 1e-13


@convex
@few
@given(weighted(), st.data())
def test_weights_are_a_subgradient(spec: cat.Spec, case: Any, data: Any) -> None:
    losses, base = case
    step = np.array(data.draw(st.lists(number, min_size=losses.size, max_size=losses.size)))
    s = spec.risk.solve(losses, base)
    tol = 1e-10 * (_size(losses) + _size(step))
    assert spec.risk(losses + step, base) >= s.value + s.weights @ step - tol


@each
def test_weights_are_the_derivative_of_the_value_by_finite_differences(spec: cat.Spec) -> None:
    """On distinct losses every risk here is differentiable, the boundary atom of a tail apart."""
    rng = np.random.default_rng(3)
    losses, base = rng.permutation(np.linspace(-2, 3, 13)) + 0.05 * rng.random(13), rng.random(13) + 0.1
    h = 1e-5
    slopes = [(spec.risk(losses + h * e, base) - spec.risk(losses - h * e, base)) / (2 * h) for e in np.eye(13)]
    assert slopes == pytest.approx(spec.risk.solve(losses, base).weights, abs=1e-8)


@each
def test_price_of_the_weights_is_the_value(spec: cat.Spec) -> None:
    rng = np.random.default_rng(4)
    losses, base = rng.normal(size=50), rng.random(50)
    s = spec.risk.solve(losses, base)
    paid = spec.risk.penalty_term(s.weights, base)
    assert s.weights @ losses - paid == pytest.approx(s.value, abs=1e-12)
    assert paid == pytest.approx(float(spec.lam * spec.spent(s.weights, base)) if spec.lam else 0.0, abs=1e-12)
    assert spec.primal(losses, s.weights, base) == pytest.approx(s.value, abs=1e-12)
    assert s.effective_sample_size == pytest.approx(1 / np.sum(s.weights**2), rel=1e-12)


@each
def test_the_dual_at_the_returned_threshold_and_multiplier_is_the_value(spec: cat.Spec) -> None:
    if spec.divergence is None:
        pytest.skip("its dual is no function of a threshold and one multiplier")
    rng = np.random.default_rng(5)
    losses, base = rng.normal(size=50), rng.random(50)
    s = spec.risk.solve(losses, base)
    assert spec.dual(losses, np.float64(s.eta), np.float64(s.multiplier), base) == pytest.approx(s.value, abs=1e-12)
    assert spec.risk.divergence == spec.divergence


@each
def test_rows_of_a_matrix_are_solved_like_vectors_to_the_last_bit(spec: cat.Spec) -> None:
    rng = np.random.default_rng(6)
    for m, n in ((1, 5), (7, 1), (33, 32), (3, 5000)):
        losses, base = rng.normal(size=(m, n)).round(2), rng.random(n) + 0.1
        together = spec.risk.solve(losses, base)
        assert together.weights.shape == (m, n)
        for name in ("value", "eta", "multiplier", "gap", "iterations", "effective_sample_size"):
            assert getattr(together, name).shape == (m,)
        for i in range(m):
            alone = spec.risk.solve(losses[i], base)
            assert together.value[i] == alone.value
            assert together.eta[i] == alone.eta
            assert np.array_equal(together.weights[i], alone.weights)
        assert np.array_equal(spec.risk(losses, base), together.value)


@each
def test_the_bits_are_the_same_for_any_number_of_threads(spec: cat.Spec) -> None:
    rng = np.random.default_rng(7)
    base = rng.random(150_001)
    for losses, weights in (
        (rng.normal(size=150_001), None),
        (rng.normal(size=150_001).astype(np.float32).round(2), base),
        (rng.normal(size=(1001, 37)), base[:37]),
    ):
        one, two, three = (spec.risk.solve(losses, weights, threads=t) for t in (1, 2, 3))
        for other in (two, three):
            assert np.array_equal(one.value, other.value)
            assert np.array_equal(one.eta, other.eta)
            assert np.array_equal(one.multiplier, other.multiplier)
            assert np.array_equal(one.weights, other.weights)
        assert np.array_equal(spec.risk(losses, weights, threads=2), one.value)


@each
def test_single_precision_losses_give_the_double_value_and_single_weights(spec: cat.Spec) -> None:
    rng = np.random.default_rng(8)
    for n in (3, 100, 20_001):
        losses = rng.normal(size=n).astype(np.float32)
        single, double = spec.risk.solve(losses), spec.risk.solve(losses.astype(np.float64))
        assert single.weights.dtype == np.float32
        assert double.weights.dtype == np.float64
        assert single.value == pytest.approx(double.value, rel=1e-12, abs=1e-12)
        assert np.abs(single.weights - double.weights).max() <= 1e-7 * double.weights.max()
        assert single.weights.sum(dtype=np.float64) == pytest.approx(1, abs=1e-6)


@each
def test_sizes_around_lanes_and_blocks_agree_with_the_twin(spec: cat.Spec) -> None:
    rng = np.random.default_rng(9)
    for n in (15, 16, 17, 33, 129, 1023, 1025, 2049, 4097, 8193):
        losses, base = rng.normal(size=n), rng.random(n) if n % 4 == 1 else None
        got, want = spec.risk.solve(losses, base), spec.twin(losses, base)
        assert got.value == pytest.approx(float(want.value), abs=1e-12), n
        assert np.abs(got.weights - want.weights).max() <= 1e-10 * float(want.weights.max()), n


@pytest.mark.parametrize("rho", [1e-6, 0.05, 0.3, 1.5])
def test_the_multiplier_of_a_radius_is_the_penalty_with_the_same_weights(rho: float) -> None:
    rng = np.random.default_rng(10)
    losses, base = rng.gamma(2, size=60), rng.random(60)
    pairs: list[tuple[Any, Callable[[float], Any]]] = [
        (lw.KL(radius=rho), lambda lam: lw.KL(penalty=lam)),
        (lw.ChiSquare(radius=rho), lambda lam: lw.ChiSquare(penalty=lam)),
        (lw.CressieRead(1.4, radius=rho), lambda lam: lw.CressieRead(1.4, penalty=lam)),
    ]
    for ball, penalised in pairs:
        s = ball.solve(losses, base)
        t = penalised(s.multiplier).solve(losses, base)
        assert t.weights == pytest.approx(s.weights, abs=1e-10)
        assert t.value + s.multiplier * rho == pytest.approx(s.value, abs=1e-10)


@each
def test_smoothing_lowers_the_value_and_keeps_the_weights_feasible(spec: cat.Spec) -> None:
    rng = np.random.default_rng(11)
    losses, base = rng.normal(size=40).round(1), rng.integers(1, 4, size=40)
    value = spec.risk(losses, base)
    if spec.risk.smooth:
        assert spec.risk.smoothed(0.1) == spec.risk
        return
    gaps = []
    for strength in (1.0, 0.1, 1e-2, 1e-3, 1e-4):
        smooth = spec.risk.smoothed(strength)
        assert smooth.smooth
        s = smooth.solve(losses, base)
        assert s.value <= value + 1e-12
        # sum q l is a lower bound of the original risk, for these losses and for others
        assert s.weights @ losses <= value + 1e-12
        for other in (-losses, rng.normal(size=40)):
            assert s.weights @ other <= spec.risk(other, base) + 1e-12
        gaps.append(value - s.value)
    assert gaps[-1] <= 1e-3
    assert np.all(np.diff(gaps) <= 1e-12)


@each
def test_curvature_is_the_diagonal_of_the_second_derivative_of_a_smooth_risk(spec: cat.Spec) -> None:
    rng = np.random.default_rng(12)
    losses, base = rng.normal(size=12), rng.random(12) + 0.2
    curvature = spec.risk.curvature(losses, base)
    assert curvature.shape == (12,)
    assert np.all(curvature >= 0)
    if not spec.risk.smooth:
        assert not curvature.any()
        return
    h = 1e-5
    for i, e in enumerate(np.eye(12)):
        up, down = (spec.risk.solve(losses + t * e, base).weights[i] for t in (h, -h))
        assert (up - down) / (2 * h) <= curvature[i] * (1 + 1e-5) + 1e-8


HIGH: list[tuple[Callable[[float], cat.Spec], Callable[[Any, Any, float], tuple[Any, Any]]]] = [
    (lambda s: cat.cvar(0.37), lambda l, p, s: (high.cvar(l, p, 0.37), None)),
    (lambda s: cat.total_variation(0.37), lambda l, p, s: (high.total_variation(l, p, 0.37), None)),
    (lambda s: cat.kl_penalty(s / 8), lambda l, p, s: high.penalty(l, p, high.kl(), s / 8)),
    (lambda s: cat.kl_penalty(64 * s), lambda l, p, s: high.penalty(l, p, high.kl(), 64 * s)),
    (lambda s: cat.kl_radius(0.125), lambda l, p, s: high.radius(l, p, high.kl(), 0.125)),
    (lambda s: cat.chi_square_penalty(s / 2), lambda l, p, s: high.penalty(l, p, high.chi_square(), s / 2)),
    (lambda s: cat.chi_square_radius(0.25), lambda l, p, s: high.radius(l, p, high.chi_square(), 0.25)),
    (lambda s: cat.kl_cvar(0.37, s / 8), lambda l, p, s: high.penalty(l, p, high.kl_cvar(0.37), s / 8)),
    (lambda s: cat.smoothed_cvar(0.37, s / 8), lambda l, p, s: high.penalty(l, p, high.smoothed_cvar(0.37), s / 8)),
    (lambda s: cat.cressie_read_penalty(1.25, s), lambda l, p, s: high.penalty(l, p, high.cressie_read(1.25), s)),
    (lambda s: cat.cressie_read_penalty(5.0, s / 4), lambda l, p, s: high.penalty(l, p, high.cressie_read(5), s / 4)),
    (lambda s: cat.cressie_read_radius(3.0, 0.125), lambda l, p, s: high.radius(l, p, high.cressie_read(3), 0.125)),
]


@pytest.mark.parametrize(("make", "reference"), HIGH, ids=[repr(make(1.0)) for make, _ in HIGH])
def test_the_dual_minimised_at_thirty_digits_gives_the_same_value_and_weights(
    make: Callable[[float], cat.Spec], reference: Callable[[Any, Any, float], tuple[Any, Any]]
) -> None:
    rng = np.random.default_rng(13)
    for scale, n in ((1.0, 4), (2.0**-40, 3), (2.0**60, 3)):
        losses, base = scale * rng.normal(size=n), rng.random(n)
        spec = make(scale)
        value, weights = reference(losses, base, scale)
        got, ours = spec.risk.solve(losses, base), spec.twin(losses, base)
        assert abs(mpmath.mpf(got.value) - value) <= 1e-13 * scale
        assert abs(mpmath.mpf(str(ours.value)) - value) <= 3e-16 * scale
        if weights is not None:
            assert max(abs(mpmath.mpf(float(q)) - w) for q, w in zip(got.weights, weights, strict=True)) <= 1e-12


@few
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12).map(np.array))
def test_any_finite_doubles_whatever_have_a_finite_answer(losses: Any) -> None:
    wide = losses.astype(np.longdouble)
    size = float(np.abs(wide).max()) or 1.0
    for spec in SPECS:
        s = spec.risk.solve(losses)
        assert math.isfinite(s.value)
        assert np.all(s.weights >= 0)
        assert s.weights.sum() == pytest.approx(1, abs=1e-12)
        assert abs(spec.primal(losses, s.weights) - ratios.REAL(s.value)) <= 1e-10 * 2 * size + spec.floor
