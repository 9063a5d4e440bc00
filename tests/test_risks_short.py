"""Short vectors, and rows of them, have kernels of their own: they agree with the passes that every other vector takes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import leeward as lw

RISKS: list[lw.Risk] = [
    *(lw.ChiSquare(penalty=p) for p in (1e-6, 0.5, 1e6)),
    *(lw.ChiSquare(radius=r) for r in (1e-9, 0.01, 1.0, 40.0)),
    lw.ChiSquare(penalty=0.3, radius=0.5),
    *(lw.KLCVaR(a, penalty=p) for a in (0.01, 0.1, 0.99) for p in (0.003, 0.1, 30.0)),
    *(lw.SmoothedCVaR(a, penalty=p) for a in (1e-6, 0.1, 0.99) for p in (0.003, 0.1, 30.0)),
    *(lw.KL(penalty=p) for p in (1e-6, 0.5, 1e6)),
    lw.Tilted(2.0),
    lw.Spectral.extremile(2.5),
    lw.Spectral.extremile(2.5, penalty=0.1),
    lw.Spectral.extremile(40.0, penalty=0.01),
    lw.Spectral.exponential(3.0),
    *(lw.Spectral([0.0, 0.1, 0.1, 0.7], penalty=p) for p in (None, 1e-6, 0.03, 1.0, 30.0)),
    lw.TotalVariation(0.25, penalty=0.3),
    *(lw.CressieRead(k, radius=r) for k in (1.07, 1.5, 2.5) for r in (0.02, 0.4, 5.0)),
    *(lw.CressieRead(k, penalty=p, radius=0.2) for k in (1.5, 3.0) for p in (0.03, 3.0)),
    *(lw.CressieRead(k, penalty=p) for k in (1.07, 1.5, 2.5, 3.0, 5.0) for p in (0.003, 0.1, 30.0)),
]


def _vectors(size: int) -> list[NDArray[np.float64]]:
    g = np.random.default_rng(size)
    normal = g.normal(size=size)
    return [normal, g.exponential(size=size) ** 3, np.round(normal), 1e6 + normal, -g.pareto(1.0, size=size)]


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_a_short_vector_has_the_answer_of_the_general_passes(risk: lw.Risk) -> None:
    for size in (2, 15, 16, 17, 33, 128, 129, 512, 1023, 1024):
        for losses in _vectors(size):
            short = risk.solve(losses)
            general = risk.solve(losses, sample_weight=np.ones(size))  # base weights never take the short way
            scale = np.ptp(losses) + abs(general.value)
            assert np.abs(short.weights - general.weights).max() <= 1e-13
            assert abs(short.value - general.value) <= 1e-14 * scale
            assert abs(short.gap) <= 1e-13 * scale
            assert abs(short.effective_sample_size / general.effective_sample_size - 1) <= 1e-12
            assert risk(losses) == short.value


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_a_row_of_many_has_the_bits_of_the_row_alone(risk: lw.Risk) -> None:
    rows = np.stack(_vectors(32) * 700)  # enough losses for several threads
    many = risk.solve(rows, threads=2)
    for i in (0, 1, 2, 3, 4, 3499):
        alone = risk.solve(rows[i])
        assert many.value[i] == alone.value
        assert np.array_equal(many.weights[i], alone.weights)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_side_by_side_have_the_bits_of_each_alone(risk: lw.Risk, dtype: type) -> None:
    for size in (1, 5, 16, 17, 129):
        rows = np.stack([*_vectors(size), np.full(size, -3.0), 1e-9 * np.arange(size), 1e12 * _vectors(size)[0]] * 2)[
            :13
        ].astype(dtype)
        many, values = risk.solve(rows), risk(rows)
        for i, row in enumerate(rows):
            alone = risk.solve(row)
            names = ("value", "eta", "multiplier", "gap", "effective_sample_size", "iterations")
            np.testing.assert_array_equal(
                [getattr(many, name)[i] for name in names], [getattr(alone, name) for name in names]
            )
            np.testing.assert_array_equal(many.weights[i], alone.weights)
            assert values[i] == alone.value


@pytest.mark.parametrize("k", [1.2, 1.5, 2.5, 3.0])
def test_ratios_next_to_the_edge_of_a_power_are_found_again(k: float) -> None:
    """Losses made from ratios r, one of them 1e-5: eta to the last digits, r to what the losses' own digits tell."""
    ratios = np.array([1e-5, 0.5, 1.0, 1.2, 1.3, 0.0, 0.0])
    ratios[4] += ratios.size - ratios.sum()
    penalty, a = 0.7, 1.0 / (k - 1.0)
    losses = np.where(ratios > 0, penalty * a * ratios ** (k - 1.0), -0.125)
    s = lw.CressieRead(k, penalty=penalty).solve(np.stack([losses, losses[::-1]]))
    assert s.eta == pytest.approx(penalty * a, rel=1e-14)
    for found in (s.weights[0], s.weights[1, ::-1]):
        assert found * ratios.size == pytest.approx(ratios, rel=1e-13, abs=2e-11)


def test_losses_that_are_not_finite_are_named_among_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(21, 8))
    rows[19, 3] = np.nan
    with pytest.raises(ValueError, match=r"losses\[19, 3\] is nan"):
        lw.CressieRead(3.0, penalty=0.5).solve(rows)
