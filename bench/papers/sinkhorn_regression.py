"""Appendix A.1 of Yang, Zhou and Lu (2025): linear regression on synthetic data, tested on rows with noise; run by sinkhorn_dro.py."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
from intervals import half_width
from sinkhorn_settings import MAIN, REGRESSION, Preset, fit

import leeward as lw

SIZES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def regression_seed(preset: Preset, seed: int) -> dict[str, Any]:
    """Mean squared errors (law, size) on moved test rows. Features are standardised by the training rows and x* has length 1.

    The loss is (x.w - y)^2, twice that of `LinearModel`: half of lam and of eta, and twice the steps of w.
    """
    rng = np.random.default_rng(seed)
    best = rng.normal(0.0, 0.1, 10)
    best /= np.linalg.norm(best)
    X, T = (rng.normal(0.5, math.sqrt(0.1), (n, 10)) for n in (3000, 500))
    mean, sd = X.mean(axis=0), X.std(axis=0)
    X, T = (X - mean) / sd, (T - mean) / sd
    y, target = (Z @ best + rng.normal(0.0, 0.1, len(Z)) for Z in (X, T))
    model = lw.LinearModel(X, y, "squared", intercept=False, threads=1)
    w0 = best + rng.normal(size=10)
    moves = {"white noise": rng.normal(size=T.shape), "Laplace": rng.laplace(size=T.shape)}
    halved = replace(
        preset,
        lam=preset.lam / 2,
        inner_start=preset.inner_start / 2,
        inner_step=preset.inner_step / 2,
        f_start=preset.f_start / 2,
        step=2 * preset.step,
        f_step=preset.f_step,  # a length of moves in normalised SGD
        erm_step=2 * preset.erm_step,
    )
    plain = replace(halved, f_step=2 * preset.f_step)
    out = {}
    for method in (*MAIN, "f-DRO, plain SGD"):
        w = fit(model, method, plain if method == "f-DRO, plain SGD" else halved, w0, seed).w
        out[method] = np.array([[np.mean(((T + s * z) @ w - target) ** 2) for s in SIZES] for z in moves.values()])
    return out


def regression(names: list[str], seeds: tuple[int, ...], passes: float, pool: Any) -> dict[str, Any]:
    results = {}
    for name in names:
        preset = replace(REGRESSION[name], passes=passes)
        found = list(pool.map(lambda seed, p=preset: regression_seed(p, seed), seeds))
        methods = list(found[0])
        print(
            f"\nregression, preset of the {name}: mean squared error on moved test rows (mean over {len(seeds)} seeds +- 95 %)"
        )
        print(f"{'law, size':<20}" + "".join(f"{m:>22}" for m in methods))
        for j, law in enumerate(("white noise", "Laplace")):
            for k, size in enumerate(SIZES):
                cells = ""
                for m in methods:
                    x = np.array([s[m][j, k] for s in found])
                    cells += f"{f'{x.mean():.4f} +- {half_width(x):.4f}':>22}"
                print(f"{f'{law} {size:g}':<20}{cells}")
        sys.stdout.flush()
        results[name] = {m: np.mean([s[m] for s in found], axis=0) for m in methods}
    return results
