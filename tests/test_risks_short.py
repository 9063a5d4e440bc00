"""Short vectors have kernels of their own: they agree with the passes that every other vector takes."""

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
]


def _vectors(size: int) -> list[NDArray[np.float64]]:
    g = np.random.default_rng(size)
    normal = g.normal(size=size)
    return [normal, g.exponential(size=size) ** 3, np.round(normal), 1e6 + normal, -g.pareto(1.0, size=size)]


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_a_short_vector_has_the_answer_of_the_general_passes(risk: lw.Risk) -> None:
    for size in (2, 15, 16, 17, 32, 33, 127, 128):
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
