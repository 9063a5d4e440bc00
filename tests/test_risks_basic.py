"""Known answers, properties and refusals of the risks."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import leeward as lw

ONE_TO_TEN = np.arange(1.0, 11.0)

EVERY_RISK: list[lw.Risk] = [
    lw.Mean(),
    lw.Worst(),
    lw.CVaR(0.3),
    lw.KL(penalty=0.7),
    lw.KL(radius=0.4),
    lw.KL(penalty=0.2, radius=0.4),
    lw.ChiSquare(penalty=0.7),
    lw.ChiSquare(radius=0.4),
    lw.ChiSquare(penalty=0.7, radius=0.4),
    lw.KLCVaR(0.3, penalty=0.2),
    lw.SmoothedCVaR(0.3, penalty=0.2),
    lw.CressieRead(3.0, penalty=0.7),
    lw.CressieRead(1.5, radius=0.4),
    lw.TotalVariation(0.2),
    lw.TotalVariation(0.2, penalty=0.3),
    lw.Spectral([0.0, 1.0, 3.0], penalty=0.3),
    lw.Spectral.extremile(3.0, penalty=0.1),
    lw.Tilted(2.0),
    lw.Tilted(-2.0),
    lw.Spectral([0.0, 1.0, 3.0]),
    lw.Spectral.superquantile(0.3),
    lw.Spectral.extremile(3.0),
    lw.Spectral.exponential(2.0),
]
SMOOTH = [r for r in EVERY_RISK if r.smooth]


@pytest.mark.parametrize(
    ("risk", "value"),
    [
        (lw.CVaR(0.1), 10.0),
        (lw.CVaR(0.25), 9.2),
        (lw.CVaR(0.3), 9.0),
        (lw.ChiSquare(penalty=0.5), 8.616666666666667),
        (lw.ChiSquare(penalty=1.0), 8.0),
        (lw.ChiSquare(penalty=5.0), 6.325),
        (lw.ChiSquare(penalty=100.0), 5.54125),
        (lw.ChiSquare(radius=0.01), 5.906201920231798),
        (lw.ChiSquare(radius=0.1), 6.784523257866513),
        (lw.ChiSquare(radius=0.5), 8.26491106406735),
        (lw.ChiSquare(radius=1.0), 9.0),
        (lw.ChiSquare(radius=4.0), 9.947213595499958),
        (lw.ChiSquare(radius=4.5), 10.0),
        (lw.KLCVaR(0.1, penalty=0.1), 9.76974603079664),
        (lw.KLCVaR(0.1, penalty=1.0), 8.156044651432683),
        (lw.KLCVaR(0.3, penalty=1.0), 7.948807071167067),
        (lw.KLCVaR(0.3, penalty=10.0), 5.909082226629633),
    ],
    ids=repr,
)
def test_value_of_one_to_ten_is_the_known_one(risk: lw.Risk, value: float) -> None:
    assert risk(ONE_TO_TEN) == pytest.approx(value, rel=1e-12)
    assert lw.CressieRead(2.0, radius=1.0)(ONE_TO_TEN) == pytest.approx(9.0, rel=1e-12)


def test_tail_mass_is_a_real_number_of_observations() -> None:
    s = lw.CVaR(0.25).solve([0.0, 1.0, 2.0, 3.0, 4.0])
    assert s.value == pytest.approx(3.8, rel=1e-12)
    np.testing.assert_allclose(s.weights, [0, 0, 0, 0.2, 0.8], atol=1e-12)
    assert lw.CVaR(1 - 0.9)(ONE_TO_TEN) == pytest.approx(10, rel=1e-12)
    assert lw.CVaR(0.01)(np.arange(1.0, 51)) == 50
    assert lw.CVaR(0.29)(np.arange(1.0, 101)) == pytest.approx(86, rel=1e-12)
    assert lw.CVaR(0.07)(np.arange(1.0, 101)) == pytest.approx(97, rel=1e-12)
    assert lw.CVaR(0.05)(np.full(20, -0.01)) == -0.01


def test_pearson_radius_is_twice_the_radius_here() -> None:
    losses = [1.0, 2.0, 3.0]
    assert lw.ChiSquare.from_pearson(radius=0.5)(losses) == pytest.approx(2.57735026918963, rel=1e-12)
    s = lw.ChiSquare.from_pearson(radius=1.0).solve(losses)
    assert s.value == pytest.approx(2.5 + 1 / np.sqrt(12), rel=1e-12)
    np.testing.assert_allclose(s.weights, [0, 0.211324865405, 0.788675134595], atol=1e-11)
    weighted = lw.ChiSquare.from_pearson(radius=0.3)(losses, sample_weight=[0.5, 0.3, 0.2])
    assert weighted == pytest.approx(1.7 + np.sqrt(0.3 * 0.61), rel=1e-12)


@pytest.mark.parametrize("shift", [100.0, 10000.0, -10000.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_entropic_value_does_not_overflow_and_follows_a_shift(shift: float, dtype: Any) -> None:
    losses = np.arange(4.0, dtype=dtype) + dtype(shift)
    s = lw.Tilted(1.0).solve(losses)
    assert s.value == pytest.approx(shift + 2.05389533744120, rel=1e-12)
    np.testing.assert_allclose(s.weights, np.exp(np.arange(4.0)) / np.exp(np.arange(4.0)).sum(), rtol=1e-6)


@pytest.mark.parametrize("risk", EVERY_RISK, ids=repr)
def test_a_batch_of_one_keeps_its_loss_and_all_weight(risk: lw.Risk) -> None:
    s = risk.solve([0.7])
    assert (s.value, s.weights.tolist()) == (0.7, [1.0])


@pytest.mark.parametrize("risk", EVERY_RISK, ids=repr)
def test_weights_are_a_distribution_with_no_duality_gap(risk: lw.Risk) -> None:
    rng = np.random.default_rng(0)
    for n in (2, 15, 16, 17, 100, 8192, 8193, 40000):
        losses = rng.exponential(size=n)
        for base in (None, rng.random(n) * (rng.random(n) < 0.8) + 1e-9):
            s = risk.solve(losses, base)
            assert s.weights.min() >= 0
            assert abs(s.weights.sum() - 1) <= 1e-12
            assert abs(s.gap) <= 1e-10 * (np.ptp(losses) + abs(s.value))
            assert s.value == risk(losses, base)


@pytest.mark.parametrize("risk", SMOOTH, ids=repr)
def test_weights_are_the_derivative_of_the_value(risk: lw.Risk) -> None:
    rng = np.random.default_rng(1)
    losses, base, step = rng.normal(size=12), rng.random(12) + 0.1, 1e-5
    weights = risk.solve(losses, base).weights
    for i in range(12):
        e = step * (np.arange(12) == i)
        slope = (risk(losses + e, base) - risk(losses - e, base)) / (2 * step)
        assert slope == pytest.approx(weights[i], abs=2e-8)


@pytest.mark.parametrize("risk", EVERY_RISK, ids=repr)
def test_integer_weights_act_like_repeated_losses(risk: lw.Risk) -> None:
    losses, counts = np.array([1.0, 5.0, 2.0, 4.0]), np.array([3, 1, 0, 2])
    s, many = risk.solve(losses, counts), risk.solve(np.repeat(losses, counts))
    assert s.value == pytest.approx(many.value, rel=1e-11)
    for i, c in enumerate(counts):
        mass = many.weights[np.repeat(np.arange(4), counts) == i].sum() if c else 0.0
        assert s.weights[i] == pytest.approx(mass, abs=1e-10)


@pytest.mark.parametrize("risk", EVERY_RISK, ids=repr)
def test_rows_are_solved_one_by_one_with_the_same_bits(risk: lw.Risk) -> None:
    losses = np.random.default_rng(2).normal(size=(7, 33))
    s = risk.solve(losses, threads=2)
    for i in range(7):
        one = risk.solve(losses[i])
        assert (s.value[i], s.eta[i], s.gap[i]) == (one.value, one.eta, one.gap)
        assert s.weights[i].tobytes() == one.weights.tobytes()
    np.testing.assert_array_equal(risk(losses), s.value)


@pytest.mark.parametrize("risk", EVERY_RISK, ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bits_are_the_same_for_any_number_of_threads(risk: lw.Risk, dtype: Any) -> None:
    losses = np.random.default_rng(3).exponential(size=150001).astype(dtype)
    one = risk.solve(losses, threads=1)
    for threads in (2, 3):
        s = risk.solve(losses, threads=threads)
        assert (s.value, s.eta, s.gap, s.multiplier) == (one.value, one.eta, one.gap, one.multiplier)
        assert s.weights.tobytes() == one.weights.tobytes()
        assert s.weights.dtype == dtype


@pytest.mark.parametrize("risk", EVERY_RISK, ids=repr)
def test_risks_are_values(risk: lw.Risk) -> None:
    for other in (pickle.loads(pickle.dumps(risk)), copy.deepcopy(risk), eval(f"lw.{risk!r}", {"lw": lw})):
        assert other == risk
        assert hash(other) == hash(risk)
        assert other(ONE_TO_TEN) == risk(ONE_TO_TEN)
    assert risk != lw.CVaR(0.123)
    with pytest.raises(AttributeError, match="immutable"):
        risk.alpha = 0.5  # type: ignore[attr-defined]


def test_other_layouts_and_types_give_the_same_answer() -> None:
    risk = lw.ChiSquare(radius=0.3)
    losses = np.random.default_rng(4).integers(0, 9, 40)
    expected = risk.solve(losses.astype(float))
    read_only = losses.astype(float)
    read_only.flags.writeable = False
    strided = np.repeat(losses.astype(float), 2)[::2]
    for same in (losses, losses.tolist(), losses.astype(">f8"), losses.astype(np.int8), read_only, strided):
        s = risk.solve(same)
        assert (s.value, s.weights.tobytes()) == (expected.value, expected.weights.tobytes())
    half = risk.solve(losses.astype(np.float16))
    assert (half.value, half.weights.dtype) == (expected.value, np.float16)


def test_out_receives_the_weights() -> None:
    losses = np.random.default_rng(5).normal(size=50)
    out = np.empty(50)
    s = lw.CVaR(0.2).solve(losses, out=out)
    assert s.weights is out
    np.testing.assert_array_equal(out, lw.CVaR(0.2).solve(losses).weights)
    with pytest.raises(ValueError, match=r"out must have shape \(50,\) and dtype float64"):
        lw.CVaR(0.2).solve(losses, out=np.empty(49))
    with pytest.raises(ValueError, match="out must have shape"):
        lw.CVaR(0.2).solve(losses, out=np.empty(50, np.float32))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_entry_that_is_not_finite_is_named(bad: float) -> None:
    losses = np.zeros(9000)
    losses[[3, 8999]] = bad
    with pytest.raises(ValueError, match=r"^losses\[3\] is -?(nan|inf); losses must be finite$"):
        lw.CVaR(0.1)(losses)
    with pytest.raises(ValueError, match=r"^losses\[1, 3\] is"):
        lw.KL(penalty=1.0).solve(np.stack([np.zeros(9000), losses]))
    with pytest.raises(ValueError, match=r"^sample_weight\[3\] is .*; sample weights must be finite and not negative$"):
        lw.ChiSquare(radius=1.0)(np.zeros(9000), losses)


def test_unusable_arguments_are_refused_in_words() -> None:
    risk = lw.KL(radius=1.0)
    with pytest.raises(ValueError, match="at least one entry"):
        risk([])
    with pytest.raises(ValueError, match=r"shape \(n,\) or \(m, n\), got shape \(\)"):
        risk(1.0)
    with pytest.raises(ValueError, match=r"sample_weight\[1\] is -1; sample weights must be finite and not negative"):
        risk([1.0, 2.0], [1.0, -1.0])
    with pytest.raises(ValueError, match="sample_weight must have a positive sum, got all zeros"):
        risk([1.0, 2.0], [0.0, 0.0])
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(2,\), got shape \(3,\)"):
        risk([1.0, 2.0], [1.0, 1.0, 1.0])
    with pytest.raises(TypeError, match="real numbers, got dtype complex128"):
        risk([1j])
    with pytest.raises(TypeError, match="masked array"):
        risk(np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(ValueError, match="threads must be"):
        risk([1.0, 2.0], threads=-1)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: lw.CVaR(1.5), ValueError, r"alpha must be in \(0, 1\], got 1.5"),
        (lambda: lw.CVaR(0), ValueError, r"alpha must be in \(0, 1\], got 0"),
        (lambda: lw.CVaR(float("nan")), ValueError, r"alpha must be in \(0, 1\], got nan"),
        (lambda: lw.CVaR(True), TypeError, r"alpha must be a real number in \(0, 1\], got True"),
        (lambda: lw.CVaR("0.1"), TypeError, "alpha must be a real number"),  # type: ignore[arg-type]
        (lambda: lw.KL(), ValueError, "KL needs a penalty, a radius or both, got neither"),
        (lambda: lw.KL(penalty=0.0), ValueError, r"penalty must be in \(0, inf\), got 0"),
        (lambda: lw.ChiSquare(radius=-1.0), ValueError, r"radius must be in \[0, inf\), got -1"),
        (lambda: lw.CressieRead(1.0, radius=1.0), ValueError, r"k must be in \(1, 10\], got 1"),
        (lambda: lw.TotalVariation(1.1), ValueError, r"radius must be in \[0, 1\], got 1.1"),
        (lambda: lw.Spectral([2.0, 1.0]), ValueError, "weights must not decrease, got 2.0 before 1.0 at position 0"),
        (lambda: lw.Spectral([-1.0, 1.0]), ValueError, r"weights\[0\] is -1.0"),
        (lambda: lw.Spectral.extremile(0.5), ValueError, r"draws must be in \[1, inf\), got 0.5"),
    ],
)
def test_wrong_parameters_are_refused_in_words(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize("risk", EVERY_RISK, ids=repr)
def test_the_penalty_term_closes_the_primal_value(risk: lw.Risk) -> None:
    rng = np.random.default_rng(6)
    losses, base = rng.normal(size=30), rng.random(30)
    s = risk.solve(losses, base)
    assert s.weights @ losses - risk.penalty_term(s.weights, base) == pytest.approx(s.value, abs=1e-12)


@pytest.mark.parametrize("risk", [r for r in EVERY_RISK if not r.smooth], ids=repr)
def test_the_smoothed_risk_is_a_lower_bound_with_feasible_weights(risk: lw.Risk) -> None:
    losses = np.random.default_rng(7).normal(size=40)
    values = []
    for strength in (1.0, 1e-2, 1e-4):
        smooth = risk.smoothed(strength)
        assert smooth.smooth
        s = smooth.solve(losses)
        assert s.value <= s.weights @ losses + 1e-12
        assert s.weights @ losses <= risk(losses) + 1e-12
        values.append(s.value)
    assert values == sorted(values)
    assert values[-1] == pytest.approx(risk(losses), abs=1e-3)


def test_a_radius_smooths_to_itself_and_a_penalty_beside_it_costs_at_most_their_product() -> None:
    losses, strength = np.random.default_rng(9).normal(size=40), 0.3
    for risk in (lw.ChiSquare(radius=0.5), lw.KL(radius=0.5), lw.CressieRead(3.0, radius=0.5)):
        assert risk.smoothed(strength) is risk
    for vector in (losses, np.ones(40), np.r_[np.ones(39), 1 + 1e-9]):
        exact = lw.ChiSquare(radius=0.5)(vector)
        s = lw.ChiSquare(penalty=strength, radius=0.5).solve(vector)
        assert exact - strength * 0.5 - 1e-12 <= s.value <= exact + 1e-12
        assert np.mean((40 * s.weights - 1) ** 2) / 2 <= 0.5 + 1e-12


@pytest.mark.parametrize("risk", SMOOTH, ids=repr)
def test_curvature_bounds_the_diagonal_of_the_second_derivative(risk: lw.Risk) -> None:
    losses, step = np.random.default_rng(8).normal(size=15), 1e-6
    bound = risk.curvature(losses)
    assert bound.shape == (15,)
    for i in range(15):
        e = step * (np.arange(15) == i)
        slope = (risk.solve(losses + e).weights[i] - risk.solve(losses - e).weights[i]) / (2 * step)
        assert slope <= bound[i] + 1e-3 * (1 + bound[i])
