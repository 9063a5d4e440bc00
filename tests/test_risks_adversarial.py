"""A hundred thousand random and adversarial loss vectors: what must hold of every one of them.

Weights are non-negative, sum to 1 within 1e-12, lie in the risk's feasible set, and their price, recomputed here in
extended precision, is the value within 1e-10 of (max - min + |value|). A part of them is compared with the twins, and
where eta resolves the dual it is evaluated too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from reference import risk_catalogue as cat

Rng = np.random.Generator
pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="recomputes in extended precision, which this platform lacks"
)

BATCHES, ROWS = 8, 50  # for each risk and each kind of vector
SIZES = (1, 2, 2, 3, 5, 17, 64, 300)


def _one(value: float, rng: Rng, m: int, n: int) -> Any:
    losses = rng.normal(size=(m, n))
    losses[np.arange(m), rng.integers(n, size=m)] = value
    return losses


LOSSES: dict[str, Callable[[Rng, int, int], Any]] = {
    "normal": lambda rng, m, n: rng.normal(size=(m, n)),
    "ties": lambda rng, m, n: rng.integers(3, size=(m, n)).astype(float),
    "all equal": lambda rng, m, n: np.repeat(rng.choice([0.0, -7.3, 0.1, 1e300, -1e-300, 5e-324], size=(m, 1)), n, 1),
    "negative": lambda rng, m, n: -20 - rng.gamma(2, size=(m, n)),
    "one 1e300": lambda rng, m, n: _one(1e300, rng, m, n),
    "one -1e300": lambda rng, m, n: _one(-1e300, rng, m, n),
    "1e-300 to 1e300": lambda rng, m, n: rng.choice([-1, 1], size=(m, n)) * 10.0 ** rng.uniform(-300, 300, size=(m, n)),
    "range 1e-300": lambda rng, m, n: 1e-300 * rng.random(size=(m, n)),
    "subnormal": lambda rng, m, n: 5e-324 * rng.integers(-9, 9, size=(m, n)),
    "two values": lambda rng, m, n: rng.integers(2, size=(m, n)).astype(float),
    "large offset": lambda rng, m, n: 1e9 + rng.normal(size=(m, n)) * 1e-6,
    "one ulp below the maximum": lambda rng, m, n: rng.choice([1.0, np.nextafter(1, 0), 0.0], size=(m, n)),
    "sorted, heavy tails": lambda rng, m, n: np.sort(rng.standard_cauchy(size=(m, n)), axis=1)[
        :, :: rng.choice([-1, 1])
    ],
    "both ends of the range": lambda rng, m, n: 1.79e308 * rng.uniform(-1, 1, size=(m, n)),
}

BASE: list[Callable[[Rng, int], Any]] = [
    lambda rng, n: None,
    lambda rng, n: rng.random(n) + 1e-3,
    lambda rng, n: rng.integers(3, size=n) + np.eye(n)[rng.integers(n)],  # zeros, repeated rows
    lambda rng, n: np.eye(n)[rng.integers(n)],  # all the mass on one row
    lambda rng, n: 10.0 ** rng.uniform(-12, 3, size=n),
]


def _lam(rng: Rng, scale: float) -> float:
    lam = float(rng.choice([1e-12, 1e-3, 0.3, 1.0, 20.0, 1e6, 1e12]))
    relative = lam * scale
    return relative if rng.random() < 0.5 and 1e-300 < relative < 1e300 else lam


def _rho(rng: Rng, n: int) -> float:
    ceilings = (math.log(n), (n - 1) / 2, 1 - 1 / n)
    return float(rng.choice([0.0, 1e-12, 1e-4, 0.05, 0.5, 2.0, 10.0, 1e3, *ceilings]))


def _alpha(rng: Rng, n: int) -> float:
    return float(rng.choice([1.0, 0.999, 0.7, 0.3, 0.05, 1e-3, 1e-12, 1 / n, min(1.0, 2 / n)]))


def _k(rng: Rng) -> float:
    return float(rng.choice([1.05, 1.5, 2.0, 3.0, 10.0]))


RISKS: dict[str, Callable[[Rng, int, float], cat.Spec]] = {
    "mean": lambda rng, n, scale: cat.mean(),
    "worst": lambda rng, n, scale: cat.worst(),
    "cvar": lambda rng, n, scale: cat.cvar(_alpha(rng, n)),
    "kl penalty": lambda rng, n, scale: cat.kl_penalty(_lam(rng, scale)),
    "kl radius": lambda rng, n, scale: cat.kl_radius(_rho(rng, n)),
    "chi-square penalty": lambda rng, n, scale: cat.chi_square_penalty(_lam(rng, scale)),
    "chi-square radius": lambda rng, n, scale: cat.chi_square_radius(_rho(rng, n)),
    "chi-square both": lambda rng, n, scale: cat.chi_square_both(_lam(rng, scale), _rho(rng, n)),
    "kl-cvar": lambda rng, n, scale: cat.kl_cvar(_alpha(rng, n), _lam(rng, scale)),
    "smoothed cvar": lambda rng, n, scale: cat.smoothed_cvar(_alpha(rng, n), _lam(rng, scale)),
    "cressie-read penalty": lambda rng, n, scale: cat.cressie_read_penalty(_k(rng), _lam(rng, scale)),
    "cressie-read radius": lambda rng, n, scale: cat.cressie_read_radius(_k(rng), _rho(rng, n)),
    "kl both": lambda rng, n, scale: cat.kl_both(_lam(rng, scale), _rho(rng, n)),
    "cressie-read both": lambda rng, n, scale: cat.cressie_read_both(_k(rng), _lam(rng, scale), _rho(rng, n)),
    "total variation": lambda rng, n, scale: cat.total_variation(min(1.0, _rho(rng, n))),
    "tilted": lambda rng, n, scale: cat.tilted(float(rng.choice([-1, 1])) / _lam(rng, scale)),
    "superquantile": lambda rng, n, scale: cat.superquantile(_alpha(rng, n)),
    "extremile": lambda rng, n, scale: cat.extremile(float(rng.choice([1.0, 1.5, 2.0, 30.0]))),
    "exponential": lambda rng, n, scale: cat.exponential(float(rng.choice([1e-6, 0.5, 5.0, 600.0]))),
    "step spectrum": lambda rng, n, scale: cat.step_spectrum(np.sort(rng.random(n)) ** 2 + (np.arange(n) == n - 1)),
}


def test_the_sweep_holds_a_hundred_thousand_vectors() -> None:
    assert len(RISKS) * len(LOSSES) * BATCHES * ROWS >= 100_000


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("name", RISKS)
def test_every_vector_has_feasible_weights_that_attain_the_value(name: str, kind: str) -> None:
    rng = np.random.default_rng([list(RISKS).index(name), list(LOSSES).index(kind)])
    for batch in range(BATCHES):
        n = SIZES[batch]
        losses = LOSSES[kind](rng, ROWS, n)
        base = BASE[rng.integers(len(BASE))](rng, n)
        spec = RISKS[name](rng, n, max(float(np.ptp(losses[0].astype(np.longdouble))), 1e-300))
        s = spec.risk.solve(losses, base)
        context = (spec, n, None if base is None else base.tolist())
        _check(spec, losses, base, s.value, s.weights, s.gap, context)
        _check_dual(spec, losses, base, s, context)
        for row in (0, ROWS - 1):
            alone = spec.risk.solve(losses[row], base)
            assert alone.value == s.value[row], context
            assert np.array_equal(alone.weights, s.weights[row]), context
            want = spec.twin(losses[row], base)
            noise = _noise(spec, losses[row : row + 1], base, s.value[row : row + 1])
            assert np.abs(want.value - s.value[row]) <= noise, (context, row)


def _noise(spec: cat.Spec, losses: Any, base: Any, value: Any) -> Any:
    """1e-10 of the scale, and what rounding the weights and the value to double must cost."""
    seen = losses.astype(np.longdouble)
    if base is not None:
        seen = seen[:, np.asarray(base) > 0]
    scale = seen.max(axis=1) - seen.min(axis=1) + np.abs(value)
    return 1e-10 * scale + abs(spec.lam) * spec.floor + 2e-323


def _check(spec: cat.Spec, losses: Any, base: Any, value: Any, weights: Any, gap: Any, context: Any) -> None:
    noise = _noise(spec, losses, base, value)
    assert np.isfinite(value).all(), context
    assert np.all(weights >= 0), context
    assert np.abs(weights.sum(axis=1, dtype=np.longdouble) - 1).max() <= 1e-12, context
    if base is not None:
        assert not weights[:, np.asarray(base) == 0].any(), context
    assert np.all(np.abs(spec.primal(losses, weights, base) - value) <= noise), context
    assert np.all(np.abs(gap) <= noise), context
    if spec.rho is not None:  # a divergence is a difference of terms of order one, so it is met to their rounding
        assert np.all(spec.spent(weights, base) <= spec.rho * (1 + 1e-6) + max(spec.floor, 16 * cat.EPS)), context
    if spec.cap is not None:
        p = np.ones(losses.shape[1]) if base is None else np.asarray(base, dtype=float)
        assert np.all(weights <= p / p.sum() * (spec.cap * (1 + 1e-12))), context


def _check_dual(spec: cat.Spec, losses: Any, base: Any, s: Any, context: Any) -> None:
    """Weak duality at the returned (eta, multiplier), on the rows where doubles resolve (l - eta)/nu."""
    if spec.divergence is None:
        return
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        resolved = cat.EPS * np.abs(losses).max(axis=1) / s.multiplier <= 1e-9
    resolved &= np.isfinite(s.multiplier) & (s.multiplier > 1e-290)
    if not resolved.any():
        return
    rows = losses[resolved]
    dual = spec.dual(rows, s.eta[resolved], s.multiplier[resolved], base)
    assert np.all(np.abs(dual - s.value[resolved]) <= _noise(spec, rows, base, s.value[resolved])), context
